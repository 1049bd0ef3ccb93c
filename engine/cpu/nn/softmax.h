// softmax and log_softmax, forward and backward, on float and double lanes. "Runs" take one row of
// n elements; "columns" n rows of `cols` elements, `step` apart, where each column is one softmax.
#pragma once
#include "engine/cpu/level.h"

TYCHO_LEVELS(void, softmax_run, (int lanes, bool log, const void* x, void* y, int64_t n))
TYCHO_LEVELS(void, softmax_columns,
             (int lanes, bool log, const void* x, void* y, int64_t n, int64_t cols, int64_t step))
// g: gradient of the result y; out: gradient of the input.
TYCHO_LEVELS(void, softmax_grad_run,
             (int lanes, bool log, const void* g, const void* y, void* out, int64_t n))
TYCHO_LEVELS(void, softmax_grad_columns,
             (int lanes, bool log, const void* g, const void* y, void* out, int64_t n, int64_t cols,
              int64_t step))
