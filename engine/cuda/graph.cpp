// Capture, replay and the end of graphs.
#include "engine/cuda/graph.h"

#include <utility>

#include "engine/base/check.h"
#include "engine/ops/random/random.h"

namespace tycho::cuda {
namespace {

// Streams that take part in a capture are everybody's again; those that were released meanwhile go.
void forget_captured(DeviceContext& d) {
  std::vector<StreamId> released;
  {
    const std::lock_guard lock(d.mutex);
    for (size_t i = 0; i < d.queues.size(); ++i) {
      Queue& q = d.queues[i];
      for (const Queue::Mark& mark : q.inside) driver().end_event(mark.event);
      q.inside.clear();
      q.captured = false;
      if (std::exchange(q.ends_later, false)) released.push_back(static_cast<StreamId>(i));
    }
  }
  for (const StreamId s : released) backend_of(d.device).release_stream(d.device, s);
}

}  // namespace

GraphRecording::GraphRecording(DeviceContext& device, StreamId stream, PoolId pool)
    : device_(device),
      stream_(stream),
      pool_(pool),
      counters_(empty({2}, DType::Int64, device.device)) {
  device.memory->open_pool(pool);
  // What a captured call may do besides is our own affair: other threads and the pool's growth go on.
  const Result begun = driver().begin_capture(device.stream(stream), kCaptureRelaxed);
  if (begun != kSuccess) {
    device.memory->close_pool(pool);
    check(begun, "beginning a graph");
  }
  const std::lock_guard lock(device.mutex);
  Queue& q = device.queues[static_cast<size_t>(stream)];
  q.captured = true;
  device.forget_others(q);
}

cuda::Graph GraphRecording::close() {
  if (!std::exchange(open_, false)) return nullptr;
  cuda::Graph graph = nullptr;
  const Result ended = driver().end_capture(device_.stream(stream_), &graph);
  forget_captured(device_);
  device_.memory->end_fork(pool_);
  if (ended == kSuccess) return graph;
  if (graph) driver().end_graph(graph);
  check(ended, "ending a graph: streams that took part must be waited for, and none may be asked");
  return nullptr;
}

void GraphRecording::end() {
  const cuda::Graph graph = close();
  const Result made = driver().make_run(&run_, graph, 0);
  driver().end_graph(graph);
  check(made, "making a graph");
}

GraphRecording::~GraphRecording() {
  try {
    context_of(device_.device);
    if (const cuda::Graph graph = close()) driver().end_graph(graph);
  } catch (const Error&) {  // the driver had given the capture up before
  }
  if (replayed_) {
    driver().finish_event(replayed_);
    driver().end_event(replayed_);
  }
  if (run_) driver().end_run(run_);
  device_.memory->close_pool(pool_);
}

// The counters are written in the replay's stream; replays in several come one after the other.
void GraphRecording::replay(StreamId id) {
  context_of(device_.device);
  const Stream stream = device_.stream(id);
  if (!replayed_)
    check(driver().new_event(&replayed_, kEventWithoutTime), "replaying a graph");
  else
    check(driver().stream_waits(stream, replayed_, 0), "replaying a graph");
  device_.gather(id);  // whatever it reads and writes
  if (drawn_) {
    PhiloxStream& philox = *generator_of(device_.device).philox;
    const uint64_t now[] = {philox.initial_seed(), philox.take(static_cast<int64_t>(drawn_))};
    check(driver().copy_up(reinterpret_cast<Address>(counters_.data()), now, sizeof now, stream),
          "replaying a graph");
  }
  check(driver().run_graph(run_, stream), "replaying a graph");
  check(driver().record_event(replayed_, stream), "replaying a graph");
  device_.spread(id);
}

uint64_t GraphRecording::draw(int64_t count) {
  return std::exchange(drawn_, drawn_ + static_cast<uint64_t>(count));
}

Counters take_counters(Device device, const RandomStream& stream, int64_t count) {
  PhiloxStream& philox = *stream.philox;
  GraphRecording* const r = recording_on(device);
  if (!r) return {philox.initial_seed(), philox.take(count), nullptr};
  if (&philox != generator_of(device).philox)
    capturing->refuse("drawing from another generator than the device's own");
  return {0, r->draw(count), r->counters()};
}

}  // namespace tycho::cuda
