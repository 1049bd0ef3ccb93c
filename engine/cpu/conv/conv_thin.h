// Convolutions with few windows (large kernels over small images): most of what they read is the
// weight, so it is multiplied as it lies, with all of its taps, and never packed.
#pragma once
#include "engine/cpu/conv/conv.h"

namespace tycho::cpu {

// Float32 and Float64, where the weight is large enough beside its windows.
bool few_windows(const Convolution& c);
// `w` is [out_channels, channels / groups, kernel..] without gaps, as the user has it; y, and the
// gradients of it and of x, have channels last; x may lie in any way.
void conv_thin_forward(const Convolution& c, const Pixels& x, const void* w, const void* bias,
                       void* y);
void conv_thin_input(const Convolution& c, const void* y, const void* w, void* x);
void conv_thin_weight(const Convolution& c, const void* y, const Pixels& x, void* w);

}  // namespace tycho::cpu
