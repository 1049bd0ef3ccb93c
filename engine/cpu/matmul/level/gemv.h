// Matrix times vector and dot products in lanes of T: bound by memory, so every element of the
// matrix is read once and several sums run side by side.
#pragma once
#include "engine/cpu/matmul/level/gemm.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Lanes from memory as they lie.
template <class T>
struct AsItIs {
  static TYCHO_INLINE Lane<T> from(const T* p) { return Lane<T>::load(p); }
  static TYCHO_INLINE Lane<T> some(const T* p, int64_t n) {
    return load_part(p, static_cast<int>(n));
  }
};

// Rows of a that meet b at once where both are read as they lie.
#if defined(TYCHO_LEVEL_x86_64)
constexpr int kRowsMost = 1;
#else
constexpr int kRowsMost = 8;
#endif

template <int n>
struct Number {
  static constexpr int value = n;
};

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

// Vectors that R rows meet at once, as many sums as fit into the registers.
#if defined(TYCHO_LEVEL_v4)
constexpr int kDots = 4;
#elif defined(TYCHO_LEVEL_v3)
constexpr int kDots = 3;
#else
constexpr int kDots = 1;
#endif

// R rows meet C vectors, ldx apart: both are read once. The dot product of row r and vector c goes
// to y[r * ys + c * yc].
template <class T, int R, int C>
TYCHO_INLINE void dots_of(int64_t k, const T* a, int64_t lda, const T* x, int64_t ldx, T* y,
                          int64_t ys, int64_t yc) {
  using L = Lane<T>;
  constexpr int size = L::size;
  L sum[R][C];
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) sum[r][c] = L(0);
  const auto step = [&](auto get) __attribute__((always_inline)) {
    L xv[C];
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) xv[c] = get(x + c * ldx);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      L av = get(a + r * lda);
      stay(av);
#pragma GCC unroll 4
      for (int c = 0; c < C; ++c) sum[r][c] = muladd(av, xv[c], sum[r][c]);
    }
  };
  int64_t j = 0;
  for (; j + size <= k; j += size)
    step([&](const T* p) __attribute__((always_inline)) { return L::load(p + j); });
  const int last = static_cast<int>(k - j);
  if (last) step([&](const T* p) __attribute__((always_inline)) { return load_part(p + j, last); });
  for (int r = 0; r < R; ++r)
    for (int c = 0; c < C; ++c) y[r * ys + c * yc] = total(sum[r][c]);
}

template <class T, int R, int C = kDots>
TYCHO_INLINE void dots_of_rows(int64_t n, int64_t k, const T* a, int64_t lda, const T* x,
                               int64_t ldx, T* y, int64_t ys, int64_t yc) {
  int64_t c = 0;
  for (; c + C <= n; c += C) dots_of<T, R, C>(k, a, lda, x + c * ldx, ldx, y + c * yc, ys, yc);
  if constexpr (C > 1)
    if (c < n) dots_of_rows<T, R, C - 1>(n - c, k, a, lda, x + c * ldx, ldx, y + c * yc, ys, yc);
}

// m rows meet n vectors, which stay near.
template <class T>
void gemm_by_dots(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* x, int64_t ldx,
                  T* y, int64_t ys, int64_t yc) {
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) dots_of_rows<T, 4>(n, k, a + i * lda, lda, x, ldx, y + i * ys, ys, yc);
  for (; i < m; ++i) dots_of_rows<T, 1>(n, k, a + i * lda, lda, x, ldx, y + i * ys, ys, yc);
}

// Of the elements begin, begin + 3, ... of three lanes, the first two of which gave x.
template <int begin, class V, int... k>
TYCHO_INLINE V every_third(V x, V third, Places<k...>) {
  constexpr int size = static_cast<int>(sizeof...(k));
  return __builtin_shufflevector(x, third,
                                 (begin + 3 * k < 2 * size ? k : begin + 3 * k - size)...);
}

// K (2 to 4) numbers of each of a lane's worth of rows that lie one after another, times x.
template <int K, class T>
TYCHO_INLINE Lane<T> brief_rows(const T* a, const T* x) {
  using L = Lane<T>;
  const auto at = [&](int i) __attribute__((always_inline)) { return L::load(a + i * L::size); };
  const auto join = [&](int i, L v, L sum) __attribute__((always_inline)) {
    return muladd(v, L(x[i]), sum);
  };
  if constexpr (K == 2) {
    return join(1, every_second<1>(at(0), at(1)), join(0, every_second<0>(at(0), at(1)), L(0)));
  } else if constexpr (K == 3) {
    constexpr auto all = Places<__integer_pack(L::size)...>();
    const auto from = [&](auto begin) __attribute__((always_inline)) {
      return L(
          every_third<begin.value>(every<begin.value, 3>(at(0).v, at(1).v, all), at(2).v, all));
    };
    return join(2, from(Number<2>()), join(1, from(Number<1>()), join(0, from(Number<0>()), L(0))));
  } else {
    const L even0 = every_second<0>(at(0), at(1)), even1 = every_second<0>(at(2), at(3)),
            odd0 = every_second<1>(at(0), at(1)), odd1 = every_second<1>(at(2), at(3));
    const L sum =
        join(1, every_second<0>(odd0, odd1), join(0, every_second<0>(even0, even1), L(0)));
    return join(3, every_second<1>(odd0, odd1), join(2, every_second<1>(even0, even1), sum));
  }
}
template <int K, class T>
int64_t gemv_brief_rows(int64_t m, const T* a, const T* x, T* y) {
  int64_t i = 0;
  for (; i + Lane<T>::size <= m; i += Lane<T>::size) brief_rows<K>(a + i * K, x).store(y + i);
  return i;
}

// Rows of at most two lanes, a lane's worth of them side by side. Returns how many are done.
template <class T>
int64_t gemv_short_rows(int64_t m, int64_t k, const T* a, int64_t lda, const T* x, T* y,
                        int64_t ys) {
  using L = Lane<T>;
  constexpr int size = L::size;
  const int n = static_cast<int>(k < size ? k : size), rest = static_cast<int>(k - n);
  const L x0 = load_part(x, n), x1 = load_part(x + n, rest);
  int64_t i = 0;
  const auto run = [&](auto lane) __attribute__((always_inline)) {
    for (; i + size <= m; i += size) {
      const L sum = totals<T>(lane);
      if (ys == 1) {
        sum.store(y + i);
      } else {
        T part[size];
        sum.store(part);
        for (int r = 0; r < size; ++r) y[(i + r) * ys] = part[r];
      }
    }
  };
  if (rest == 0)
    run([&](int r) __attribute__((always_inline)) { return load_part(a + (i + r) * lda, n) * x0; });
  else
    run([&](int r) __attribute__((always_inline)) {
      const T* row = a + (i + r) * lda;
      return muladd(load_part(row + n, rest), x1, L::load(row) * x0);
    });
  return i;
}

template <class T>
void gemv_by_rows(int64_t m, int64_t k, const T* a, int64_t lda, const T* x, T* y, int64_t ys) {
  int64_t i = 0;
#if !defined(TYCHO_LEVEL_x86_64)
  if (k == 2 && lda == 2 && ys == 1)
    i = gemv_brief_rows<2>(m, a, x, y);
  else if (k == 3 && lda == 3 && ys == 1)
    i = gemv_brief_rows<3>(m, a, x, y);
  else if (k == 4 && lda == 4 && ys == 1)
    i = gemv_brief_rows<4>(m, a, x, y);
  else if (k <= 2 * Lane<T>::size)
    i = gemv_short_rows(m, k, a, lda, x, y, ys);
#endif
  for (; i + 4 <= m; i += 4) rows_times<T, 4>(k, a + i * lda, lda, x, y + i * ys, ys);
  for (; i < m; ++i) rows_times<T, 1>(k, a + i * lda, lda, x, y + i * ys, ys);
}

template <class T>
void add_number(int64_t m, T number, T* y, int64_t ys) {
  using L = Lane<T>;
  int64_t i = 0;
  if (ys == 1) {
    for (; i + L::size <= m; i += L::size) (L::load(y + i) + L(number)).store(y + i);
    store_part(load_part(y + i, static_cast<int>(m - i)) + L(number), y + i,
               static_cast<int>(m - i));
    return;
  }
  for (; i < m; ++i) y[i * ys] = (L(y[i * ys]) + L(number)).v[0];
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
  if (whole && m <= 3 * size) return add_short_columns<T, 3>(m, k, a, lda, x, xs, y);
  if (whole && m <= 4 * size) return add_short_columns<T, 4>(m, k, a, lda, x, xs, y);
  // A piece of y stays in the first-level cache while a few columns pass over it; many of them are
  // read in long runs, which is kinder to memory.
  const int64_t piece = k <= 32 ? 8192 / static_cast<int64_t>(sizeof(T)) : m;
  for (int64_t i = 0; i < m; i += piece) {
    const int64_t n = m - i < piece ? m - i : piece;
    int64_t j = 0;
    const auto pass = [&](auto count) __attribute__((always_inline)) {
      constexpr int C = decltype(count)::value;
      for (; j + C <= k; j += C)
        add_columns<T, C>(n, a + j * lda + i, lda, x + j * xs, xs, y + i, j > 0);
    };
    pass(Number<8>());
    pass(Number<4>());
    pass(Number<2>());
    pass(Number<1>());
  }
}

// R rows of c += C rows of b times the numbers of a that belong to them.
template <class Format, class T, int R, int C, class S>
TYCHO_INLINE void add_rows(int64_t n, const T* a, int64_t rs, int64_t cs, const S* b, int64_t ldb,
                           T* c, int64_t ldc) {
  using L = Lane<T>;
  constexpr int size = L::size;
  L x[R][C];
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < C; ++j) x[r][j] = L(a[r * rs + j * cs]);
  T* const c4 = c + (R > 4 ? 4 : 0) * ldc;
  const auto row = [&](int r) __attribute__((always_inline)) {
    return r < 4 ? c + r * ldc : c4 + (r - 4) * ldc;
  };
  int64_t i = 0;
  for (; i + size <= n; i += size) {
    L y[C];
#pragma GCC unroll 4
    for (int j = 0; j < C; ++j) {
      y[j] = Format::from(b + j * ldb + i);
      stay(y[j]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      L sum = L::load(row(r) + i);
#pragma GCC unroll 4
      for (int j = 0; j < C; ++j) sum = muladd(y[j], x[r][j], sum);
      sum.store(row(r) + i);
    }
  }
  if (i == n) return;
  const int m = static_cast<int>(n - i);
  for (int r = 0; r < R; ++r) {
    L sum = load_part<T>(row(r) + i, m);
    for (int j = 0; j < C; ++j) sum = muladd(Format::some(b + j * ldb + i, m), x[r][j], sum);
    store_part(sum, row(r) + i, m);
  }
}

// c, which begins as it is, += a b: b is read once, from left to right, while c stays near. As many
// rows of b at a time as there are registers for their numbers of a; of many rows of a the second half
// meets them again, near.
template <class Format, class T, int R, class S>
void gemm_by_rows(int64_t n, int64_t k, const T* a, int64_t rs, int64_t cs, const S* b, int64_t ldb,
                  T* c, int64_t ldc) {
#if defined(TYCHO_LEVEL_v4)
  constexpr int registers = 16;
#else
  constexpr int registers = 8;
#endif
  constexpr int first = R > 4 ? (R + 1) / 2 : R;
  constexpr int C = first * 4 <= registers ? 4 : first * 2 <= registers ? 2 : 1;
  const auto add = [&](auto rows, int64_t j) __attribute__((always_inline)) {
    constexpr int count = decltype(rows)::value;
    const T* const aj = a + j * cs;
    add_rows<Format, T, first, count>(n, aj, rs, cs, b + j * ldb, ldb, c, ldc);
    if constexpr (R > first)
      add_rows<Format, T, R - first, count>(n, aj + first * rs, rs, cs, b + j * ldb, ldb,
                                            c + first * ldc, ldc);
  };
  int64_t j = 0;
  for (; j + C <= k; j += C) add(Number<C>(), j);
  for (; j < k; ++j) add(Number<1>(), j);
}

// The same for m <= kRowsMost rows of a.
template <class Format, class T, class S, int R = kRowsMost>
void gemm_few(int64_t m, int64_t n, int64_t k, const T* a, int64_t rs, int64_t cs, const S* b,
              int64_t ldb, T* c, int64_t ldc) {
  if constexpr (R > 1)
    if (m < R) return gemm_few<Format, T, S, R - 1>(m, n, k, a, rs, cs, b, ldb, c, ldc);
  gemm_by_rows<Format, T, R>(n, k, a, rs, cs, b, ldb, c, ldc);
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
