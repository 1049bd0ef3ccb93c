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

// One term after the other, as lanes have it.
template <class T>
TYCHO_INLINE T with_term(T a, T b, T sum) {
#ifdef TYCHO_LEVEL_v2
  return sum + a * b;
#else
  return sizeof(T) == 4
             ? static_cast<T>(__builtin_fmaf(static_cast<float>(a), static_cast<float>(b),
                                             static_cast<float>(sum)))
             : static_cast<T>(__builtin_fma(a, b, sum));
#endif
}

// Products with a vector of K terms: a column of so few fills no lane, and numbers alone wait for nothing.
template <int K, class T>
void few_terms(const TinyProducts& p) {
  T* c = static_cast<T*>(p.c);
  for (int64_t q = 0; q < p.count; ++q, c += p.m) {
    const T *const a = static_cast<const T*>(p.a) + p.a_at[q], *const b =
                                                                   static_cast<const T*>(p.b) +
                                                                   p.b_at[q];
    T x[K];
    for (int k = 0; k < K; ++k) x[k] = b[k * p.b_row];
    for (int64_t i = 0; i < p.m; ++i) {
      T sum = 0;
#pragma GCC unroll 4
      for (int k = 0; k < K; ++k) sum = with_term(a[i * p.a_row + k * p.a_col], x[k], sum);
      c[i] = sum;
    }
  }
}
template <class T>
bool vectors(const TinyProducts& p) {
  if (p.n != 1 || p.bias) return false;
  switch (p.k) {
    case 1:
      return few_terms<1, T>(p), true;
    case 2:
      return few_terms<2, T>(p), true;
    case 3:
      return few_terms<3, T>(p), true;
    case 4:
      return few_terms<4, T>(p), true;
    default:
      return false;
  }
}

template <class T>
bool products(const TinyProducts& p) {
  if (dots<T>(p) || vectors<T>(p)) return true;
  if (!fits<T>(p)) return false;
  tiny<T>(p);
  return true;
}

}  // namespace

bool tiny_products(const TinyProducts* p) {
  return p->dtype == DType::Float32 ? products<float>(*p) : products<double>(*p);
}

}  // namespace tycho::cpu::TYCHO_LEVEL
