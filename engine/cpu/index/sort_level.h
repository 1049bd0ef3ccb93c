// The parts of sorting that are compiled at every instruction-set level (cpu/index/sort.h says what
// for).
#pragma once
#include "engine/cpu/level.h"

namespace tycho::cpu {
// Lines that are sorted side by side, and the most elements of one.
constexpr int kSortColumns = 64, kSortShort = 16;
constexpr int kCollect = 16;  // keys that are looked at together
}  // namespace tycho::cpu

// Keys of floats (sort.h), with the bits of `flip` turned over.
TYCHO_LEVELS(void, float_keys, (const float* x, uint32_t* keys, int64_t n, uint32_t flip))
TYCHO_LEVELS(void, double_keys, (const double* x, uint64_t* keys, int64_t n, uint64_t flip))
// Sorts each of kSortColumns columns of a tile; numbers become the rows that keys stood in.
TYCHO_LEVELS(void, sort_columns_u32, (uint32_t * keys, uint32_t* numbers, int64_t rows))
TYCHO_LEVELS(void, sort_columns_u64, (uint64_t * keys, uint64_t* numbers, int64_t rows))
// Items (key, number) of the keys from *at on that are below the limit, behind the `have` that items holds, as long as
// there is room for kCollect more; *at becomes the first key that was not looked at.
TYCHO_LEVELS(int64_t, collect_below,
             (const uint32_t* keys, int64_t* at, int64_t n, uint32_t limit, uint64_t* items,
              int64_t have, int64_t room))
// The rank from 1 of each v[i] - least among the bits that are set; before[w]: how many are in the words before w.
TYCHO_LEVELS(void, bit_ranks,
             (const int64_t* v, int64_t n, int64_t least, const uint64_t* bits,
              const int64_t* before, int64_t* ranks))
