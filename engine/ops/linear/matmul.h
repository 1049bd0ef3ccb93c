// Matrix products.
#pragma once
#include "engine/ops/table/op.h"

namespace tycho::cpu {

void matmul(Call& c);  // any ranks, batches broadcast
void linear(Call& c);  // input times the transposed weight, plus the bias
void dot(Call& c);

}  // namespace tycho::cpu
