// Numbers that follow from their positions, as the host asks the kernels of range.cu for them.
#pragma once
#include <stdint.h>

namespace tycho::cuda {

enum class RangeKind : int32_t {
  Whole,    // from + by i, in integers that wrap around
  Step,     // a + step i
  Spaced,   // n numbers from a to b, exact at both ends
  Power,    // base to the power of these
  Nearest,  // position floor((i + a) step), of `size`
  Reflect,  // positions of a dimension of `size` that is padded by `from` in front
  Replicate,
  Circular,  // of the `by` positions that are left from `first` on
};

struct Range {
  RangeKind kind;
  int32_t dtype;
  void* out;
  int64_t n, stride;
  int64_t from, by, size, first;
  double a, b, step, base;
};

// The lower or upper triangles of row-major matrices; the rest is 0.
struct Triangle {
  const void* in;
  void* out;
  int64_t numel, rows, cols, diagonal;
  int32_t lower;
};

}  // namespace tycho::cuda
