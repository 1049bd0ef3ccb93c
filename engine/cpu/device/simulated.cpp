// Simulated devices: the CPU's kernels on memory that nothing else may touch (arena.h), with the
// counts, limits, streams and random numbers of a device. Kernels run when they are asked for;
// copies that the host does not wait for run later (streams.h).
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "engine/base/check.h"
#include "engine/base/parallel.h"
#include "engine/cpu/device/arena.h"
#include "engine/cpu/device/recording.h"
#include "engine/cpu/device/streams.h"
#include "engine/cpu/elementwise/run.h"
#include "engine/ops/elementwise/row_program.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/recorded_call.h"
#include "engine/tensor/backend.h"

namespace tycho::cpu {
namespace {

// "512M", "1.5GB", "2 GiB", bytes; 0 for what is no size.
int64_t bytes_of(const char* text) {
  char* end;
  double bytes = std::strtod(text, &end);
  while (*end == ' ') ++end;
  const char* const units = "kmgt";
  if (const char* unit = *end ? std::strchr(units, *end | 0x20) : nullptr) {
    bytes *= static_cast<double>(int64_t{1} << (10 * (unit - units + 1)));
    if (*++end == 'i') ++end;
  }
  if ((*end | 0x20) == 'b') ++end;
  return *end == 0 && bytes >= 1 && bytes <= 0x1p50 ? static_cast<int64_t>(bytes) : 0;
}

// TYCHO_SIMULATE_MEMORY is what each simulated device has.
// TYCHO_MEMORY_LIMIT_MB bounds every device from the start: tests and shared machines use it.
int64_t limit_from_environment() {
  if (const char* text = std::getenv("TYCHO_SIMULATE_MEMORY")) {
    if (const int64_t bytes = bytes_of(text)) return bytes;
    std::fprintf(stderr,
                 "tycho: TYCHO_SIMULATE_MEMORY=%.40s is no size (512M, 1.5G, a number of bytes); "
                 "simulated devices have the machine's memory\n",
                 text);
  }
  const char* text = std::getenv("TYCHO_MEMORY_LIMIT_MB");
  const int64_t mb = text ? std::strtoll(text, nullptr, 10) : 0;
  return mb > 0 && mb <= int64_t{1} << 40 ? mb << 20 : 0;
}

int64_t host_memory() { return int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE); }

struct SimulatedDevice {
  Arena arena;
  DeviceMemory memory{arena};
  Streams streams;

  SimulatedDevice() {
    static const int64_t limit = limit_from_environment();
    memory.set_capacity(limit);
  }
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

// A step of a graph changes what caches know of a tensor by its version.
void changed(const Tensor& t) { ++t->storage->version; }

struct Simulated final : Backend {
  constexpr Simulated() : Backend("simulated cuda", RandomKind::Philox) {}
  int devices() override { return cuda_device_count(); }
  // Of a compute capability that computes what the CPU's kernels do.
  DeviceInfo info(Device d) override {
    return {format("simulated CUDA device %d (on the CPU)", d.number), 8, 0, get_num_threads(),
            true};
  }

  bool allocate(Storage& s) override {
    SimulatedDevice& device = device_of(s.device);
    s.data = device.memory.allocate(s.bytes);
    if (s.data || !device.streams.any()) return s.data;
    device.streams.finish();  // copies on their way hold memory
    s.data = device.memory.allocate(s.bytes);
    return s.data;
  }
  void release(Storage& s) override { device_of(s.device).memory.release(s.data, s.bytes); }
  int64_t live_bytes(Device d) override { return device_of(d).memory.live_bytes(); }
  MemoryStats memory_stats(Device d) override { return device_of(d).memory.stats(); }
  void reset_peak_memory(Device d) override { device_of(d).memory.reset_peak(); }
  void empty_cache(Device d) override { device_of(d).memory.empty_cache(); }
  void set_capacity(Device d, int64_t bytes) override { device_of(d).memory.set_capacity(bytes); }
  int64_t capacity(Device d) override {
    const int64_t limit = device_of(d).memory.capacity();
    return limit > 0 ? limit : host_memory();
  }

  void read(Device d, void* to, const void* from, size_t bytes) override {
    not_while_capturing(d, "reading values");
    const KernelScope scope(KernelScope::bit(d));
    std::memcpy(to, from, bytes);
  }
  void copy(const Tensor& to, const Tensor& from) override {
    if (capturing) [[unlikely]]
      if (record_copy(to, from, true)) return;
    const KernelScope scope(KernelScope::bit(to.device()) | KernelScope::bit(from.device()));
    cpu::copy(to, from);
  }
  void fill(const Tensor& to, const void* element) override {
    if (SimulatedRecording* r = recording_on(to.device())) [[unlikely]] {
      const auto* bytes = static_cast<const char*>(element);
      return r->add([this, to = as_it_lies(to),
                     element = std::vector<char>(bytes, bytes + dtype_size(to.dtype()))] {
        fill(to, element.data());
        changed(to);
      });
    }
    const KernelScope scope(KernelScope::bit(to.device()));
    cpu::fill(to, element);
  }
  void run_row(int row, DType compute, const Value* args, int n, Impl* out) override {
    if (SimulatedRecording* r = recording_on(out->device)) [[unlikely]]
      return record_row(*r, row, compute, args, n, out);
    const KernelScope scope(devices_of(args, n, out));
    cpu::run_row(row, compute, args, n, out);
  }

  void run_rows(const RowProgram& p) override {
    if (SimulatedRecording* r = recording_on(p.device)) [[unlikely]]
      return record_rows(*r, p);
    const KernelScope scope(KernelScope::bit(p.device));
    cpu::run_rows(p);
  }

  void begin_kernel(Device d) override {
    not_while_capturing(d, "a simulated device cannot do this");
    SimulatedDevice& device = device_of(d);
    if (device.streams.any()) [[unlikely]]
      device.streams.finish(current_stream(d));
    device.arena.open();
  }
  void end_kernel(Device d) override { device_of(d).arena.close(); }
  void synchronize(Device d) override {
    not_while_capturing(d, "waiting for the device");
    device_of(d).streams.finish();
  }

  StreamId new_stream(Device d) override { return device_of(d).streams.add(); }
  void release_stream(Device d, StreamId s) override { device_of(d).streams.remove(s); }
  uint64_t mark(Device d, StreamId s) override { return device_of(d).streams.mark(s); }
  bool passed(Device d, StreamId s, uint64_t mark) override {
    not_while_capturing(d, "asking how far a stream is");
    return device_of(d).streams.passed(s, mark);
  }
  void wait(Device d, StreamId s, uint64_t mark) override {
    not_while_capturing(d, "waiting for a stream");
    device_of(d).streams.finish(s, mark);
  }
  // Kernels run at once, so what a stream is to wait for has to be there at once.
  void wait_on_device(Device, StreamId, Device d, StreamId s, uint64_t mark) override {
    if (!capturing_on(d)) device_of(d).streams.finish(s, mark);
  }
  std::unique_ptr<Recording> record(Device d, StreamId, int64_t) override {
    return std::make_unique<SimulatedRecording>(d);
  }
  void copy_later(const Tensor& to, const Tensor& from, bool fresh) override {
    if (capturing) [[unlikely]]
      if (record_copy(to, from, false)) return;
    const bool up = from.device().is_cpu();
    // What a device cannot read by itself is read before the call returns; devices among each other
    // keep the order of both.
    if ((up && !is_pinned(*from->storage)) || (!up && !to.device().is_cpu())) return copy(to, from);
    const Device d = up ? to.device() : from.device();
    device_of(d).streams.copy_later(current_stream(d), to, from, fresh);
  }

 private:
  // False where the copy has nothing to do with the graph. What a GPU cannot keep is refused here too.
  bool record_copy(const Tensor& to, const Tensor& from, bool host_waits) {
    Graph* g = capturing_on(to.device());
    if (!g) g = capturing_on(from.device());
    if (!g) return false;
    const Tensor& other = to.device() == g->device() ? from : to;
    if (other.device().is_cpu()) {
      if (!is_pinned(*other->storage))
        g->refuse("a copy between the device and memory that is not pinned");
      if (host_waits && &other == &to) g->refuse("a copy to the host that is waited for");
    } else if (!(other.device() == g->device())) {
      g->refuse("a copy between devices");
    }
    recording_on(g->device())->add([this, to = as_it_lies(to), from = as_it_lies(from)] {
      copy(to, from);
      changed(to);
    });
    return true;
  }
  void record_rows(SimulatedRecording& r, const RowProgram& p) {
    std::vector<Ref<Storage>> read, written;
    for (int i = 0; i < p.inputs; ++i) read.emplace_back(p.input[i].storage);
    for (int k = 0; k < p.steps; ++k)
      if (p.step[k].to) written.emplace_back(p.step[k].storage);
    r.add([this, p, read, written] {
      run_rows(p);
      for (const Ref<Storage>& s : written) ++s->version;
    });
  }
  void record_row(SimulatedRecording& r, int row, DType compute, const Value* args, int n,
                  Impl* out) {
    struct Kept {
      RecordedArgs all;
      std::vector<Value> args;
      Tensor out;
    };
    auto kept = std::make_shared<Kept>();
    for (int i = 0; i < n; ++i) kept->args.push_back(kept->all.keep(args[i]));
    kept->out = kept->all.keep(out);
    r.add([this, row, compute, kept] {
      run_row(row, compute, kept->args.data(), static_cast<int>(kept->args.size()),
              kept->out.get());
      changed(kept->out);
    });
    straighten(Tensor(out));
  }
};

constinit Simulated simulated;
[[maybe_unused]] const bool simulated_registered = set_backend(false, &simulated);

}  // namespace
}  // namespace tycho::cpu
