// Reading and writing at positions, as the host hands it to the kernels of index.cu: a walk over the
// elements that are read or written, to which index tensors give the rest of their place in x.
#pragma once
#include <stdint.h>

namespace tycho::cuda {

struct Fault;

constexpr int kIndexDims = 8;

// Positions from 1, row-major; negative ones from the end where they are allowed.
struct IndexTensor {
  const int64_t* data;
  int64_t stride[kIndexDims];  // over the walk
  int64_t limit;               // how many positions there are
  int64_t step;                // between them in x
};

struct Indexed {
  int64_t numel;
  int64_t per_line;  // the last dimensions, along which places may repeat
  int32_t rank, count;
  int64_t size[kIndexDims];
  int64_t x_stride[kIndexDims], other_stride[kIndexDims];
  void* x;      // what is read from, or written to
  void* other;  // what is read, or the values that are written
  IndexTensor index[kIndexDims];
  int32_t negative;
  int32_t op;  // for `fault`
  Fault* fault;
  const uint32_t* bad;       // writing: not zero where a position is out of range
  unsigned long long* last;  // for each place in x: the last element that is written there, from 1
};

struct CheckedPositions {
  const int64_t* data;
  int64_t* out;  // positions from 1, or null
  int64_t numel, limit;
  int32_t negative, op;
  Fault* fault;
  uint32_t* bad;
};

// The places of a line's elements in order, and the elements, from 1, that have them.
struct PlaceRuns {
  const int64_t *places, *order;
};

// How a written value meets what stands there.
enum class Meeting : int32_t { Set, Add, Mul, Max, Min };

}  // namespace tycho::cuda
