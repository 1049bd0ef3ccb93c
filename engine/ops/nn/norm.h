// The kernels of norm.cpp, defined in cpu/.
#pragma once
#include "engine/ops/table/op.h"

namespace tycho::cpu {

void batch_norm(Call& c);
void batch_norm_backward(Call& c);
void layer_norm(Call& c);
void layer_norm_backward(Call& c);
void group_norm(Call& c);
void group_norm_backward(Call& c);
void window_sum(Call& c);

}  // namespace tycho::cpu
