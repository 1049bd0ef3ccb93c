// The parts of sorting that are compiled at every instruction-set level (cpu/index/sort.h says what
// for).
#pragma once
#include "engine/cpu/level.h"

namespace tycho::cpu {
// Lines that are sorted side by side, and the most elements of one, whose number has these bits.
constexpr int kSortColumns = 16, kSortShort = 256, kSortBits = 8;
__extension__ typedef unsigned __int128 WideItem;
constexpr int kCollect = 16;  // keys that are looked at together
// Up to here comparing all keys with all is quicker than moving them often; without AVX2 less than half as far.
constexpr int kRanked = 240;
inline int64_t ranked() { return level() == Level::x86_64 ? 100 : kRanked; }
}  // namespace tycho::cpu

// Keys of numbers (sort.h), with the bits of `flip` turned over.
TYCHO_LEVELS(void, float_keys, (const float* x, uint32_t* keys, int64_t n, uint32_t flip))
TYCHO_LEVELS(void, double_keys, (const double* x, uint64_t* keys, int64_t n, uint64_t flip))
TYCHO_LEVELS(void, int_keys, (const int64_t* x, uint64_t* keys, int64_t n, uint64_t flip))
// The least and the greatest of n keys, n > 0.
TYCHO_LEVELS(void, key_range_u32,
             (const uint32_t* keys, int64_t n, uint32_t* least, uint32_t* most))
TYCHO_LEVELS(void, key_range_u64,
             (const uint64_t* keys, int64_t n, uint64_t* least, uint64_t* most))
// The `keep` least of each column of a tile of kSortColumns, in order; numbers become the rows that keys stood in. Only
// the first columns need be sorted.
TYCHO_LEVELS(void, sort_columns_u32,
             (uint32_t * keys, uint32_t* numbers, int64_t rows, int64_t keep, int64_t columns))
TYCHO_LEVELS(void, sort_columns_u64,
             (uint64_t * keys, uint64_t* numbers, int64_t rows, int64_t keep, int64_t columns))
// Sorts all columns of such a tile of numbers, of which no two in a column are equal; of 64 bits, less than 2^63.
TYCHO_LEVELS(void, sort_items_u32, (uint32_t * items, int64_t rows))
TYCHO_LEVELS(void, sort_items_u64, (uint64_t * items, int64_t rows))
// The place from 0 of each of at most kRanked keys in their order, equal ones in theirs.
TYCHO_LEVELS(void, rank_keys, (const uint32_t* keys, int n, int32_t* places))
// Items (key, number) of the keys from *at on that are below the limit, behind the `have` that items holds, as long as
// there is room for kCollect more; *at becomes the first key that was not looked at.
TYCHO_LEVELS(int64_t, collect_below_u32,
             (const uint32_t* keys, int64_t* at, int64_t n, uint32_t limit, uint64_t* items,
              int64_t have, int64_t room))
TYCHO_LEVELS(int64_t, collect_below_u64,
             (const uint64_t* keys, int64_t* at, int64_t n, uint64_t limit,
              ::tycho::cpu::WideItem* items, int64_t have, int64_t room))
// The rank from 1 of each v[i] - least among the bits that are set; before[w]: how many are in the words before w.
TYCHO_LEVELS(void, bit_ranks,
             (const int64_t* v, int64_t n, int64_t least, const uint64_t* bits,
              const int64_t* before, int64_t* ranks))
