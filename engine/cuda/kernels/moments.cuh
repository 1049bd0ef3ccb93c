// Mean and squared differences of many numbers: each thread sums differences from its first element,
// in double, and threads' states meet.
#pragma once
#include "engine/cuda/kernels/prelude.cuh"

namespace tycho::cuda {

// Number of elements, their mean, and the sum of squared differences from it.
struct Moment {
  double n, mean, squares;
};

__device__ inline Moment meet(Moment a, Moment b) {
  if (a.n == 0) return b;
  if (b.n == 0) return a;
  const double n = a.n + b.n, off = b.mean - a.mean;
  return {n, a.mean + off * (b.n / n), a.squares + b.squares + off * off * (a.n * b.n / n)};
}

template <class T>
__device__ inline T from_below(T x, int by) {
  return __shfl_down_sync(0xffffffffu, x, by);
}
__device__ inline Moment from_below(Moment s, int by) {
  return {from_below(s.n, by), from_below(s.mean, by), from_below(s.squares, by)};
}

struct MomentFolder {
  double n = 0, first = 0, sum = 0, squares = 0;
  __device__ inline void take(double x) {
    if (n == 0) first = x;
    const double off = x - first;
    n += 1;
    sum += off;
    squares += off * off;
  }
  __device__ inline Moment result() const {
    if (n == 0) return {0, 0, 0};
    const double rest = squares - sum * (sum / n);
    return {n, first + sum / n, rest < 0 ? 0 : rest};
  }
};

}  // namespace tycho::cuda
