// The fused attention kernels that cpu/ defines.
#pragma once
#include "engine/ops/table/op.h"

namespace tycho::cpu {
void attention(Call&);
void attention_backward(Call&);
}  // namespace tycho::cpu
