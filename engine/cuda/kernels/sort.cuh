// Rows that are sorted, as the host hands them to the kernels of sort.cu.
#pragma once
#include <stdint.h>

namespace tycho::cuda {

constexpr int kSortTile = 1024, kSortThreads = 256;

// An element as its ordered key and its number in the row, from 0: no two are equal. Keys of 32 bits
// are packed with their numbers.
using ShortItem = uint64_t;
struct LongItem {
  uint64_t key;
  int64_t at;
};

struct Sort {
  const void* in;  // row-major: outer x length x inner elements; a row has `length` of them
  int32_t dtype, bytes, descending;
  int32_t segment;  // a tile's items belong to rows, or parts of rows, of so many: a power of 2
  int64_t rows, length, inner;
  const void* from;  // items, `n` in a row; null: they are made of the elements
  void* to;          // items, `out_n` in a row; null: results are written
  int64_t n, out_n;
  int64_t tiles;  // in a row
  int64_t kept;   // the first ones of a tile's segments go on, or, to results, of each row
  int64_t run;    // merging: how many follow each other in order
  void* values;
  int64_t* positions;
};

}  // namespace tycho::cuda
