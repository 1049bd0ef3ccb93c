// Convolutions: what the ops and their kernels share.
#pragma once
#include "engine/ops/table/op.h"
#include "engine/tensor/layout.h"

namespace tycho {

// Uninitialised [images, channels, spatial...] whose channels lie side by side in memory: the
// layout in which convolution, pooling and batch norm are fast. The user sees a row-major tensor
// (the inner layout of tensor/tensor.h), or with `shown` these strides.
Tensor empty_channels_last(const Sizes& shape, DType dtype, Device device, bool shown = false);

}  // namespace tycho
