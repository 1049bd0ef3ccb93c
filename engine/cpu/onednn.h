// oneDNN behind a small face. It always runs on the calling thread alone: our own pool splits the
// work, because libgomp's regions stall for milliseconds when other programs want the cores. All
// primitives and memory objects are held per thread, keyed by shapes and layouts; the library is
// first touched by the first call that needs it.
#pragma once
#include "engine/cpu/gemm.h"

namespace tycho::cpu {

// A product of bfloat16 matrices, summed in float32 and rounded once.
void gemm_bf16(const Product& p);

}  // namespace tycho::cpu
