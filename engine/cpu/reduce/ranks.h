// What the ranks of a group hold, made one: element by element, in the order of the ranks, so that
// the bits are the same wherever it is done.
#pragma once
#include "engine/cpu/level.h"

// out[i] = in[0][i] op in[1][i] op .. in[ranks - 1][i]; `out` may be one of the inputs. `dtype` and
// `op` are the codes of DType and dist::RedOp. Of both half types, numbers are combined as floats
// and rounded once. The mean is the sum divided by `divisor`. Of booleans, a sum is "or", a product
// "and". The smallest and largest of something and nan is nan.
TYCHO_LEVELS(void, fold_ranks,
             (void* out, const void* const* in, int ranks, int64_t n, int dtype, int op,
              double divisor))
