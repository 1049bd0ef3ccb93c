// What the module does when it is opened: the backend takes its place, the kernels theirs.
#pragma once
#include "engine/cuda/driver.h"

namespace tycho::cuda {

// With the driver in use (set_driver); answers how many devices there are.
int start();

}  // namespace tycho::cuda
