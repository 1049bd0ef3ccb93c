// The hot loops of reading and writing at positions (cpu/index/level/index.cpp).
#pragma once
#include "engine/cpu/level.h"

// Is any of n positions outside 1..size?
TYCHO_LEVELS(bool, any_outside, (const int64_t* p, int64_t n, int64_t size))
// to[i] += alpha * from[i] for n contiguous elements; dtype is Float32, Float64, Int32 or Int64.
TYCHO_LEVELS(void, add_row, (int dtype, void* to, const void* from, int64_t n, double alpha))
// to[j] = the sum of table[(p[i] - 1) * step + j] over i < n, for j < width; Float32 or Float64.
TYCHO_LEVELS(void, sum_rows,
             (int dtype, void* to, const void* table, int64_t step, const int64_t* p, int64_t n,
              int64_t width))
// Copies the elements (1, 2, 4 or 8 bytes) where the mask is not 0; returns how many. `room` is
// how many elements may be written at `to`.
TYCHO_LEVELS(int64_t, compress,
             (int bytes, void* to, const void* from, const uint8_t* mask, int64_t n, int64_t room))
// The other way: to[i] is the next element of `from`, which holds `count`, where the mask is not 0, and kept[i]
// elsewhere; `kept` may be `to`.
TYCHO_LEVELS(void, expand,
             (int bytes, void* to, const void* from, int64_t count, const void* kept,
              const uint8_t* mask, int64_t n))
TYCHO_LEVELS(int64_t, count_bytes, (const uint8_t* mask, int64_t n))  // how many are not 0
// Where each of n values belongs among `bins` of one width that begin at `first`, together `range` wide; `bins` for
// what does not lie in [low, high].
TYCHO_LEVELS(void, bins_f32,
             (const float* x, int64_t n, float low, float high, float first, float range,
              int64_t bins, int64_t* to))
TYCHO_LEVELS(void, bins_f64,
             (const double* x, int64_t n, double low, double high, double first, double range,
              int64_t bins, int64_t* to))
