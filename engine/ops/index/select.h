// The gradient of what selects elements along a dimension (max, sort, topk, median, ...).
#pragma once
#include "engine/ops/table/op.h"

namespace tycho {

// Zeros of `shape` with g at the 1-based positions along dim; without keepdim, g and the positions
// lack that dimension.
Tensor to_selected(const Tensor& g, const Tensor& positions, const Sizes& shape, int64_t dim,
                   bool keepdim);

}  // namespace tycho
