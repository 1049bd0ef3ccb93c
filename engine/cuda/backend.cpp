// Backend of NVIDIA's GPUs.
#include "engine/tensor/backend.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/cuda/context.h"
#include "engine/cuda/graph.h"
#include "engine/cuda/launch.h"
#include "engine/cuda/pinned.h"
#include "engine/cuda/programs.h"
#include "engine/cuda/rows.h"
#include "engine/cuda/start.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cuda {
namespace {

struct Cuda final : Backend {
  constexpr Cuda() : Backend("cuda", RandomKind::Philox) {}
  int devices() override { return count_devices(); }
  DeviceInfo info(Device d) override {
    const DeviceContext& device = context_of(d);
    return {device.name, device.arch / 10, device.arch % 10, device.multiprocessors};
  }

  bool allocate(Storage& s) override {
    DeviceContext& device = context_of(s.device);
    const StreamId home = device.current();
    s.data = device.memory->allocate(s.bytes, home);
    s.home = static_cast<uint16_t>(home);
    if (s.data && device.streams > 1) device.begin(s, home);
    return s.data;
  }
  void release(Storage& s) override { context_of(s.device).memory->release(s); }
  int64_t live_bytes(Device d) override { return context_of(d).memory->bins().live_bytes(); }
  MemoryStats memory_stats(Device d) override { return context_of(d).memory->bins().stats(); }
  void reset_peak_memory(Device d) override { context_of(d).memory->bins().reset_peak(); }
  void empty_cache(Device d) override { context_of(d).memory->empty_cache(); }
  void set_capacity(Device d, int64_t bytes) override {
    context_of(d).memory->bins().set_capacity(bytes);
  }
  int64_t capacity(Device d) override {
    const int64_t limit = context_of(d).memory->bins().capacity();
    return limit > 0 ? limit : static_cast<int64_t>(context_of(d).total);
  }

  void read(Device d, void* to, const void* from, size_t bytes) override {
    not_while_capturing(d, "reading values");
    DeviceContext& device = context_of(d);
    const Stream stream = stream_of(d);
    finish(device, stream);
    check(driver().copy_down(to, reinterpret_cast<Address>(from), bytes, stream),
          "reading from a device");
    check(driver().finish_stream(stream), "reading from a device");
    raise_faults(d);
  }
  void copy(const Tensor& to, const Tensor& from) override { cuda::copy(to, from); }
  void fill(const Tensor& to, const void* element) override { cuda::fill(to, element); }
  void run_row(int row, DType compute, const Value* args, int n, Impl* out) override {
    cuda::run_row(row, compute, args, n, out);
  }
  void run_rows(const RowProgram& p) override { cuda::run_rows(p); }

  void begin_kernel(Device d) override { raise_faults(d); }
  void end_kernel(Device) override {}
  void synchronize(Device d) override {
    not_while_capturing(d, "waiting for the device");
    DeviceContext& device = context_of(d);
    device.finish_all();
    forget_arrived(device);
    raise_faults(d);
  }
  void finish_all() override {
    for (int8_t i = 0; i < kMaxCudaDevices; ++i)
      if (in_use(Device{i})) synchronize(Device{i});
  }

  StreamId new_stream(Device d) override {
    DeviceContext& device = context_of(d);
    size_t at = 1;
    bool alone;
    {
      const std::lock_guard lock(device.mutex);
      while (at < device.queues.size() && device.queues[at].used) ++at;
      Stream stream = nullptr;
      check(driver().new_stream(&stream, kNonBlocking), "a new stream");
      if (at == device.queues.size()) device.queues.emplace_back();
      device.queues[at].stream = stream;
      device.queues[at].used = true;
      device.queues[at].waited.clear();
      alone = device.streams++ == 1;
    }
    // What was asked while there was one stream has nothing but its order. Later on nobody waits here:
    // the stream may wait for what comes after this one.
    if (alone) finish(device, device.stream(0));
    return static_cast<StreamId>(at);
  }
  void release_stream(Device d, StreamId s) override {
    if (s == 0) return;
    DeviceContext& device = context_of(d);
    {
      const std::lock_guard lock(device.mutex);
      Queue& q = device.queues[static_cast<size_t>(s)];
      if (q.captured) return (void)(q.ends_later = true);
    }
    finish(device, device.stream(s));
    {
      const std::lock_guard lock(device.mutex);
      Queue& q = device.queues[static_cast<size_t>(s)];
      for (const Queue::Mark& mark : q.open) driver().end_event(mark.event);
      q.open.clear();
      check(driver().end_stream(q.stream), "the end of a stream");
      q.stream = nullptr;
      q.used = false;
      --device.streams;
    }
    device.memory->end_stream(s);
  }
  void use(const Impl* t, bool writes) override {
    DeviceContext& device = context_of(t->device);
    if (device.streams > 1) device.use(*t->storage, current_stream(t->device), writes);
  }
  uint64_t mark(Device d, StreamId s) override {
    DeviceContext& device = context_of(d);
    const std::lock_guard lock(device.mutex);
    Queue& q = device.queues[static_cast<size_t>(s)];
    forget_passed(q);
    Event event = nullptr;
    check(driver().new_event(&event, kEventWithoutTime), "a mark in a stream");
    check(driver().record_event(event, q.stream), "a mark in a stream");
    (q.captured ? q.inside : q.open).push_back({++q.marks, event});
    return q.marks;
  }
  bool passed(Device d, StreamId s, uint64_t mark) override {
    not_while_capturing(d, "asking how far a stream is");
    DeviceContext& device = context_of(d);
    const std::lock_guard lock(device.mutex);
    Queue& q = device.queues[static_cast<size_t>(s)];
    forget_passed(q);
    return q.open.empty() || q.open.front().number > mark;
  }
  void wait(Device d, StreamId s, uint64_t mark) override {
    not_while_capturing(d, "waiting for a stream");
    if (!passed(d, s, mark)) finish(context_of(d), context_of(d).stream(s));
    raise_faults(d);
  }
  void wait_on_device(Device waiting_on, StreamId waiting, Device d, StreamId s,
                      uint64_t mark) override {
    const Stream stream = context_of(waiting_on).stream(waiting);
    DeviceContext& device = context_of(d);
    const std::lock_guard lock(device.mutex);
    Queue& q = device.queues[static_cast<size_t>(s)];
    if (waiting_on == d && q.captured) join_capture(device, waiting);
    forget_passed(q);
    for (const auto* marks : {&q.open, &q.inside})
      for (const Queue::Mark& m : *marks)
        if (m.number >= mark)
          return check(driver().stream_waits(stream, m.event, 0),
                       "a stream that waits for another");
  }
  std::unique_ptr<Recording> record(Device d, StreamId s, int64_t pool) override {
    return std::make_unique<GraphRecording>(context_of(d), s, pool);
  }
  void copy_later(const Tensor& to, const Tensor& from, bool) override {
    cuda::copy_later(to, from);
  }
  void* allocate_pinned(size_t bytes) override { return cuda::allocate_pinned(bytes); }
  void release_pinned(void* memory, size_t bytes) override { cuda::release_pinned(memory, bytes); }

  int64_t new_time(Device d, StreamId s) override {
    not_while_capturing(d, "measuring time");
    DeviceContext& device = context_of(d);
    const Stream stream = device.stream(s);
    Event event = nullptr;
    check(driver().new_event(&event, 0), "an event");
    const std::lock_guard lock(device.mutex);
    device.times[++device.last_time] = event;
    check(driver().record_event(event, stream), "an event");
    return device.last_time;
  }
  void release_time(Device d, int64_t time) override {
    DeviceContext& device = context_of(d);
    const std::lock_guard lock(device.mutex);
    const auto it = device.times.find(time);
    if (it == device.times.end()) return;
    driver().end_event(it->second);
    device.times.erase(it);
  }
  double milliseconds(Device d, int64_t from, int64_t to) override {
    DeviceContext& device = context_of(d);
    const std::lock_guard lock(device.mutex);
    const auto a = device.times.find(from), b = device.times.find(to);
    TYCHO_CHECK(Kind::Value, a != device.times.end() && b != device.times.end(),
                "the device has no such event");
    float milliseconds = 0;
    check(driver().time_between(&milliseconds, a->second, b->second), "the time between events");
    return static_cast<double>(milliseconds);
  }

 private:
  // A stream that waits for one of a graph takes part in it. Called with the device's lock.
  static void join_capture(DeviceContext& d, StreamId s) {
    Queue& q = d.queues[static_cast<size_t>(s)];
    if (q.captured) return;
    q.captured = true;
    d.forget_others(q);
    if (const GraphRecording* r = recording_on(d.device)) d.memory->fork(r->pool());
  }
  // The oldest marks that the stream has passed.
  static void forget_passed(Queue& q) {
    while (!q.open.empty() && driver().ask_event(q.open.front().event) != kNotReady) {
      driver().end_event(q.open.front().event);
      q.open.pop_front();
    }
  }
};

constinit Cuda cuda_backend;

}  // namespace

int start() {
  const int n = count_devices();
  if (!has_new_enough()) return 0;
  set_backend(false, &cuda_backend);
  bind_kernels();
  tycho::detail::cuda_kernels = BackendKind::Cuda;
  tycho::detail::device_count = n;
  return n;
}

}  // namespace tycho::cuda
