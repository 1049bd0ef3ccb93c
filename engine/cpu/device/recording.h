// Graphs on simulated devices: the calls that were asked for, made again one after the other.
#pragma once
#include <functional>
#include <vector>

#include "engine/tensor/graph.h"

namespace tycho::cpu {

class SimulatedRecording final : public Recording {
 public:
  explicit SimulatedRecording(Device device) : device_(device) {}
  void end() override {}
  void replay(StreamId stream) override;
  bool take(Call& c, void (*kernel)(Call&)) override;
  void add(std::function<void()> step) { steps_.push_back(std::move(step)); }

 private:
  Device device_;
  std::vector<std::function<void()>> steps_;
};

// Of the graph that this thread captures on the device; null where it captures none.
inline SimulatedRecording* recording_on(Device device) {
  Graph* g = capturing_on(device);
  return g ? &static_cast<SimulatedRecording&>(g->recording()) : nullptr;
}

}  // namespace tycho::cpu
