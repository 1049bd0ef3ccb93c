// The kernels of optim.cpp, defined in cpu/.
#pragma once
#include "engine/ops/table/op.h"

namespace tycho::cpu {

void fused_sgd(Call& c);
void fused_adam(Call& c);
void fused_unscale(Call& c);
void fused_rule(Call& c, int rule, int states);  // rule: a place in the table of optim.cpp

}  // namespace tycho::cpu
