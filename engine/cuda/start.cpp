// Opening the module.
#include "engine/cuda/start.h"

#include "engine/cuda/context.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cuda {

int start() {
  bind_kernels();
  return count_devices();
}

}  // namespace tycho::cuda
