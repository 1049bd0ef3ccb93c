// Convolutions of bfloat16 as products by tiles (engine/cpu/matmul/tiles.h). Windows become rows of a
// matrix, some hundred at a time, as in conv.h; nothing is widened, and sums are rounded once.
// Images lie with channels last; weights are [out_channels, kernel.., channels / groups].
#pragma once
#include "engine/cpu/conv/conv.h"

namespace tycho::cpu {

enum class Pass { Forward, Input, Weight };  // the result, or a gradient

// Whether there are tiles and they are the fastest way.
bool conv_tiles_pay(const Convolution& c, Pass pass);

// `bias` may be null. Gradients overwrite what was there.
void conv_tiles_forward(const Convolution& c, const void* x, const void* w, const void* bias,
                        void* y);
void conv_tiles_input(const Convolution& c, const void* y, const void* w, void* x);
void conv_tiles_weight(const Convolution& c, const void* y, const void* x, void* w);

}  // namespace tycho::cpu
