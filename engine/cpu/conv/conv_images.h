// Images on their way to a convolution's kernels: other layouts and types, one more channel.
#pragma once
#include "engine/cpu/conv/conv_point.h"

namespace tycho::cpu {

// One layout into the other: every image is a matrix of channels by pixels, transposed.
void transpose_images(const Tensor& from, const Tensor& to, bool to_last);
Tensor channels_last(const Tensor& given, DType type);
// As it is, where its type and layout allow that; else dense. With `lines`, these may lie apart.
Tensor readable(const Tensor& t, DType type, Pixels* pixels, bool lines = false);
// bfloat16 numbers are multiplied in pairs. An odd number of channels gets one of zeros, which costs
// much less than the kernels that mask the last one (2 to 3.5 times as long).
bool wants_even(const Tensor& t, int64_t groups);
Tensor one_more_channel(const Tensor& t, bool last);

}  // namespace tycho::cpu
