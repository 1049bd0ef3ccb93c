// Calls whose result goes into a tensor that is there already (out=).
#pragma once
#include "engine/ops/table/op.h"

namespace tycho {

// As apply, and `to` becomes the call's only result. Elementwise rows compute where it lies, when it
// has their type and shares no memory with an operand but place for place; other kernels do when it
// lies as what they would make and shares no memory with their inputs, and so does the last call of a
// composition (become). Other results are copied into it. Raises when it has another shape, a type that cannot hold the result, or gradients are
// recorded; it is unchanged then.
void apply_into(Call& c, const Tensor& to);

// Puts c.into in the place of the one result that the call's shape rule has made, if its kernel may
// write there.
bool take_place(Call& c);

}  // namespace tycho
