// Graphs by the driver's stream capture: a private pool of memory, the streams that take part, and the
// counters of random numbers, which lie on the device so that every replay draws new ones.
#pragma once
#include "engine/base/random_stream.h"
#include "engine/cuda/context.h"
#include "engine/tensor/graph.h"

namespace tycho::cuda {

class GraphRecording final : public Recording {
 public:
  GraphRecording(DeviceContext& device, StreamId stream, PoolId pool);
  ~GraphRecording() override;
  void end() override;
  void replay(StreamId stream) override;
  bool owns(const void* memory) override { return device_.memory->is_private(memory); }

  PoolId pool() const { return pool_; }
  // So many counters of each replay: the first one, from where `counters` stand then.
  uint64_t draw(int64_t count);
  const uint64_t* counters() const { return reinterpret_cast<const uint64_t*>(counters_.data()); }

 private:
  cuda::Graph close();  // the capture; null where the driver gave it up
  DeviceContext& device_;
  const StreamId stream_;
  const PoolId pool_;
  const Tensor counters_;  // seed, first counter
  bool open_ = true;
  GraphRun run_ = nullptr;
  uint64_t drawn_ = 0;
  Event replayed_ = nullptr;  // the last replay is done
};

// Of the graph that this thread captures on the device; null where it captures none.
inline GraphRecording* recording_on(Device device) {
  tycho::Graph* g = capturing_on(device);
  return g ? &static_cast<GraphRecording&>(g->recording()) : nullptr;
}

// Where a kernel's random numbers come from: a key and the first of `count` counters, or, in a graph,
// what is to be added to both of a replay.
struct Counters {
  uint64_t key, first;
  const uint64_t* replayed;  // on the device
};
Counters take_counters(Device device, const RandomStream& stream, int64_t count);

}  // namespace tycho::cuda
