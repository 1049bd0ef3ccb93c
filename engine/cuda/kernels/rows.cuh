// The kernel of an elementwise row, written once for all of them: the value column of elementwise.def
// in lanes of one element (cpu/lanes/vec_scalar.h). Types are constants where TYCHO_ROW_TYPES says
// them, else read from the walk.
#pragma once
#define TYCHO_LEVEL scalar
#define TYCHO_LEVEL_scalar 1
#include "engine/cpu/elementwise/level/row_values.h"
#include "engine/cuda/kernels/walk.cuh"

namespace tycho::cuda {

namespace lanes = ::tycho::cpu::scalar;

#ifdef TYCHO_ROW_TYPES
__device__ constexpr int row_type(const Operands&, int k) {
  constexpr int types[] = {TYCHO_ROW_TYPES};
  return types[k];
}
#else
__device__ inline int row_type(const Operands& w, int k) { return w.dtype[k]; }
#endif

template <class T>
__device__ inline T row_number(const Operands& w, int k) {
  if constexpr (same_type<T, int64_t>) {
    return w.integer[k];
  } else {
    return static_cast<T>(w.number[k]);
  }
}

template <class T>
__device__ inline T stored(lanes::Lane<T> x) {
  return x.v;
}
template <class T>
__device__ inline T stored(lanes::Mask<T> x) {
  return static_cast<T>(x.m);
}

template <class Value, int n, class T>
__device__ inline void row(const Operands& w) {
  for (int64_t i = first_element(); i < w.numel; i += all_threads()) {
    int64_t at[n + 1];
    places<n + 1>(w, i, at);
    lanes::Lane<T> x[4] = {T(0), T(0), T(0), T(0)};
    for (int k = 1; k <= n; ++k)
      x[k - 1] = w.data[k] ? load<T>(w.data[k], row_type(w, k), at[k]) : row_number<T>(w, k);
    store<T>(w.data[0], row_type(w, 0), at[0], stored<T>(Value::value(x[0], x[1], x[2], x[3])));
  }
}

}  // namespace tycho::cuda
