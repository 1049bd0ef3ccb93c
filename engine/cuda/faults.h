// Indices out of range that kernels found: they write a record (kernels/prelude.cuh) and leave their
// result; the host looks at it when it waits for the device, and raises.
#pragma once
#include "engine/cuda/launch.h"

namespace tycho::cuda {

Fault* new_fault();  // in memory of the host that kernels write to
// The number by which a kernel names what was asked for, the operation that it is a part of or itself,
// and the line that runs.
int32_t fault_number(const char* kernel);

}  // namespace tycho::cuda
