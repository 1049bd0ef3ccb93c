// Matrix times vector and dot products in lanes of T: bound by memory, so every element of the
// matrix is read once and several sums run side by side.
#pragma once
#include "engine/cpu/matmul/level/gemm.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// R rows at once share the loads of x.
template <class T, int R>
TYCHO_INLINE void rows_times(int64_t k, const T* a, int64_t lda, const T* x, T* y, int64_t ys) {
  using L = Lane<T>;
  constexpr int size = L::size, U = R == 1 ? 4 : 2;
  L sum[R][U];
  for (int r = 0; r < R; ++r)
    for (int u = 0; u < U; ++u) sum[r][u] = L(0);
  int64_t j = 0;
  for (; j + U * size <= k; j += U * size)
#pragma GCC unroll 4
    for (int u = 0; u < U; ++u) {
      const L xv = L::load(x + j + u * size);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r)
        sum[r][u] = muladd(L::load(a + r * lda + j + u * size), xv, sum[r][u]);
    }
  for (; j < k; j += size) {
    const int n = static_cast<int>(k - j < size ? k - j : size);
    const L xv = load_part(x + j, n);
    for (int r = 0; r < R; ++r) sum[r][0] = muladd(load_part(a + r * lda + j, n), xv, sum[r][0]);
  }
  for (int r = 0; r < R; ++r) {
    L s = sum[r][0];
    for (int u = 1; u < U; ++u) s += sum[r][u];
    y[r * ys] = total(s);
  }
}

// Column j of a lane's worth of rows, of which n are there.
template <class T>
TYCHO_INLINE Lane<T> column(const T* a, int64_t lda, int n) {
  using V = typename Raw<T>::V;
#if defined(TYCHO_LEVEL_v4)
  if constexpr (sizeof(T) == 4) {
    const __m512i at =
        _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                           _mm512_set1_epi32(static_cast<int>(lda)));
    return Lane<T>((V)_mm512_mask_i32gather_ps(_mm512_setzero_ps(),
                                               static_cast<__mmask16>((1u << n) - 1), at, a, 4));
  } else {
    const __m256i at = _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                                          _mm256_set1_epi32(static_cast<int>(lda)));
    return Lane<T>((V)_mm512_mask_i32gather_pd(_mm512_setzero_pd(),
                                               static_cast<__mmask8>((1u << n) - 1), at, a, 8));
  }
#else
  T part[Lane<T>::size] = {};
  for (int r = 0; r < n; ++r) part[r] = a[r * lda];
  return Lane<T>((V)Lane<T>::load(part).v);
#endif
}

// Short rows: a lane's worth of them side by side, each summed from left to right.
template <class T>
void gemv_short_rows(int64_t m, int64_t k, const T* a, int64_t lda, const T* x, T* y, int64_t ys) {
  using L = Lane<T>;
  constexpr int size = L::size;
  for (int64_t i = 0; i < m; i += size) {
    const int n = static_cast<int>(m - i < size ? m - i : size);
    const T* from = a + i * lda;
    L sum(0);
    int64_t j = 0;
#if defined(TYCHO_LEVEL_v4) || defined(TYCHO_LEVEL_v3)
    if constexpr (sizeof(T) == 4 && !L::integral)
      for (; n == size && j + 4 <= k; j += 4) {
        T quad[4 * size];
        transpose_lane(from + j, lda, quad, size);
        for (int q = 0; q < 4; ++q) sum = muladd(L::load(quad + q * size), L(x[j + q]), sum);
      }
#endif
    for (; j < k; ++j) sum = muladd(column(from + j, lda, n), L(x[j]), sum);
    if (ys == 1 && n == size) {
      sum.store(y + i);
      continue;
    }
    T part[size];
    sum.store(part);
    for (int r = 0; r < n; ++r) y[(i + r) * ys] = part[r];
  }
}

template <class T>
void gemv_by_rows(int64_t m, int64_t k, const T* a, int64_t lda, const T* x, T* y, int64_t ys) {
#if defined(TYCHO_LEVEL_v4)
  const bool brief = k <= (sizeof(T) == 4 ? 16 : 4);
#else  // four columns are turned at once, a single one is slow
  const bool brief = sizeof(T) == 4 && k <= 16 && k % 4 <= 1;
#endif
  if (brief && lda < (int64_t{1} << 24)) return gemv_short_rows(m, k, a, lda, x, y, ys);
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) rows_times<T, 4>(k, a + i * lda, lda, x, y + i * ys, ys);
  for (; i < m; ++i) rows_times<T, 1>(k, a + i * lda, lda, x, y + i * ys, ys);
}

// y += columns [0, C) times their numbers: C streams read in order, y passed over once.
template <class T, int C>
TYCHO_INLINE void add_columns(int64_t m, const T* a, int64_t lda, const T* x, int64_t xs, T* y,
                              bool add) {
  using L = Lane<T>;
  constexpr int size = L::size;
  L xv[C];
  for (int j = 0; j < C; ++j) xv[j] = L(x[j * xs]);
  int64_t i = 0;
  for (; i + 2 * size <= m; i += 2 * size) {
    L s0 = add ? L::load(y + i) : L(0), s1 = add ? L::load(y + i + size) : L(0);
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) {
      s0 = muladd(L::load(a + j * lda + i), xv[j], s0);
      s1 = muladd(L::load(a + j * lda + i + size), xv[j], s1);
    }
    s0.store(y + i);
    s1.store(y + i + size);
  }
  for (; i < m; i += size) {
    const int n = static_cast<int>(m - i < size ? m - i : size);
    L s = add ? load_part<T>(y + i, n) : L(0);
    for (int j = 0; j < C; ++j) s = muladd(load_part(a + j * lda + i, n), xv[j], s);
    store_part(s, y + i, n);
  }
}

// A y of at most N lanes stays in registers; every column is added to one of several sums, which do
// not wait for each other.
template <class T, int N>
void add_short_columns(int64_t m, int64_t k, const T* a, int64_t lda, const T* x, int64_t xs,
                       T* y) {
  using L = Lane<T>;
  constexpr int size = L::size, U = 8 / N;
  const int last = static_cast<int>(m - (N - 1) * size);
  const auto get = [&](const T* column, int n) __attribute__((always_inline)) {
    return n < N - 1 ? L::load(column + n * size) : load_part(column + n * size, last);
  };
  L sum[U][N];
  for (int u = 0; u < U; ++u)
    for (int n = 0; n < N; ++n) sum[u][n] = L(0);
  int64_t j = 0;
  for (; j + U <= k; j += U)
#pragma GCC unroll 8
    for (int u = 0; u < U; ++u) {
      const L xv(x[(j + u) * xs]);
#pragma GCC unroll 4
      for (int n = 0; n < N; ++n) sum[u][n] = muladd(get(a + (j + u) * lda, n), xv, sum[u][n]);
    }
  for (; j < k; ++j)
    for (int n = 0; n < N; ++n) sum[0][n] = muladd(get(a + j * lda, n), L(x[j * xs]), sum[0][n]);
  for (int n = 0; n < N; ++n) {
    L s = sum[0][n];
    for (int u = 1; u < U; ++u) s += sum[u][n];
    if (n < N - 1)
      s.store(y + n * size);
    else
      store_part(s, y + n * size, last);
  }
}

template <class T>
void gemv_by_cols(int64_t m, int64_t k, const T* a, int64_t lda, const T* x, int64_t xs, T* y,
                  bool whole) {
  constexpr int size = Lane<T>::size;
  if (whole && m <= size) return add_short_columns<T, 1>(m, k, a, lda, x, xs, y);
  if (whole && m <= 2 * size) return add_short_columns<T, 2>(m, k, a, lda, x, xs, y);
  int64_t j = 0;
  for (; j + 8 <= k; j += 8) add_columns<T, 8>(m, a + j * lda, lda, x + j * xs, xs, y, j > 0);
  for (; j < k; ++j) add_columns<T, 1>(m, a + j * lda, lda, x + j * xs, xs, y, j > 0);
}

// R rows of c += four rows of b (or C of them) times the numbers of a that belong to them.
template <class T, int R, int C>
TYCHO_INLINE void add_rows(int64_t n, const T* a, int64_t rs, int64_t cs, const T* b, int64_t ldb,
                           T* c, int64_t ldc) {
  using L = Lane<T>;
  constexpr int size = L::size;
  L x[R][C];
  for (int r = 0; r < R; ++r)
    for (int j = 0; j < C; ++j) x[r][j] = L(a[r * rs + j * cs]);
  for (int64_t i = 0; i < n; i += size) {
    const int m = static_cast<int>(n - i < size ? n - i : size);
    const bool whole = m == size;
    L sum[R];
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      sum[r] = whole ? L::load(c + r * ldc + i) : load_part<T>(c + r * ldc + i, m);
#pragma GCC unroll 4
    for (int j = 0; j < C; ++j) {
      const L y = whole ? L::load(b + j * ldb + i) : load_part<T>(b + j * ldb + i, m);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) sum[r] = muladd(y, x[r][j], sum[r]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r)
      if (whole)
        sum[r].store(c + r * ldc + i);
      else
        store_part(sum[r], c + r * ldc + i, m);
  }
}

// c, which begins as it is, += a b: b is read once, from left to right, while c stays near.
template <class T, int R>
void gemm_by_rows(int64_t n, int64_t k, const T* a, int64_t rs, int64_t cs, const T* b, int64_t ldb,
                  T* c, int64_t ldc) {
  int64_t j = 0;
  for (; j + 4 <= k; j += 4) add_rows<T, R, 4>(n, a + j * cs, rs, cs, b + j * ldb, ldb, c, ldc);
  for (; j < k; ++j) add_rows<T, R, 1>(n, a + j * cs, rs, cs, b + j * ldb, ldb, c, ldc);
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
