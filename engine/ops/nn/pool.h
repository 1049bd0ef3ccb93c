// Pooling: what the ops and their kernels share.
#pragma once
#include "engine/ops/table/op.h"

namespace tycho {

// Result layout of pooling: channels last when the input is, else row-major.
Tensor empty_pooled(const Tensor& like, const Sizes& shape, DType dtype);

}  // namespace tycho
