// Convolutions: what the ops and their kernels share.
#pragma once
#include "engine/ops/table/op.h"

namespace tycho {

// Uninitialised [images, channels, spatial...] whose channels lie side by side in memory: the
// layout in which convolution, pooling and batch norm are fast.
Tensor empty_channels_last(const Sizes& shape, DType dtype, Device device);
bool is_channels_last(const Tensor& t);

}  // namespace tycho

namespace tycho::cpu {

// Arguments: (input, weight, bias?, stride, padding, dilation, groups);
// (grad, weight, size, stride, padding, dilation, groups);
// (grad, input, kernel, stride, padding, dilation, groups).
void convolution(Call& c);
void convolution_input(Call& c);
void convolution_weight(Call& c);

}  // namespace tycho::cpu
