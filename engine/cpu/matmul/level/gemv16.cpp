// Matrices of two-byte numbers times vectors, in lanes of float; see engine/cpu/matmul/gemv16.h.
#include "engine/cpu/matmul/gemv16.h"

#include "engine/cpu/lanes/fold_lanes.h"
#include "engine/cpu/matmul/level/two_bytes.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

using L = Lane<float>;

// Two lanes of numbers: those at even places, and those at odd ones. In bfloat16 the latter are the
// upper halves of 32 bits, and the former the lower.
struct Split {
  L even, odd;
};
template <class Format>
TYCHO_INLINE Split split(const uint16_t* p) {
  if constexpr (!Format::is_upper_half)  // any two halves, as long as they are the same
    return {Format::from(p), Format::from(p + L::size)};
  Raw<float>::Bits bits;
  memcpy(&bits, p, sizeof bits);
  return {from_bits<float>(bits << 16), from_bits<float>(bits & 0xffff0000u)};
}

// R rows share the loads of V vectors; U sums for each pair do not wait for each other.
template <class Format, int R, int U, int V = 1>
TYCHO_INLINE void rows(int64_t k, const uint16_t* a, int64_t lda, const uint16_t* x, float* y,
                       int64_t ldy = 0) {
  constexpr int size = L::size;
  L sum[R][V][U];
  for (auto& row : sum)
    for (auto& one : row)
      for (L& s : one) s = L(0);
  int64_t j = 0;
  for (; j + U * size <= k; j += U * size)
#pragma GCC unroll 4
    for (int u = 0; u < U; u += 2) {
      Split xv[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) xv[v] = split<Format>(x + v * k + j + u * size);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const Split av = split<Format>(a + r * lda + j + u * size);
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) {
          sum[r][v][u] = fma(av.even, xv[v].even, sum[r][v][u]);
          sum[r][v][u + 1] = fma(av.odd, xv[v].odd, sum[r][v][u + 1]);
        }
      }
    }
  for (; j < k; j += size) {
    const int64_t n = k - j < size ? k - j : size;
    for (int v = 0; v < V; ++v) {
      const L xv = Format::some(x + v * k + j, n);
      for (int r = 0; r < R; ++r)
        sum[r][v][0] = fma(Format::some(a + r * lda + j, n), xv, sum[r][v][0]);
    }
  }
  for (int r = 0; r < R; ++r)
    for (int v = 0; v < V; ++v) {
      for (int u = 1; u < U; ++u) sum[r][v][0] += sum[r][v][u];
      y[v * ldy + r] = total(sum[r][v][0]);
    }
}

// y (or 0, at first) += C columns times their numbers.
template <class Format, int C>
TYCHO_INLINE void columns(int64_t m, const uint16_t* a, int64_t lda, const uint16_t* x, float* y,
                          bool first) {
  L xv[C];
  for (int j = 0; j < C; ++j) xv[j] = L(Format::some(x + j, 1).v[0]);
  int64_t i = 0;
  for (; i + L::size <= m; i += L::size) {
    L sum = first ? L(0) : L::load(y + i);
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) sum = fma(Format::from(a + j * lda + i), xv[j], sum);
    sum.store(y + i);
  }
  if (i < m) {
    const int n = static_cast<int>(m - i);
    L sum = first ? L(0) : load_part<float>(y + i, n);
    for (int j = 0; j < C; ++j) sum = fma(Format::some(a + j * lda + i, n), xv[j], sum);
    store_part(sum, y + i, n);
  }
}

// Rows of at most two lanes, a lane's worth of them side by side. Returns how many are done.
template <class Format>
int64_t short_rows(int64_t m, int64_t k, const uint16_t* a, int64_t lda, const uint16_t* x,
                   float* y) {
  constexpr int size = L::size;
  const int64_t n = k < size ? k : size, rest = k - n;
  const L x0 = Format::some(x, n), x1 = Format::some(x + n, rest);
  int64_t i = 0;
  const auto run = [&](auto lane) __attribute__((always_inline)) {
    for (; i + size <= m; i += size) totals<float>(lane).store(y + i);
  };
  if (k < size)
    run([&](int r)
            __attribute__((always_inline)) { return Format::some(a + (i + r) * lda, n) * x0; });
  else if (rest == 0)
    run([&](int r) __attribute__((always_inline)) { return Format::from(a + (i + r) * lda) * x0; });
  else
    run([&](int r) __attribute__((always_inline)) {
      const uint16_t* row = a + (i + r) * lda;
      return fma(Format::some(row + n, rest), x1, Format::from(row) * x0);
    });
  return i;
}

// As many sums as registers hold: of four rows of one vector, or of two.
template <class Format, int V>
void by_rows(int64_t m, int64_t k, const uint16_t* a, int64_t lda, const uint16_t* x, float* y,
             int64_t ldy) {
  constexpr int R = V == 1 || L::size == 16 ? 4 : 2;
  int64_t i = 0;
#if !defined(TYCHO_LEVEL_x86_64)
  if constexpr (V == 1)
    if (k <= 2 * L::size) i = short_rows<Format>(m, k, a, lda, x, y);
#endif
  for (; i + R <= m; i += R) rows<Format, R, 2, V>(k, a + i * lda, lda, x, y + i, ldy);
  for (; i < m; ++i) rows<Format, 1, V == 1 ? 4 : 2, V>(k, a + i * lda, lda, x, y + i, ldy);
}
template <class Format>
void by_rows(int vectors, int64_t m, int64_t k, const uint16_t* a, int64_t lda, const uint16_t* x,
             float* y, int64_t ldy) {
  switch (vectors) {
    case 1:
      return by_rows<Format, 1>(m, k, a, lda, x, y, ldy);
    case 2:
      return by_rows<Format, 2>(m, k, a, lda, x, y, ldy);
    case 3:
      return by_rows<Format, 3>(m, k, a, lda, x, y, ldy);
    default:
      return by_rows<Format, 4>(m, k, a, lda, x, y, ldy);
  }
}

// A y of at most N lanes stays in registers; columns are added to one of several sums, which do not
// wait for each other. What is read behind a column is the next one's.
template <class Format, int N>
void short_columns(int64_t m, int64_t k, const uint16_t* a, int64_t lda, const uint16_t* x,
                   float* y) {
  constexpr int U = 8 / N;
  constexpr int64_t kAtOnce = 64 * U;
  const int64_t whole = k - (N * L::size - m + lda - 1) / lda;  // columns with others behind them
  const int last = static_cast<int>(m - (N - 1) * L::size);
  L sum[U][N];
  for (int u = 0; u < U; ++u)
    for (int n = 0; n < N; ++n) sum[u][n] = L(0);
  alignas(64) float wide[kAtOnce + L::size];
  for (int64_t from = 0; from < k; from += kAtOnce) {
    const int64_t count = k - from < kAtOnce ? k - from : kAtOnce;
    for (int64_t i = 0; i < count; i += L::size) {
      const int64_t n = count - i < L::size ? count - i : L::size;
      Format::some(x + from + i, n).store(wide + i);
    }
    int64_t j = 0;
    for (; j + U <= count && from + j + U <= whole; j += U)
#pragma GCC unroll 8
      for (int u = 0; u < U; ++u)
#pragma GCC unroll 4
        for (int n = 0; n < N; ++n)
          sum[u][n] =
              fma(Format::from(a + (from + j + u) * lda + n * L::size), L(wide[j + u]), sum[u][n]);
    for (; j < count; ++j)
      for (int n = 0; n < N; ++n)
        sum[0][n] =
            fma(Format::some(a + (from + j) * lda + n * L::size, n < N - 1 ? L::size : last),
                L(wide[j]), sum[0][n]);
  }
  for (int n = 0; n < N; ++n) {
    L s = sum[0][n];
    for (int u = 1; u < U; ++u) s += sum[u][n];
    if (n < N - 1)
      s.store(y + n * L::size);
    else
      store_part(s, y + n * L::size, last);
  }
}

template <class Format>
void by_columns(int64_t m, int64_t k, const uint16_t* a, int64_t lda, const uint16_t* x, float* y) {
  if (m <= L::size) return short_columns<Format, 1>(m, k, a, lda, x, y);
  if (m <= 2 * L::size) return short_columns<Format, 2>(m, k, a, lda, x, y);
  if (m <= 3 * L::size) return short_columns<Format, 3>(m, k, a, lda, x, y);
  if (m <= 4 * L::size) return short_columns<Format, 4>(m, k, a, lda, x, y);
  int64_t j = 0;
  for (; j + 8 <= k; j += 8) columns<Format, 8>(m, a + j * lda, lda, x + j, y, j == 0);
  for (; j + 2 <= k; j += 2) columns<Format, 2>(m, a + j * lda, lda, x + j, y, j == 0);
  if (j < k) columns<Format, 1>(m, a + j * lda, lda, x + j, y, j == 0);
}

}  // namespace

void gemv16_rows(bool half, int vectors, int64_t m, int64_t k, const uint16_t* a, int64_t lda,
                 const uint16_t* x, float* y, int64_t ldy) {
  half ? by_rows<AsHalf>(vectors, m, k, a, lda, x, y, ldy)
       : by_rows<AsBFloat16>(vectors, m, k, a, lda, x, y, ldy);
}

void gemv16_cols(bool half, int64_t m, int64_t k, const uint16_t* a, int64_t lda, const uint16_t* x,
                 float* y) {
  half ? by_columns<AsHalf>(m, k, a, lda, x, y) : by_columns<AsBFloat16>(m, k, a, lda, x, y);
}

float dot16_part(bool half, int64_t n, const uint16_t* x, const uint16_t* y) {
  float sum;
  half ? rows<AsHalf, 1, 4>(n, x, 0, y, &sum) : rows<AsBFloat16, 1, 4>(n, x, 0, y, &sum);
  return sum;
}

}  // namespace tycho::cpu::TYCHO_LEVEL
