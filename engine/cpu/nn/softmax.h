// softmax and log_softmax, forward and backward, on float and double lanes. "Runs" take one row of
// n elements; "rows" some short ones, one behind the other; "columns" n rows of `cols` elements, `step` apart,
// where each column is one softmax.
#pragma once
#include "engine/cpu/level.h"

TYCHO_LEVELS(void, softmax_run, (int lanes, bool log, const void* x, void* y, int64_t n))
TYCHO_LEVELS(void, softmax_rows,
             (int lanes, bool log, const void* x, void* y, int64_t n, int64_t rows))
TYCHO_LEVELS(void, softmax_columns,
             (int lanes, bool log, const void* x, void* y, int64_t n, int64_t cols, int64_t step))
// g: gradient of the result y; out: gradient of the input.
TYCHO_LEVELS(void, softmax_grad_run,
             (int lanes, bool log, const void* g, const void* y, void* out, int64_t n))
TYCHO_LEVELS(void, softmax_grad_rows,
             (int lanes, bool log, const void* g, const void* y, void* out, int64_t n,
              int64_t rows))
TYCHO_LEVELS(void, softmax_grad_columns,
             (int lanes, bool log, const void* g, const void* y, void* out, int64_t n, int64_t cols,
              int64_t step))
// The steps of a run, for parts of a long one: its largest element; the sum of exponentials of what is
// above `top`, which without `log` are kept in y; and the result, given the sum over all parts.
TYCHO_LEVELS(double, softmax_top, (int lanes, const void* x, int64_t n))
TYCHO_LEVELS(double, softmax_exps,
             (int lanes, bool log, const void* x, void* y, int64_t n, double top))
TYCHO_LEVELS(void, softmax_finish,
             (int lanes, bool log, const void* x, void* y, int64_t n, double top, double sum))
// The sum that a gradient needs, and the gradient of a part.
TYCHO_LEVELS(double, softmax_grad_sum,
             (int lanes, bool log, const void* g, const void* y, int64_t n))
TYCHO_LEVELS(void, softmax_grad_part,
             (int lanes, bool log, const void* g, const void* y, void* out, int64_t n, double sum))
