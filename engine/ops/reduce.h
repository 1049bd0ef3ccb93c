// The kernels of reduce.cpp, defined in cpu/.
#pragma once
#include "engine/ops/op.h"

namespace tycho::cpu {

void sum(Call& c);

}  // namespace tycho::cpu
