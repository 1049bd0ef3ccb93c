// Images of short lines, turned: what computes several pixels of a line at once then has long ones.
#pragma once
#include "engine/cpu/conv/conv_tiles.h"
#include "engine/ops/table/apply.h"

namespace tycho::cpu {

// The spatial dimension that is to change places with the last one, or -1. `x` and `y` are shapes
// of the input and of the result.
int turned_dimension(Pass pass, DType type, const Sizes& x, const Sizes& kernel, const Sizes& y,
                     int64_t groups);
// Numbers, one (or, of paddings, two) for each spatial dimension, and views of images and weights.
Sizes turned(Sizes sizes, int spatial, int d);
Tensor turned(const Tensor& t, int d);

}  // namespace tycho::cpu
