// Moving values without looking at them: elements of 1, 2, 4 or 8 bytes
// (cpu/elementwise/level/move.cpp). Strides are in elements. `stream`: the result is too large for
// the caches, write around them; the caller then calls end_stream (cpu/cache.h).
#pragma once
#include "engine/cpu/level.h"

// Past the caches: call end_stream (cpu/cache.h) after the last one.
TYCHO_LEVELS(void, copy_stream, (char* to, const char* from, int64_t bytes))
// As memmove: libc's may end in an instruction that on some processors is twenty times slower where
// both sides lie at nearly the same place within a page.
TYCHO_LEVELS(void, copy_bytes, (char* to, const char* from, int64_t bytes))
TYCHO_LEVELS(void, copy_strided,
             (int size, char* to, int64_t to_stride, const char* from, int64_t from_stride,
              int64_t n))
TYCHO_LEVELS(void, fill_run, (int size, char* to, const char* value, int64_t n, bool stream))
// Bytes, n in each row: 1 where `from` is not 0. Of a `real` number, nan is not and -0 is.
TYCHO_LEVELS(void, truths,
             (int size, bool real, char* to, int64_t to_stride, const char* from,
              int64_t from_stride, int64_t rows, int64_t n))
// As load_tile and store_tile (rows.h), row after row of n elements that lie together; from one row to the
// next in bytes.
TYCHO_LEVELS(void, load_rows,
             (int lanes, int dtype, char* to, int64_t to_step, const char* from, int64_t from_step,
              int64_t rows, int64_t n))
TYCHO_LEVELS(void, store_rows,
             (int lanes, int dtype, char* to, int64_t to_step, const char* from, int64_t from_step,
              int64_t rows, int64_t n))
// to[i] = from[at[i]], and to[at[i]] = from[i].
TYCHO_LEVELS(void, gather, (int size, char* to, const char* from, const int32_t* at, int64_t n))
TYCHO_LEVELS(void, scatter, (int size, char* to, const int32_t* at, const char* from, int64_t n))
// to[r * tr + c * tc] = from[r * fr + c * fc] for r < rows, c < cols.
TYCHO_LEVELS(void, copy_plane,
             (int size, char* to, int64_t tr, int64_t tc, const char* from, int64_t fr, int64_t fc,
              int64_t rows, int64_t cols))
// to[r * to_stride + c] = from[c * from_stride + r] for r < rows, c < cols.
TYCHO_LEVELS(void, transpose_plane,
             (int size, char* to, int64_t to_stride, const char* from, int64_t from_stride,
              int64_t rows, int64_t cols, bool stream))

namespace tycho::cpu {
// Results from here on do not fit into the caches: writing around them saves reading them first.
constexpr int64_t kStreamBytes = int64_t{24} << 20;
}  // namespace tycho::cpu
