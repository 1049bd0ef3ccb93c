// Blocks of Householder's reflections; their panels are in level/reflect.cpp.
#include "engine/cpu/matmul/reflect.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/cpu/matmul/factor.h"
#include "engine/cpu/matmul/gemm.h"

namespace tycho::cpu {
namespace {

// c[m, n] = a[m, k] b[k, n], or that is added to it
template <class T>
void multiply(int64_t m, int64_t n, int64_t k, Strided<T> a, Strided<T> b, T* c, int64_t c_row,
              bool add, bool alone) {
  gemm({.dtype = sizeof(T) == 4 ? DType::Float32 : DType::Float64,
        .m = m,
        .n = n,
        .k = k,
        .a = a.data,
        .b = b.data,
        .c = c,
        .a_row = a.row,
        .a_col = a.col,
        .b_row = b.row,
        .b_col = b.col,
        .c_row = c_row,
        .add = add,
        .alone = alone});
}

// t = -U'^-1, which is -T'
template <class T>
void invert(const T* u, T* t) {
  std::fill_n(t, kPanel * kPanel, T(0));
  for (int64_t j = 0; j < kPanel; ++j) t[j * (kPanel + 1)] = -1;
  solve_triangle(Triangle<T>{false, false, kPanel, u, 1, kPanel}, t, kPanel, kPanel, true);
}

// How many numbers the first blocks take together.
int64_t numbers_of(int64_t rows, int64_t blocks) {
  return blocks * (rows + kPanel) * kPanel - blocks * (blocks - 1) / 2 * kPanel * kPanel;
}

}  // namespace

template <class T>
Reflections<T>::Reflections(int64_t rows, int64_t k, bool alone)
    : rows_(rows),
      k_(k),
      alone_(alone),
      memory_(static_cast<size_t>(numbers_of(rows, (k + kPanel - 1) / kPanel)) * sizeof(T)) {}

template <class T>
typename Reflections<T>::Block Reflections<T>::block(int64_t number) const {
  const int64_t from = number * kPanel;
  T* const t = reinterpret_cast<T*>(memory_.data()) + numbers_of(rows_, number);
  return {from, rows_ - from, t, t + kPanel * kPanel};
}

template <class T>
void Reflections<T>::factor(T* a, int64_t a_row, int64_t columns) {
  for (int64_t number = 0; number * kPanel < k_; ++number) {
    const Block b = block(number);
    const int64_t steps = std::min(kPanel, k_ - b.from);
    T* const own = a + b.from * (a_row + 1);
    for (int64_t i = 0; i < b.rows; ++i) {
      std::copy_n(own + i * a_row, steps, b.v + i * kPanel);
      std::fill(b.v + i * kPanel + steps, b.v + (i + 1) * kPanel, T(0));
    }
    T u[kPanel * kPanel] = {};
    level_of::reflect_panel(kReal<T>, b.rows, steps, static_cast<void*>(b.v),
                            static_cast<void*>(u));
    for (int64_t j = 0; j < kPanel; ++j) {
      for (int64_t i = 0; i <= j && j < steps; ++i)
        own[i * a_row + j] = std::exchange(b.v[i * kPanel + j], T(0));
      T& diagonal = u[j * (kPanel + 1)];
      if (diagonal != 0) b.v[j * (kPanel + 1)] = 1;
      if (diagonal == 0) diagonal = 1;  // what leaves everything as it is has a v of zeros
    }
    invert(u, b.t);
    reflect(b, true, own + steps, a_row, columns - b.from - steps);
  }
}

template <class T>
void Reflections<T>::take(const T* vectors, int64_t row, const T* taus) {
  for (int64_t number = 0; number * kPanel < k_; ++number) {
    const Block b = block(number);
    std::fill_n(b.v, b.rows * kPanel, T(0));
    T u[kPanel * kPanel];
    const int64_t steps = std::min(kPanel, k_ - b.from);
    for (int64_t j = 0; j < steps; ++j)
      for (int64_t i = j; i < b.rows && taus[b.from + j] != 0; ++i)
        b.v[i * kPanel + j] = vectors[(b.from + j) * row + b.from + i];
    multiply<T>(kPanel, kPanel, b.rows, {b.v, 1, kPanel}, {b.v, kPanel, 1}, u, kPanel, false,
                alone_);
    for (int64_t j = 0; j < kPanel; ++j)
      u[j * (kPanel + 1)] = j < steps && taus[b.from + j] != 0 ? 1 / taus[b.from + j] : T(1);
    invert(u, b.t);
  }
}

template <class T>
void Reflections<T>::reflect(const Block& b, bool transposed, T* x, int64_t x_row,
                             int64_t width) const {
  if (width == 0) return;
  const Scratch scratch(static_cast<size_t>(2 * kPanel * width) * sizeof(T));
  T *const w = reinterpret_cast<T*>(scratch.data()), *const done = w + kPanel * width;
  const Strided<T> v{b.v, kPanel, 1}, t{b.t, transposed ? kPanel : 1, transposed ? 1 : kPanel};
  multiply<T>(kPanel, width, b.rows, {b.v, 1, kPanel}, {x, x_row, 1}, w, width, false, alone_);
  multiply<T>(kPanel, width, kPanel, t, {w, width, 1}, done, width, false, alone_);
  multiply<T>(b.rows, width, kPanel, v, {done, width, 1}, x, x_row, true, alone_);
}

template <class T>
void Reflections<T>::apply(bool transposed, T* x, int64_t x_row, int64_t width) const {
  const int64_t blocks = (k_ + kPanel - 1) / kPanel;
  for (int64_t i = 0; i < blocks; ++i) {
    const Block b = block(transposed ? i : blocks - 1 - i);
    reflect(b, transposed, x + b.from * x_row, x_row, width);
  }
}

template <class T>
void Reflections<T>::apply_right(T* x, int64_t x_row, int64_t count, bool identity) const {
  const Scratch scratch(static_cast<size_t>(2 * kPanel * count) * sizeof(T));
  T *const w = reinterpret_cast<T*>(scratch.data()), *const done = w + kPanel * count;
  for (int64_t i = (k_ + kPanel - 1) / kPanel - 1; i >= 0; --i) {
    const Block b = block(i);
    const int64_t first = identity ? b.from : 0, n = count - first;
    T* const at = x + first * x_row + b.from;
    const Strided<T> v{b.v, kPanel, 1};
    multiply<T>(n, kPanel, b.rows, {at, x_row, 1}, v, w, kPanel, false, alone_);
    multiply<T>(n, kPanel, kPanel, {w, kPanel, 1}, {b.t, kPanel, 1}, done, kPanel, false, alone_);
    multiply<T>(n, b.rows, kPanel, {done, kPanel, 1}, {b.v, 1, kPanel}, at, x_row, true, alone_);
  }
}

template <class T>
bool factor_qr(int64_t rows, int64_t columns, int64_t q_columns, T* m, T* q, bool alone) {
  if (!level_of::squares_in_range(kReal<T>, rows * columns, static_cast<const void*>(m)))
    return false;
  if (few_columns(rows, columns, q_columns)) {
    level_of::reflect_few(kReal<T>, rows, columns, columns, q_columns, static_cast<void*>(m),
                          static_cast<void*>(q));
    return true;
  }
  Reflections<T> reflections(rows, std::min(rows, columns), alone);
  reflections.factor(m, columns, columns);
  if (!q) return true;
  std::fill_n(q, q_columns * rows, T(0));
  for (int64_t j = 0; j < q_columns; ++j) q[j * (rows + 1)] = 1;
  reflections.apply_right(q, rows, q_columns, true);
  return true;
}

// One step of the power method from some vectors at once, with R'R and with its inverse.
template <class T>
bool well_conditioned(int64_t n, const T* r, double least) {
  constexpr int64_t kVectors = 8;
  constexpr double kSure = 8;  // what the estimates may be off
  const int64_t size = n * kVectors;
  const Scratch scratch(static_cast<size_t>(3 * size) * sizeof(T));
  T *const x = reinterpret_cast<T*>(scratch.data()), *const y = x + size, *const z = y + size;
  uint32_t state = 1;
  for (int64_t i = 0; i < size; ++i) {
    state = state * 1664525 + 1013904223;
    x[i] = static_cast<T>(static_cast<int32_t>(state)) * T(0x1p-31);
  }
  const auto grown = [&](const T* from, const T* to) {  // the most that one of the vectors has
    double most = 0, before[kVectors] = {}, after[kVectors] = {};
    for (int64_t i = 0; i < size; ++i) {
      before[i % kVectors] += static_cast<double>(from[i]) * from[i];
      after[i % kVectors] += static_cast<double>(to[i]) * to[i];
    }
    for (int64_t k = 0; k < kVectors; ++k) most = std::max(most, after[k] / before[k]);
    return std::isfinite(after[0]) ? std::sqrt(most) : INFINITY;
  };
  multiply<T>(n, kVectors, n, {r, n, 1}, {x, kVectors, 1}, y, kVectors, false, true);
  multiply<T>(n, kVectors, n, {r, 1, n}, {y, kVectors, 1}, z, kVectors, false, true);
  const double largest = grown(y, z);
  solve_triangle(Triangle<T>{false, false, n, r, 1, n}, x, kVectors, kVectors, true);
  std::copy_n(x, size, y);
  solve_triangle(Triangle<T>{true, false, n, r, n, 1}, y, kVectors, kVectors, true);
  least = std::max(least, sizeof(T) == 4 ? 0x1p-23 : 0x1p-52);
  return kSure * least * largest * grown(x, y) < 1;
}

template bool well_conditioned(int64_t, const float*, double);
template bool well_conditioned(int64_t, const double*, double);
template bool factor_qr(int64_t, int64_t, int64_t, float*, float*, bool);
template bool factor_qr(int64_t, int64_t, int64_t, double*, double*, bool);
template class Reflections<float>;
template class Reflections<double>;

}  // namespace tycho::cpu
