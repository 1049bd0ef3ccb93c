// The largest or smallest of numbers and its position: what reductions and running extremes share.
#pragma once
#include "engine/cuda/kernels/prelude.cuh"

namespace tycho::cuda {

template <class L>
struct Placed {
  L value;
  int64_t at;  // -1: none yet
};

// 1 where a is the more extreme of two, -1 where b is, 0 where they are alike. Any number is more so
// than none, and nan more than any number.
template <bool largest, class L>
__device__ inline int more_extreme(const Placed<L>& a, const Placed<L>& b) {
  if (a.at < 0 || b.at < 0) return a.at < 0 ? -1 : 1;
  const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
  if (a_nan || b_nan) return int(a_nan) - int(b_nan);
  if (a.value == b.value) return 0;
  return (a.value > b.value) == largest ? 1 : -1;
}

}  // namespace tycho::cuda
