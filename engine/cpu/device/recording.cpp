// Keeping calls of kernels, and making them again.
#include "engine/cpu/device/recording.h"

#include "engine/ops/table/apply.h"
#include "engine/ops/table/recorded_call.h"

namespace tycho::cpu {

bool SimulatedRecording::take(Call& c, void (*kernel)(Call&)) {
  add([call = std::make_shared<RecordedCall>(c, kernel)] { call->run(); });
  // What ends an inner layout later would take the result away from the graph.
  for (const Tensor& t : c.out)
    if (t) straighten(t);
  return true;
}

void SimulatedRecording::replay(StreamId stream) {
  Backend& backend = backend_of(device_);
  backend.wait(device_, stream, backend.mark(device_, stream));  // copies on their way
  for (const auto& step : steps_) step();
}

}  // namespace tycho::cpu
