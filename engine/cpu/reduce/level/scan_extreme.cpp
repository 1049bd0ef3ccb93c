// Running maxima and minima with their positions: what is equal counts where it stands last, and nan wins for good.
#include "engine/cpu/lanes/fold_lanes.h"
#include "engine/cpu/reduce/scan.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Of few columns, so many of them at once: each element waits for the one before it in its column.
template <class T, bool Largest, int cols>
void extreme_few(const T* x, T* y, int64_t* positions, int64_t n, int64_t step) {
  T best[cols];
  int64_t at[cols];
  for (int j = 0; j < cols; ++j) best[j] = x[j], at[j] = 1;
  for (int64_t k = 0; k < n; ++k, x += step, y += step, positions += step)
#pragma GCC unroll 4
    for (int j = 0; j < cols; ++j) {
      const T v = x[j];
      const bool take = (Largest ? v >= best[j] : v <= best[j]) | (v != v);
      y[j] = best[j] = take ? v : best[j];
      positions[j] = at[j] = take ? k + 1 : at[j];
    }
}

template <class T, bool Largest>
void extreme(const void* px, int64_t x_step, void* py, int64_t* positions, int64_t y_step,
             int64_t n) {
  const T* x = static_cast<const T*>(px);
  T* y = static_cast<T*>(py);
  if (n == 0) return;
  T best = x[0];
  int64_t at = 1, i = 0;
  const auto each = [&](int64_t end) __attribute__((always_inline)) {  // until the first nan
    for (; i < end; ++i) {
      const T v = x[i * x_step];
      if (v != v) return false;
      const bool take = Largest ? v >= best : v <= best;
      best = take ? v : best;
      at = take ? i + 1 : at;
      y[i * y_step] = best;
      positions[i * y_step] = at;
    }
    return true;
  };
  bool numbers = true;
  if (x_step == 1 && y_step == 1) {  // most lanes bring nothing better
    constexpr int w = Lane<T>::size;
    while (numbers && i + w <= n) {
      const Lane<T> v = Lane<T>::load(x + i), b(best);
      if (any((Largest ? v >= b : v <= b) | (v != v))) {
        numbers = each(i + w);
        continue;
      }
      b.store(y + i);
      for (int k = 0; k < w; ++k) positions[i + k] = at;
      i += w;
    }
  }
  if (numbers) each(n);
  for (; i < n; ++i) {
    const T v = x[i * x_step];
    if (v != v) {
      best = v;
      at = i + 1;
    }
    y[i * y_step] = best;
    positions[i * y_step] = at;
  }
}

// Of columns, `step` elements between their rows.
template <class T, bool Largest>
void extreme_columns(const void* px, void* py, int64_t* positions, int64_t n, int64_t all,
                     int64_t step) {
  constexpr int64_t kColumns = 256;
  if (all < 16) {
    const T* x = static_cast<const T*>(px);
    T* y = static_cast<T*>(py);
    int64_t j = 0;
    for (; j + 4 <= all; j += 4) extreme_few<T, Largest, 4>(x + j, y + j, positions + j, n, step);
    if (j + 2 <= all) extreme_few<T, Largest, 2>(x + j, y + j, positions + j, n, step), j += 2;
    if (j < all) extreme_few<T, Largest, 1>(x + j, y + j, positions + j, n, step);
    return;
  }
  for (int64_t first = 0; first < all; first += kColumns) {
    const int64_t cols = all - first < kColumns ? all - first : kColumns;
    const T* x = static_cast<const T*>(px) + first;
    T* y = static_cast<T*>(py) + first;
    int64_t *p = positions + first, at[kColumns];
    T best[kColumns];
    for (int64_t j = 0; j < cols; ++j) best[j] = x[j], at[j] = 1;
    for (int64_t k = 0; k < n; ++k, x += step, y += step, p += step) {
      for (int64_t j = 0; j < cols; ++j) {
        const T v = x[j], b = best[j];
        const bool take = (Largest ? v >= b : v <= b) | (v != v);
        best[j] = take ? v : b;
        at[j] = take ? k + 1 : at[j];
      }
      memcpy(y, best, static_cast<size_t>(cols) * sizeof(T));
      memcpy(p, at, static_cast<size_t>(cols) * sizeof(int64_t));
    }
  }
}

}  // namespace

void scan_extreme(int lanes, int op, const void* x, int64_t x_step, void* y, int64_t* positions,
                  int64_t y_step, int64_t n) {
  const bool largest = static_cast<ScanOp>(op) == ScanOp::Max;
  const auto f = lanes == 0   ? (largest ? extreme<float, true> : extreme<float, false>)
                 : lanes == 1 ? (largest ? extreme<double, true> : extreme<double, false>)
                              : (largest ? extreme<int64_t, true> : extreme<int64_t, false>);
  f(x, x_step, y, positions, y_step, n);
}

void scan_extreme_columns(int lanes, int op, const void* x, void* y, int64_t* positions, int64_t n,
                          int64_t cols, int64_t step) {
  const bool largest = static_cast<ScanOp>(op) == ScanOp::Max;
  const auto f =
      lanes == 0   ? (largest ? extreme_columns<float, true> : extreme_columns<float, false>)
      : lanes == 1 ? (largest ? extreme_columns<double, true> : extreme_columns<double, false>)
                   : (largest ? extreme_columns<int64_t, true> : extreme_columns<int64_t, false>);
  f(x, y, positions, n, cols, step);
}

}  // namespace tycho::cpu::TYCHO_LEVEL
