// Convolutions with one filter per channel, for which a product of matrices would have a single column.
#pragma once
#include "engine/cpu/conv/conv.h"

namespace tycho::cpu {

bool is_depthwise(const Convolution& c);
// Forward, or with `back` the gradient of the input (`to`) from that of the result. bias may be null.
void depthwise_sums(const Convolution& c, bool back, const void* from, const void* w,
                    const void* bias, void* to);
void depthwise_backward_weight(const Convolution& c, const void* y, const void* x, void* w);

}  // namespace tycho::cpu
