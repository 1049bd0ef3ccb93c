// Convolutions forward, by products of windows that are read where they lie.
#pragma once
#include "engine/cpu/conv/conv.h"

namespace tycho::cpu {

// As conv_forward (conv.h); also of bfloat16, where pairs are quick (library/onednn.h): bias is float32 then,
// and sums are rounded once.
void conv_direct(const Convolution& c, const void* x, const void* w, const void* bias, void* y);

}  // namespace tycho::cpu
