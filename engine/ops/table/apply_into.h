// Calls whose result goes into a tensor that is there already (out=).
#pragma once
#include "engine/ops/table/op.h"

namespace tycho {

// As apply, and `to` becomes the call's only result. Elementwise rows compute where it lies, when it
// has their type and shares no memory with an operand but place for place; other results are copied
// into it. Raises when it has another shape, a type that cannot hold the result, or gradients are
// recorded; it is unchanged then.
void apply_into(Call& c, const Tensor& to);

}  // namespace tycho
