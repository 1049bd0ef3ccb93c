// Backend: what a kind of device is to the layers above. The CPU and the simulated devices have
// theirs in engine/cpu/device; each registers itself at start, because layers look down only. What
// is called for every small tensor asks `device.is_cpu()` first and stays inline for the CPU.
//
// Tensors given to a backend lie on its devices, but for the other side of a copy.
//
// A device's work stands in queues, its streams. Work goes to the calling thread's current stream of
// the device, 0 unless it chose another. A mark says how far a stream's queue was when it was made.
#pragma once
#include <cstdlib>
#include <memory>

#include "engine/base/memory.h"
#include "engine/tensor/tensor.h"

namespace tycho {

struct Value;       // ops/table/op.h
struct RowProgram;  // ops/elementwise/row_program.h
struct Recording;   // tensor/graph.h

// What the numbers of a device's generators are: PyTorch's CPU stream, which is drawn one after the
// other, or Philox (base/philox.h), where every element's number follows from its place.
enum class RandomKind : uint8_t { Mersenne, Philox };

using StreamId = int32_t;

struct DeviceInfo {
  std::string name;
  int major = 0, minor = 0;  // the compute capability
  int multiprocessors = 0;
  bool simulated = false;  // kernels run as they are asked for
};

struct Backend {
  const char* name;
  RandomKind random;

  constexpr Backend(const char* name, RandomKind random) : name(name), random(random) {}
  virtual int devices() = 0;
  virtual DeviceInfo info(Device) { return {}; }

  // Memory for a storage as engine/base/memory.h says it, for the current stream: 64-byte aligned;
  // false when there is none.
  virtual bool allocate(Storage& s) = 0;
  virtual void release(Storage& s) = 0;
  virtual int64_t live_bytes(Device device) = 0;
  virtual MemoryStats memory_stats(Device device) = 0;
  virtual void reset_peak_memory(Device device) = 0;
  virtual void empty_cache(Device device) = 0;
  virtual void set_capacity(Device device, int64_t bytes) = 0;
  // What the device has, or is limited to.
  virtual int64_t capacity(Device device) = 0;

  // Bytes of a device's memory to the host's.
  virtual void read(Device device, void* to, const void* from, size_t bytes) = 0;
  // Values into a tensor of the same shape (or a broadcast one) in any layout, converted to its
  // type. One of the two may lie on the host or on another device of this kind.
  virtual void copy(const Tensor& to, const Tensor& from) = 0;
  // `element` lies on the host and has the tensor's type.
  virtual void fill(const Tensor& to, const void* element) = 0;
  // A row of elementwise.def: operands as in the call, the result in `out`, which has its shape.
  virtual void run_row(int row, DType compute, const Value* args, int n, Impl* out) = 0;
  // Several rows in one, where rows are held back (fuse/fuse.h).
  virtual void run_rows(const RowProgram&) = 0;

  // Kernels of this kind run on the device between the two. Calls nest, on any thread.
  virtual void begin_kernel(Device device) = 0;
  virtual void end_kernel(Device device) = 0;
  // Waits until everything asked of the device is done.
  virtual void synchronize(Device device) = 0;
  // The same for every device that has been used, where what went wrong there may not be told yet.
  virtual void finish_all() {}

  // --- streams: of devices whose work does not happen as it is asked for ---
  virtual StreamId new_stream(Device) { return 0; }
  virtual void release_stream(Device, StreamId) {}
  virtual uint64_t mark(Device, StreamId) { return 0; }
  virtual bool passed(Device, StreamId, uint64_t) { return true; }
  // The host waits until the stream has passed its mark.
  virtual void wait(Device, StreamId, uint64_t) {}
  // What is asked of stream `waiting` from now on comes after that mark of another one.
  virtual void wait_on_device(Device waiting_on, StreamId waiting, Device, StreamId, uint64_t) {
    (void)waiting_on, (void)waiting;
  }
  // The current stream is about to read or write the tensor's memory: it waits for what other streams
  // have still to do with it. What kernels get passes here; copies and rows see to it themselves.
  virtual void use(const Impl*, bool writes) { (void)writes; }
  // As copy, but the host goes on before the values are there: between a device and pinned memory of
  // the host, or from a device to the host. `fresh`: nobody has seen the memory of `to` before.
  virtual void copy_later(const Tensor& to, const Tensor& from, bool fresh) {
    (void)fresh;
    copy(to, from);
  }

  // A point in a stream's time, as a number that is given back; the milliseconds between two of a
  // device that were passed.
  virtual int64_t new_time(Device, StreamId) { return 0; }
  virtual void release_time(Device, int64_t) {}
  virtual double milliseconds(Device, int64_t from, int64_t to) {
    (void)from, (void)to;
    return 0;
  }
  // Begins to keep what this thread asks of the device instead of doing it (graph.h). Everything
  // asked before is done.
  virtual std::unique_ptr<Recording> record(Device, StreamId, int64_t pool);
  // Memory of the host that the devices read by themselves; nullptr when there is none.
  virtual void* allocate_pinned(size_t bytes) { return tycho::allocate(bytes); }
  virtual void release_pinned(void* memory, size_t bytes) { tycho::release(memory, bytes); }

  // --- only the CPU is asked ---
  // A row without tensors: n contiguous elements of float32, float64 or int64, p[0] the result and
  // p[1..] the operands.
  virtual void run_few(int row, DType type, void* const* p, int64_t n) {
    (void)row, (void)type, (void)p, (void)n;
    abort();
  }
  virtual bool has_zero(const Impl*) { abort(); }  // for integers

 protected:
  ~Backend() = default;
};

StreamId current_stream(Device device);  // of this thread
void set_current_stream(Device device, StreamId stream);

// Row-major, in host memory that devices can read by themselves.
Tensor empty_pinned(const Sizes& shape, DType dtype);
bool is_pinned(const Storage& s);

namespace detail {
extern constinit Backend* backends[2];  // of the CPU, and of devices
}
bool set_backend(bool cpu, Backend* backend);
inline Backend& backend_of(Device device) { return *detail::backends[!device.is_cpu()]; }

// A kernel runs while this lives: it may touch the memory of the devices whose bits are set.
class KernelScope {
 public:
  explicit KernelScope(uint32_t devices) : devices_(devices) {
    if (devices_) [[unlikely]]
      begin();
  }
  ~KernelScope() {
    if (devices_) [[unlikely]]
      end();
  }
  KernelScope(const KernelScope&) = delete;

  static uint32_t bit(Device device) { return device.is_cpu() ? 0 : uint32_t{1} << device.number; }

 private:
  void begin() const;
  void end() const;
  uint32_t devices_;
};

}  // namespace tycho
