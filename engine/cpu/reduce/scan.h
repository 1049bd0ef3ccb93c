// Running sums, products, extremes, on lanes. "Run": one sequence of n elements side by side;
// "columns": n rows of `cols` elements, each column a sequence; rows may lie at other steps in x than
// in y. Sums and products of
// float32 are carried in double.
#pragma once
#include "engine/cpu/level.h"

namespace tycho::cpu {
enum class ScanOp : int { Sum, Prod, Max, Min, LogSumExp };
}

// From the last element to the first when `reverse`.
TYCHO_LEVELS(void, scan_run, (int lanes, int op, bool reverse, const void* x, void* y, int64_t n))
// Rows of n elements one after the other.
TYCHO_LEVELS(void, scan_rows,
             (int lanes, int op, bool reverse, const void* x, void* y, int64_t n, int64_t rows))
TYCHO_LEVELS(void, scan_columns,
             (int lanes, int op, bool reverse, const void* x, int64_t x_step, void* y,
              int64_t y_step, int64_t n, int64_t cols))
// Max and Min with the 1-based position of the latest element that is the extreme.
TYCHO_LEVELS(void, scan_extreme,
             (int lanes, int op, const void* x, int64_t x_step, void* y, int64_t* positions,
              int64_t y_step, int64_t n))
// The same of columns.
TYCHO_LEVELS(void, scan_extreme_columns,
             (int lanes, int op, const void* x, void* y, int64_t* positions, int64_t n,
              int64_t cols, int64_t step))
