// The kernels of softmax.cpp, defined in cpu/.
#pragma once
#include "engine/ops/table/op.h"

namespace tycho::cpu {

void softmax(Call& c, bool log);           // self, dim
void softmax_backward(Call& c, bool log);  // gradient, result, dim

}  // namespace tycho::cpu
