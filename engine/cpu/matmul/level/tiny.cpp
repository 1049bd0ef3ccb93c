// Many small products one after another, without anything around each; see
// engine/cpu/matmul/gemm.h.
#include "engine/cpu/lanes/parts.h"
#include "engine/cpu/matmul/gemm.h"
#include "engine/cpu/matmul/level/gemv.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

constexpr int64_t kPacked = 4096;  // numbers of b that are put side by side, in whole lanes

// Rows [i, i + R) of one product; a row of c fits a lane.
template <int R, class T>
TYCHO_INLINE void tiny_rows(const TinyProducts& p, int64_t i, const T* a, const T* b, int64_t b_row,
                            bool whole, Lane<T> start, T* c) {
  using L = Lane<T>;
  const int n = static_cast<int>(p.n);
  L sum[R];
  for (L& s : sum) s = start;
  for (int64_t k = 0; k < p.k; ++k) {
    const L row = whole ? L::load(b + k * b_row) : load_part(b + k * b_row, n);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) sum[r] = fma(L(a[(i + r) * p.a_row + k * p.a_col]), row, sum[r]);
  }
  for (int r = 0; r < R; ++r)
    if (n == L::size)
      sum[r].store(c + (i + r) * p.n);
    else
      store_part(sum[r], c + (i + r) * p.n, n);
}

// All rows, as many of them at a time as there are: few would wait for their own sums.
template <class T>
TYCHO_INLINE void tiny_product(const TinyProducts& p, const T* a, const T* b, int64_t b_row,
                               bool whole, Lane<T> start, T* c) {
  int64_t i = 0;
  for (; i + 8 <= p.m; i += 8) tiny_rows<8>(p, i, a, b, b_row, whole, start, c);
  const auto rest = [&](auto rows) __attribute__((always_inline)) {
    tiny_rows<decltype(rows)::value>(p, i, a, b, b_row, whole, start, c);
  };
  switch (p.m - i) {
    case 1:
      return rest(Number<1>());
    case 2:
      return rest(Number<2>());
    case 3:
      return rest(Number<3>());
    case 4:
      return rest(Number<4>());
    case 5:
      return rest(Number<5>());
    case 6:
      return rest(Number<6>());
    case 7:
      return rest(Number<7>());
  }
}

template <class T>
void tiny(const TinyProducts& p) {
  const T *const all_a = static_cast<const T*>(p.a), *const all_b = static_cast<const T*>(p.b);
  T* c = static_cast<T*>(p.c);
  const Lane<T> start =
      p.bias ? load_part(static_cast<const T*>(p.bias), static_cast<int>(p.n)) : Lane<T>(0);
  constexpr int size = Lane<T>::size;
  T packed[kPacked];
  const bool packs = p.b_col != 1 && p.n > 1;
  for (int64_t q = 0; q < p.count; ++q, c += p.m * p.n) {
    const T *const a = all_a + p.a_at[q], *b = all_b + p.b_at[q];
    if (packs) {
      pack_panel<T, size>(b, p.b_col, p.b_row, static_cast<int>(p.n), p.k, packed);
      b = packed;
    }
    tiny_product(p, a, b, packs ? size : p.b_row, packs || p.n == size, start, c);
  }
}

// A product with a vector whose terms lie side by side in both operands; false for any other.
template <class T>
bool dots(const TinyProducts& p) {
  const bool column = p.n == 1 && p.a_col == 1, row = p.m == 1 && p.b_row == 1;
  if (p.k <= 4 || p.bias || !(column ? p.b_row == 1 : row && p.a_col == 1)) return false;
  const T *const a = static_cast<const T*>(p.a), *const b = static_cast<const T*>(p.b);
  T* c = static_cast<T*>(p.c);
  for (int64_t q = 0; q < p.count; ++q, c += p.m * p.n)
    if (column)
      gemv_by_rows<T>(p.m, p.k, a + p.a_at[q], p.a_row, b + p.b_at[q], c, 1);
    else
      gemv_by_rows<T>(p.n, p.k, b + p.b_at[q], p.b_col, a + p.a_at[q], c, 1);
  return true;
}

template <class T>
bool fits(const TinyProducts& p) {
  return p.n <= Lane<T>::size && (p.b_col == 1 || Lane<T>::size * p.k <= kPacked);
}

}  // namespace

bool tiny_products(const TinyProducts* p) {
  const bool single = p->dtype == DType::Float32;
  if (single ? dots<float>(*p) : dots<double>(*p)) return true;
  if (!(single ? fits<float>(*p) : fits<double>(*p))) return false;
  single ? tiny<float>(*p) : tiny<double>(*p);
  return true;
}

}  // namespace tycho::cpu::TYCHO_LEVEL
