// Simulated devices: the CPU's kernels on memory that nothing else may touch (arena.h), with the
// counts, limits and random numbers of a device.
#include <cstdlib>
#include <cstring>

#include "engine/cpu/device/arena.h"
#include "engine/cpu/elementwise/run.h"
#include "engine/tensor/backend.h"

namespace tycho::cpu {
namespace {

// TYCHO_MEMORY_LIMIT_MB bounds every device from the start: tests and shared machines use it.
int64_t limit_from_environment() {
  const char* text = std::getenv("TYCHO_MEMORY_LIMIT_MB");
  const int64_t mb = text ? std::strtoll(text, nullptr, 10) : 0;
  return mb > 0 && mb <= int64_t{1} << 40 ? mb << 20 : 0;
}

struct SimulatedDevice {
  Arena arena;
  DeviceMemory memory{arena};

  SimulatedDevice() { memory.set_capacity(limit_from_environment()); }
};

// Never destroyed: tensors may outlive the end of main.
SimulatedDevice& device_of(Device d) {
  static auto* devices = new SimulatedDevice[kMaxCudaDevices];
  return devices[d.number];
}

// What a row reads and writes: the devices of its tensors.
uint32_t devices_of(const Value* args, int n, const Impl* out) {
  uint32_t mask = KernelScope::bit(out->device);
  for (int i = 0; i < n; ++i)
    if (args[i].tag == Tag::Tensor) mask |= KernelScope::bit(args[i].t->device);
  return mask;
}

struct Simulated final : Backend {
  constexpr Simulated() : Backend("simulated cuda", RandomKind::Philox) {}
  int devices() override { return cuda_device_count(); }

  void* allocate(Device d, size_t bytes) override { return device_of(d).memory.allocate(bytes); }
  void release(Device d, void* memory, size_t bytes) override {
    device_of(d).memory.release(memory, bytes);
  }
  int64_t live_bytes(Device d) override { return device_of(d).memory.live_bytes(); }
  MemoryStats memory_stats(Device d) override { return device_of(d).memory.stats(); }
  void reset_peak_memory(Device d) override { device_of(d).memory.reset_peak(); }
  void empty_cache(Device d) override { device_of(d).memory.empty_cache(); }
  void set_capacity(Device d, int64_t bytes) override { device_of(d).memory.set_capacity(bytes); }

  void read(Device d, void* to, const void* from, size_t bytes) override {
    const KernelScope scope(KernelScope::bit(d));
    std::memcpy(to, from, bytes);
  }
  void copy(const Tensor& to, const Tensor& from) override {
    const KernelScope scope(KernelScope::bit(to.device()) | KernelScope::bit(from.device()));
    cpu::copy(to, from);
  }
  void fill(const Tensor& to, const void* element) override {
    const KernelScope scope(KernelScope::bit(to.device()));
    cpu::fill(to, element);
  }
  void run_row(int row, DType compute, const Value* args, int n, Impl* out) override {
    const KernelScope scope(devices_of(args, n, out));
    cpu::run_row(row, compute, args, n, out);
  }

  void begin_kernel(Device d) override { device_of(d).arena.open(); }
  void end_kernel(Device d) override { device_of(d).arena.close(); }
  void synchronize(Device) override {}
};

constinit Simulated simulated;
[[maybe_unused]] const bool registered = set_backend(false, &simulated);

}  // namespace
}  // namespace tycho::cpu
