// Matrix times vector and dot products in lanes of T: bound by memory, so every element of the
// matrix is read once and several sums run side by side.
#pragma once
#include "engine/cpu/matmul/level/gemm.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

template <class T>
TYCHO_INLINE T sum_of(Lane<T> x) {
  T a[Lane<T>::size];
  x.store(a);
  for (int w = Lane<T>::size / 2; w > 0; w /= 2)
    for (int i = 0; i < w; ++i) a[i] = (Lane<T>(a[i]) + Lane<T>(a[i + w])).v[0];
  return a[0];
}

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
    y[r * ys] = sum_of(s);
  }
}

template <class T>
void gemv_by_rows(int64_t m, int64_t k, const T* a, int64_t lda, const T* x, T* y, int64_t ys) {
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
    store_part(y + i, s, n);
  }
}

template <class T>
void gemv_by_cols(int64_t m, int64_t k, const T* a, int64_t lda, const T* x, int64_t xs, T* y) {
  int64_t j = 0;
  for (; j + 8 <= k; j += 8) add_columns<T, 8>(m, a + j * lda, lda, x + j * xs, xs, y, j > 0);
  for (; j < k; ++j) add_columns<T, 1>(m, a + j * lda, lda, x + j * xs, xs, y, j > 0);
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
