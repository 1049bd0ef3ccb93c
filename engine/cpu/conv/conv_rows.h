// Windows times a weight's panels, the windows read where they lie.
#pragma once
#include "engine/cpu/level.h"

namespace tycho::cpu {

struct ConvRows {
  int64_t windows, columns, taps;  // taps: numbers of a window, none or more
  const int64_t *from, *to;        // where a window begins in x, and its results in y
  const int64_t* tap;              // where its numbers lie, from there; types 3 and 4: below
  int64_t depth;                   // of the panels as they were packed: `taps` or more
  int begin;                       // as products of matrices
};

}  // namespace tycho::cpu

// `panels` as gemm_pack_b's, from the first tap on. Type 3: pairs of bfloat16, x's by the panels', summed in
// float32 (`bias` and y), where the level has the instruction; a place ~tap holds one number, whose fellow counts 0.
// Type 4: the same with results rounded to bfloat16; begins with zero or the bias.
TYCHO_LEVELS(void, conv_rows,
             (int type, const ::tycho::cpu::ConvRows* r, const void* x, const void* panels,
              const void* bias, void* y))
