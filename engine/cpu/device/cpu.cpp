// The CPU's backend: the caching allocator of base/memory.h and the kernels beside it.
#include <unistd.h>

#include <cstring>

#include "engine/cpu/elementwise/run.h"
#include "engine/tensor/backend.h"

namespace tycho::cpu {
namespace {

struct Cpu final : Backend {
  constexpr Cpu() : Backend("cpu", RandomKind::Mersenne) {}
  int devices() override { return 1; }

  bool allocate(Storage& s) override { return (s.data = tycho::allocate(s.bytes)) != nullptr; }
  void release(Storage& s) override { tycho::release(s.data, s.bytes); }
  int64_t live_bytes(Device) override { return tycho::live_bytes(); }
  MemoryStats memory_stats(Device) override { return tycho::memory_stats(); }
  void reset_peak_memory(Device) override { tycho::reset_peak_memory(); }
  void empty_cache(Device) override { tycho::empty_cache(); }
  void set_capacity(Device, int64_t bytes) override { tycho::set_capacity(bytes); }
  int64_t capacity(Device) override {
    return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  }

  void read(Device, void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void copy(const Tensor& to, const Tensor& from) override { cpu::copy(to, from); }
  void fill(const Tensor& to, const void* element) override { cpu::fill(to, element); }
  void run_row(int row, DType compute, const Value* args, int n, Impl* out) override {
    cpu::run_row(row, compute, args, n, out);
  }
  void run_few(int row, DType type, void* const* p, int64_t n) override {
    cpu::run_few(row, type, p, n);
  }
  void run_rows(const RowProgram& p) override { cpu::run_rows(p); }
  bool has_zero(const Impl* t) override { return cpu::has_zero(t); }

  void begin_kernel(Device) override {}
  void end_kernel(Device) override {}
  void synchronize(Device) override {}
};

constinit Cpu cpu;
[[maybe_unused]] const bool cpu_registered = set_backend(true, &cpu);

}  // namespace
}  // namespace tycho::cpu
