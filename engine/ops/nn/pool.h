// Pooling: what the ops and their kernels share.
#pragma once
#include "engine/ops/table/op.h"

namespace tycho {

// Result layout of pooling: channels last when the input is, else row-major.
Tensor empty_pooled(const Tensor& like, const Sizes& shape, DType dtype);

}  // namespace tycho

namespace tycho::cpu {

// Arguments of all end with: kernel, stride, padding, dilation, where `kernel` is empty for
// adaptive pooling. Taps are numbers within a window, in scan order.
void max_pool(Call& c);          // (self, size, with_taps, ...) -> values, taps
void max_pool_scatter(Call& c);  // (grad, taps, size, ...)
void max_pool_gather(Call& c);   // (self, taps, ...)
void pool_positions(Call& c);    // (taps, size, ...)
void avg_pool(Call& c);          // (self, size, divisor, padded, kernel, stride, padding)
void avg_pool_spread(Call& c);   // (grad, size, divisor, padded, kernel, stride, padding)

}  // namespace tycho::cpu
