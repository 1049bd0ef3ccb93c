// Factors of small matrices and what is solved with them: a block of threads has a matrix in shared
// memory, and works on one column of it after the other.
#include "engine/cuda/kernels/factor.cuh"
#include "engine/cuda/kernels/prelude.cuh"

using namespace tycho::cuda;

namespace {

template <class T>
__device__ inline T magnitude(T x) {
  return x < 0 ? -x : x;
}

// The row of column k's largest element from the diagonal on, for the first warp; of equal ones the
// first.
template <class T, class Matrix>
__device__ inline int largest_in_column(Matrix& a, int n, int k) {
  const int lane = static_cast<int>(threadIdx.x);
  int row = k;
  T most = -1;
  for (int i = k + lane; i < n; i += 32)
    if (const T x = magnitude<T>(a[i * n + k]); x > most) most = x, row = i;
  for (int by = 16; by; by /= 2) {
    const T other = __shfl_xor_sync(0xffffffffu, most, by);
    const int its = __shfl_xor_sync(0xffffffffu, row, by);
    if (other > most || (other == most && its < row)) most = other, row = its;
  }
  return row;
}

template <class T, class Matrix, class Word>
__device__ inline void factor(const Factors& f, Matrix& a, Word& pivot) {
  const int n = f.n, me = static_cast<int>(threadIdx.x), all = static_cast<int>(blockDim.x);
  for (int64_t m = blockIdx.x; m < f.count; m += gridDim.x) {
    T* const memory = static_cast<T*>(f.a) + m * n * n;
    for (int i = me; i < n * n; i += all) a[i] = memory[i];
    int code = 0;
    __syncthreads();
    for (int k = 0; k < n; ++k) {
      if (me < 32) {
        const int row = largest_in_column<T>(a, n, k);
        if (me == 0) {
          pivot[0] = row;
          f.pivots[m * n + k] = row + 1;
        }
      }
      __syncthreads();
      const int row = pivot[0];
      if (row != k)
        for (int j = me; j < n; j += all) {
          const T x = a[k * n + j];
          a[k * n + j] = T(a[row * n + j]);
          a[row * n + j] = x;
        }
      __syncthreads();
      const T d = a[k * n + k];
      if (d == T(0)) {
        if (!code) code = k + 1;
        __syncthreads();
        continue;
      }
      for (int i = k + 1 + me; i < n; i += all) a[i * n + k] = a[i * n + k] / d;
      __syncthreads();
      const int rest = n - k - 1;
      for (int e = me; e < rest * rest; e += all) {
        const int i = k + 1 + e / rest, j = k + 1 + e % rest;
        a[i * n + j] = a[i * n + j] - a[i * n + k] * a[k * n + j];
      }
      __syncthreads();
    }
    for (int i = me; i < n * n; i += all) memory[i] = a[i];
    if (me == 0 && f.info) f.info[m] = code;
    __syncthreads();
  }
}

// Column by column: what is known is taken from all rows that still wait. Element (i, k) of the triangle
// is at a[i * row + k * column].
template <class T, class Matrix, class Sides>
__device__ inline void substitute(Matrix& a, int n, int row, int column, bool upper, bool unit,
                                  Sides& b, int sides) {
  const int me = static_cast<int>(threadIdx.x), all = static_cast<int>(blockDim.x);
  for (int step = 0; step < n; ++step) {
    const int k = upper ? n - 1 - step : step;
    if (!unit) {
      for (int j = me; j < sides; j += all)
        b[k * kSmallColumns + j] = b[k * kSmallColumns + j] / a[k * row + k * column];
      __syncthreads();
    }
    for (int e = me; e < (n - 1 - step) * sides; e += all) {
      const int i = (upper ? 0 : k + 1) + e / sides, j = e % sides;
      b[i * kSmallColumns + j] =
          b[i * kSmallColumns + j] - a[i * row + k * column] * b[k * kSmallColumns + j];
    }
    __syncthreads();
  }
}

template <class T, class Sides>
__device__ inline void exchange_rows(const int32_t* pivots, int n, bool back, Sides& b, int sides) {
  for (int j = static_cast<int>(threadIdx.x); j < sides; j += static_cast<int>(blockDim.x))
    for (int step = 0; step < n; ++step) {
      const int k = back ? n - 1 - step : step, other = pivots[k] - 1;
      if (other == k) continue;
      const T x = b[k * kSmallColumns + j];
      b[k * kSmallColumns + j] = T(b[other * kSmallColumns + j]);
      b[other * kSmallColumns + j] = x;
    }
  __syncthreads();
}

template <class T, class Matrix, class Sides>
__device__ inline void solve(const Substitution& s, Matrix& a, Sides& b) {
  const int n = s.n, me = static_cast<int>(threadIdx.x), all = static_cast<int>(blockDim.x);
  const int64_t chunks = (s.sides + kSmallColumns - 1) / kSmallColumns;
  for (int64_t task = blockIdx.x; task < s.count * chunks; task += gridDim.x) {
    const int64_t m = task / chunks, first = task % chunks * kSmallColumns;
    const int sides =
        static_cast<int>(s.sides - first < kSmallColumns ? s.sides - first : kSmallColumns);
    const T* const from = static_cast<const T*>(s.a) + m * n * n;
    T* const to = static_cast<T*>(s.b) + m * n * s.sides + first;
    for (int i = me; i < n * n; i += all) a[i] = from[i];
    for (int e = me; e < n * sides; e += all)
      b[e / sides * kSmallColumns + e % sides] = to[e / sides * s.sides + e % sides];
    __syncthreads();
    const int row = s.transposed ? 1 : n, column = s.transposed ? n : 1;
    if (!s.pivots) {
      substitute<T>(a, n, row, column, s.upper != s.transposed, s.unit, b, sides);
    } else if (!s.transposed) {
      exchange_rows<T>(s.pivots + m * n, n, false, b, sides);
      substitute<T>(a, n, row, column, false, true, b, sides);
      substitute<T>(a, n, row, column, true, false, b, sides);
    } else {
      substitute<T>(a, n, row, column, false, false, b, sides);
      substitute<T>(a, n, row, column, true, true, b, sides);
      exchange_rows<T>(s.pivots + m * n, n, true, b, sides);
    }
    for (int e = me; e < n * sides; e += all)
      to[e / sides * s.sides + e % sides] = b[e / sides * kSmallColumns + e % sides];
    __syncthreads();
  }
}

}  // namespace

#define TYCHO_SMALL_MATRICES(suffix, T)                            \
  extern "C" __global__ void factor_##suffix(Factors f) {          \
    TYCHO_SHARED(T, a, kSmallMatrix* kSmallMatrix);                \
    TYCHO_SHARED(int32_t, pivot, 1);                               \
    factor<T>(f, a, pivot);                                        \
  }                                                                \
  extern "C" __global__ void substitute_##suffix(Substitution s) { \
    TYCHO_SHARED(T, a, kSmallMatrix* kSmallMatrix);                \
    TYCHO_SHARED(T, b, kSmallMatrix* kSmallColumns);               \
    solve<T>(s, a, b);                                             \
  }                                                                \
  TYCHO_KERNEL(factor_##suffix)                                    \
  TYCHO_KERNEL(substitute_##suffix)

TYCHO_SMALL_MATRICES(f32, float)
TYCHO_SMALL_MATRICES(f64, double)
