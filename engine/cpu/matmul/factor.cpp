// Factorisations by halves; the blocks are in level/factor.cpp.
#include "engine/cpu/matmul/factor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/matmul/gemm.h"
#include "engine/cpu/scratch.h"

namespace tycho::cpu {
namespace {

// c[m, n] -= a[m, k] b[k, n]; the rows of b and c lie side by side. The smaller factor is negated.
template <class T>
void subtract_product(int64_t m, int64_t n, int64_t k, Strided<T> a, const T* b, int64_t b_row,
                      T* c, int64_t c_row, bool alone) {
  if (m == 0 || n == 0 || k == 0) return;
  Product p{};
  p.dtype = sizeof(T) == 4 ? DType::Float32 : DType::Float64;
  p.m = m, p.n = n, p.k = k;
  p.a = a.data, p.b = b, p.c = c;
  p.a_row = a.row, p.a_col = a.col;
  p.b_row = b_row, p.b_col = 1, p.c_row = c_row;
  p.add = true;
  p.alone = alone;
  const Scratch scratch(static_cast<size_t>(std::min(m, n) * k) * sizeof(T));
  const auto negated = [&](Strided<T> x, int64_t rows, int64_t columns) {
    level_of::negate_into(kReal<T>, static_cast<const void*>(x.data), x.row, x.col,
                          static_cast<void*>(scratch.data()), rows, columns);
    return scratch.data();
  };
  if (n < m) {
    p.b = negated({b, b_row, 1}, k, n);
    p.b_row = n;
  } else if (a.col == 1) {
    p.a = negated(a, m, k);
    p.a_row = k;
  } else {  // a's columns lie side by side: it is negated as it lies, and read across
    p.a = negated({a.data, a.col, a.row}, k, m);
    p.a_row = 1, p.a_col = m;
  }
  gemm(p);
}

// Two rows change places; `room` holds one.
template <class T>
void swap_rows(T* x, T* y, int64_t n, T* room) {
  const size_t bytes = static_cast<size_t>(n) * sizeof(T);
  std::memcpy(room, x, bytes);
  std::memcpy(x, y, bytes);
  std::memcpy(y, room, bytes);
}

// About half of n, in whole blocks.
int64_t half(int64_t n) { return (n / 2 + kFactorBlock - 1) / kFactorBlock * kFactorBlock; }

template <class T>
struct Lu {
  T* a;
  int64_t n, row;
  int* swaps;
  bool alone;
  T* panel;
  int64_t missing = 0;

  T* at(int64_t i, int64_t j) const { return a + i * row + j; }
  T* room() const { return panel + n * kFactorBlock; }  // for a row

  // Columns [begin, begin + w) of the rows from `begin` on; whole rows are exchanged.
  void factor(int64_t begin, int64_t w) {
    if (w <= kFactorBlock) return factor_few(begin, w);
    const int64_t left = half(w), middle = begin + left, right = w - left;
    factor(begin, left);
    solve_triangle(Triangle<T>{false, true, left, at(begin, begin), row, 1}, at(begin, middle), row,
                   right, alone);
    subtract_product<T>(n - middle, right, left, {at(middle, begin), row, 1}, at(begin, middle),
                        row, at(middle, middle), row, alone);
    factor(middle, right);
  }
  void factor_few(int64_t begin, int64_t w) {
    const int64_t m = n - begin;
    const size_t bytes = static_cast<size_t>(w) * sizeof(T);
    for (int64_t i = 0; i < m; ++i)
      std::memcpy(panel + i * kFactorBlock, at(begin + i, begin), bytes);
    const int64_t code =
        level_of::factor_panel(kReal<T>, static_cast<void*>(panel), m, w, swaps + begin);
    if (code && !missing) missing = begin + code;
    for (int64_t i = 0; i < m; ++i)
      std::memcpy(at(begin + i, begin), panel + i * kFactorBlock, bytes);
    for (int64_t k = begin; k < begin + w; ++k) {
      const int64_t other = swaps[k] += static_cast<int>(begin);
      if (other == k) continue;
      swap_rows(at(k, 0), at(other, 0), begin, room());
      swap_rows(at(k, begin + w), at(other, begin + w), n - begin - w, room());
    }
  }
};

// c[n, n] -= b^T b for b[k, n], its upper triangle and little more.
template <class T>
void subtract_square(int64_t n, int64_t k, const T* b, int64_t b_row, T* c, int64_t c_row,
                     bool alone) {
  constexpr int64_t kWhole = 64;
  if (n <= kWhole) return subtract_product<T>(n, n, k, {b, 1, b_row}, b, b_row, c, c_row, alone);
  const int64_t top = half(n);
  subtract_square(top, k, b, b_row, c, c_row, alone);
  subtract_product<T>(top, n - top, k, {b, 1, b_row}, b + top, b_row, c + top, c_row, alone);
  subtract_square(n - top, k, b + top, b_row, c + top * (c_row + 1), c_row, alone);
}

template <class T>
int64_t cholesky_few(T* a, int64_t n, int64_t row) {
  for (int64_t i = 0; i < n; ++i) {
    T* const top = a + i * row;
    if (!(top[i] > 0)) return i + 1;
    const T root = std::sqrt(top[i]);
    top[i] = root;
    for (int64_t j = i + 1; j < n; ++j) top[j] /= root;
    for (int64_t k = i + 1; k < n; ++k)
      for (int64_t j = k; j < n; ++j) a[k * row + j] -= top[k] * top[j];
  }
  return 0;
}

}  // namespace

template <class T>
int64_t factor_lu(T* a, int64_t n, int64_t row, int* swaps, bool alone) {
  if (n == 0) return 0;
  if (n <= kFactorBlock) {  // nothing but a panel, and no memory to ask for
    alignas(64) T few[kFactorBlock * kFactorBlock] = {};
    Lu<T> lu{a, n, row, swaps, alone, few};
    lu.factor_few(0, n);
    return lu.missing;
  }
  const Scratch panel(static_cast<size_t>(n * (kFactorBlock + 1)) * sizeof(T));
  std::memset(panel.data(), 0, static_cast<size_t>(n * kFactorBlock) * sizeof(T));
  Lu<T> lu{a, n, row, swaps, alone, reinterpret_cast<T*>(panel.data())};
  lu.factor(0, n);
  return lu.missing;
}

template <class T>
int64_t factor_cholesky(T* a, int64_t n, int64_t row, bool alone) {
  if (n <= kFactorBlock) return cholesky_few(a, n, row);
  const int64_t left = half(n), right = n - left;
  if (const int64_t code = factor_cholesky(a, left, row, alone)) return code;
  T *const side = a + left, *const rest = a + left * (row + 1);
  solve_triangle(Triangle<T>{false, false, left, a, 1, row}, side, row, right, alone);
  subtract_square(right, left, side, row, rest, row, alone);
  const int64_t code = factor_cholesky(rest, right, row, alone);
  return code ? left + code : 0;
}

template <class T>
void solve_triangle(const Triangle<T>& t, T* b, int64_t b_row, int64_t width, bool alone) {
  constexpr int64_t kStrip = 64, kWork = 1 << 20;
  if (!alone && t.n * t.n * width >= kWork && width > kStrip && get_num_threads() > 1)
    return parallel_for((width + kStrip - 1) / kStrip, 1, [&](int64_t begin, int64_t end) {
      const int64_t from = begin * kStrip;
      solve_triangle(t, b + from, b_row, std::min(width, end * kStrip) - from, true);
    });
  if (t.n <= kFactorBlock)
    return level_of::solve_block(kReal<T>, t.upper, t.unit, t.n, static_cast<const void*>(t.data),
                                 t.row, t.col, static_cast<void*>(b), b_row, width);
  const int64_t top = half(t.n), rest = t.n - top;
  const Triangle<T> first{t.upper, t.unit, top, t.data, t.row, t.col};
  const Triangle<T> last{t.upper, t.unit, rest, t.data + top * (t.row + t.col), t.row, t.col};
  T* const below = b + top * b_row;
  if (t.upper) {
    solve_triangle(last, below, b_row, width, alone);
    subtract_product<T>(top, width, rest, {t.data + top * t.col, t.row, t.col}, below, b_row, b,
                        b_row, alone);
    solve_triangle(first, b, b_row, width, alone);
  } else {
    solve_triangle(first, b, b_row, width, alone);
    subtract_product<T>(rest, width, top, {t.data + top * t.row, t.row, t.col}, b, b_row, below,
                        b_row, alone);
    solve_triangle(last, below, b_row, width, alone);
  }
}

template <class T>
void invert_lower(int64_t n, const T* t, int64_t row, T* x, int64_t x_row, bool alone) {
  const Triangle<T> whole{false, true, n, t, row, 1};
  if (n <= kFactorBlock) return solve_triangle(whole, x, x_row, n, alone);
  const int64_t top = half(n), rest = n - top;
  T *const left = x + top * x_row, *const corner = left + top;
  const T* const side = t + top * row;
  invert_lower(top, t, row, x, x_row, alone);
  subtract_product<T>(rest, top, top, {side, row, 1}, x, x_row, left, x_row, alone);
  solve_triangle(Triangle<T>{false, true, rest, side + top, row, 1}, left, x_row, top, alone);
  invert_lower(rest, side + top, row, corner, x_row, alone);
}

template <class T>
int64_t invert_matrix(T* a, int64_t n, int* swaps, T* x, bool alone) {
  if (const int64_t code = factor_lu(a, n, n, swaps, alone)) return code;
  std::fill_n(x, n * n, T(0));
  for (int64_t i = 0; i < n; ++i) x[i * (n + 1)] = 1;
  invert_lower(n, static_cast<const T*>(a), n, x, n, alone);
  solve_triangle(Triangle<T>{true, false, n, a, n, 1}, x, n, n, alone);
  // The exchanges of rows of `a` are those of columns here, the last one first.
  std::vector<int64_t> from(static_cast<size_t>(n));
  for (int64_t j = 0; j < n; ++j) from[static_cast<size_t>(j)] = j;
  for (int64_t k = n - 1; k >= 0; --k)
    std::swap(from[static_cast<size_t>(k)], from[static_cast<size_t>(swaps[k])]);
  for (int64_t i = 0; i < n; ++i) {
    T* const to = a + i * n;
    for (int64_t j = 0; j < n; ++j) to[j] = x[i * n + from[static_cast<size_t>(j)]];
  }
  return 0;
}

template int64_t invert_matrix(float*, int64_t, int*, float*, bool);
template int64_t invert_matrix(double*, int64_t, int*, double*, bool);
template int64_t factor_lu(float*, int64_t, int64_t, int*, bool);
template int64_t factor_lu(double*, int64_t, int64_t, int*, bool);
template int64_t factor_cholesky(float*, int64_t, int64_t, bool);
template int64_t factor_cholesky(double*, int64_t, int64_t, bool);
template void solve_triangle(const Triangle<float>&, float*, int64_t, int64_t, bool);
template void solve_triangle(const Triangle<double>&, double*, int64_t, int64_t, bool);

}  // namespace tycho::cpu
