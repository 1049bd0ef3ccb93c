// The threads of a row (along.cuh): which elements are a thread's, and values of all of them that
// meet, so that every thread of the row has the same bits.
#pragma once
#include "engine/cuda/kernels/along.cuh"
#include "engine/cuda/kernels/elements.cuh"
#include "engine/cuda/kernels/moments.cuh"

namespace tycho::cuda {

struct RowThread {
  AlongWay way;
  int x, y;
  int64_t k;            // the row
  int64_t base, inner;  // where it begins, and the distance of its elements
  int64_t first, n, step;

  __device__ explicit RowThread(const Along& a)
      : way(a.way), x(static_cast<int>(threadIdx.x)), y(static_cast<int>(threadIdx.y)) {
    const int64_t block = blockIdx.x;
    const bool columns = way == AlongWay::Columns;
    k = way == AlongWay::Blocks ? block : columns ? block * 32 + x : block * 8 + y;
    first = way == AlongWay::Blocks ? y * 32 + x : columns ? y : x;
    step = way == AlongWay::Blocks ? 256 : columns ? 8 : 32;
    inner = a.inner;
    base = inner == 1 ? k * a.n : k / inner * a.n * inner + k % inner;
    n = k < a.rows ? a.n : 0;
  }
  __device__ int64_t at(int64_t i) const { return base + i * inner; }
  __device__ bool is_first() const { return first == 0; }
};

// meet(a, b) over the threads of each row; all threads of the block come here.
template <class Tile, class S, class Meet>
__device__ inline S over_row(const RowThread& t, Tile& tile, S s, Meet&& meet) {
  if (t.way == AlongWay::Columns) {
    tile[t.y * 32 + t.x] = s;
    __syncthreads();
    s = S(tile[t.x]);
    for (int j = 1; j < 8; ++j) s = meet(s, S(tile[j * 32 + t.x]));
    __syncthreads();
    return s;
  }
  for (int by = 16; by; by >>= 1) s = meet(s, from_below(s, by));
  if (t.x == 0) tile[t.y] = s;
  __syncthreads();
  s = S(tile[t.way == AlongWay::Blocks ? 0 : t.y]);
  if (t.way == AlongWay::Blocks)
    for (int j = 1; j < 8; ++j) s = meet(s, S(tile[j]));
  __syncthreads();
  return s;
}

// A thread's elements of a row that lies in one piece: read together, and only once, where it has no
// more than so many.
constexpr int kHeldOfRow = 32;
__device__ inline bool may_be_held(const RowThread& t, const Along& a) {
  return t.inner == 1 && a.n <= kHeldOfRow * t.step;
}
template <class T>
struct HeldOfRow {
  T x[kHeldOfRow];
  __device__ HeldOfRow(const RowThread& t, const void* in, int dtype, T otherwise) {
    switch (dtype) {
      case kF16:
        load_all<f16>(t, in, otherwise);
        break;
      case kBF16:
        load_all<bf16>(t, in, otherwise);
        break;
      case kF32:
        load_all<float>(t, in, otherwise);
        break;
      case kF64:
        load_all<double>(t, in, otherwise);
        break;
      default:
        TYCHO_UNROLLED
        for (int j = 0; j < kHeldOfRow; ++j) {
          const int64_t e = t.first + j * t.step;
          x[j] = e < t.n ? load<T>(in, dtype, t.at(e)) : otherwise;
        }
    }
  }
  template <class S>
  __device__ void load_all(const RowThread& t, const void* in, T otherwise) {
    const S* const from = static_cast<const S*>(in) + t.base + t.first;
    const int n = static_cast<int>(t.n - t.first), step = static_cast<int>(t.step);
    S raw[kHeldOfRow];
    TYCHO_UNROLLED
    for (int j = 0; j < kHeldOfRow; ++j)
      if (j * step < n) raw[j] = from[j * step];
    TYCHO_UNROLLED
    for (int j = 0; j < kHeldOfRow; ++j) {
      if constexpr (same_type<S, f16> || same_type<S, bf16>) {
        x[j] = j * step < n ? convert<T>(to_float(raw[j])) : otherwise;
      } else {
        x[j] = j * step < n ? convert<T>(raw[j]) : otherwise;
      }
    }
  }
  // f(element's index, its value, which may be changed)
  template <class F>
  __device__ void each(const RowThread& t, F&& f) {
    TYCHO_UNROLLED
    for (int j = 0; j < kHeldOfRow; ++j)
      if (const int64_t e = t.first + j * t.step; e < t.n) f(e, x[j]);
  }
};

// Two sums at once.
template <class T>
struct Pair {
  T a, b;
};
template <class T>
__device__ inline Pair<T> from_below(Pair<T> s, int by) {
  return {from_below(s.a, by), from_below(s.b, by)};
}

}  // namespace tycho::cuda
