// bfloat16 matrices times vectors, in lanes of float; see engine/cpu/matmul/gemv16.h.
#include "engine/cpu/matmul/gemv16.h"

#include "engine/cpu/lanes/fold_lanes.h"
#include "engine/cpu/lanes/storage.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

using L = Lane<float>;

// Two lanes of numbers: those at even places, and those at odd ones. In bfloat16 the latter are the
// upper halves of 32 bits, and the former the lower.
struct Split {
  L even, odd;
};
TYCHO_INLINE Split split(const uint16_t* p) {
  Raw<float>::Bits bits;
  memcpy(&bits, p, sizeof bits);
  return {from_bits<float>(bits << 16), from_bits<float>(bits & 0xffff0000u)};
}

// R rows share the loads of x; U sums for each do not wait for each other.
template <int R, int U>
TYCHO_INLINE void rows(int64_t k, const uint16_t* a, int64_t lda, const uint16_t* x, float* y) {
  constexpr int size = L::size;
  L sum[R][U];
  for (int r = 0; r < R; ++r)
    for (int u = 0; u < U; ++u) sum[r][u] = L(0);
  int64_t j = 0;
  for (; j + U * size <= k; j += U * size)
#pragma GCC unroll 4
    for (int u = 0; u < U; u += 2) {
      const Split xv = split(x + j + u * size);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const Split av = split(a + r * lda + j + u * size);
        sum[r][u] = fma(av.even, xv.even, sum[r][u]);
        sum[r][u + 1] = fma(av.odd, xv.odd, sum[r][u + 1]);
      }
    }
  for (; j < k; j += size) {
    const int64_t n = k - j < size ? k - j : size;
    const L xv = get_some(x + j, n, uint16_t{0});
    for (int r = 0; r < R; ++r)
      sum[r][0] = fma(get_some(a + r * lda + j, n, uint16_t{0}), xv, sum[r][0]);
  }
  for (int r = 0; r < R; ++r) {
    for (int u = 1; u < U; ++u) sum[r][0] += sum[r][u];
    y[r] = total(sum[r][0]);
  }
}

// y (or 0, at first) += C columns times their numbers.
template <int C>
TYCHO_INLINE void columns(int64_t m, const uint16_t* a, int64_t lda, const uint16_t* x, float* y,
                          bool first) {
  L xv[C];
  for (int j = 0; j < C; ++j) xv[j] = from_bits<float>(Raw<float>::Bits{} + (uint32_t{x[j]} << 16));
  int64_t i = 0;
  for (; i + L::size <= m; i += L::size) {
    L sum = first ? L(0) : L::load(y + i);
#pragma GCC unroll 8
    for (int j = 0; j < C; ++j) sum = fma(get(a + j * lda + i), xv[j], sum);
    sum.store(y + i);
  }
  if (i < m) {
    const int n = static_cast<int>(m - i);
    L sum = first ? L(0) : load_part<float>(y + i, n);
    for (int j = 0; j < C; ++j) sum = fma(get_some(a + j * lda + i, n, uint16_t{0}), xv[j], sum);
    store_part(sum, y + i, n);
  }
}

}  // namespace

void gemv16_rows(int64_t m, int64_t k, const uint16_t* a, int64_t lda, const uint16_t* x,
                 float* y) {
  int64_t i = 0;
  for (; i + 4 <= m; i += 4) rows<4, 2>(k, a + i * lda, lda, x, y + i);
  for (; i < m; ++i) rows<1, 4>(k, a + i * lda, lda, x, y + i);
}

void gemv16_cols(int64_t m, int64_t k, const uint16_t* a, int64_t lda, const uint16_t* x,
                 float* y) {
  int64_t j = 0;
  for (; j + 8 <= k; j += 8) columns<8>(m, a + j * lda, lda, x + j, y, j == 0);
  for (; j + 2 <= k; j += 2) columns<2>(m, a + j * lda, lda, x + j, y, j == 0);
  if (j < k) columns<1>(m, a + j * lda, lda, x + j, y, j == 0);
}

float dot16_part(int64_t n, const uint16_t* x, const uint16_t* y) {
  float sum;
  rows<1, 4>(n, x, 0, y, &sum);
  return sum;
}

}  // namespace tycho::cpu::TYCHO_LEVEL
