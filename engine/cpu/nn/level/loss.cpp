// Exponentials of the class losses, on lanes.
#include "engine/cpu/nn/loss.h"

#include "engine/cpu/lanes/math.h"
#include "engine/cpu/lanes/parts.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Calls f(start, elements, whole) for every lane of n elements.
template <class T, class F>
TYCHO_INLINE void each_lane(int64_t n, F f) {
  constexpr int size = Lane<T>::size;
  int64_t i = 0;
  for (; i + size <= n; i += size) f(i, int64_t{size});
  if (i < n) f(i, n - i);
}
template <class T>
TYCHO_INLINE Lane<T> load(const T* p, int64_t n, T pad = 0) {
  return n == Lane<T>::size ? Lane<T>::load(p) : load_part(p, static_cast<int>(n), pad);
}
template <class T>
TYCHO_INLINE void store(Lane<T> x, T* p, int64_t n) {
  if (n == Lane<T>::size)
    x.store(p);
  else
    store_part(x, p, static_cast<int>(n));
}

template <class T>
constexpr T lowest = sizeof(T) == 4 ? static_cast<T>(-__builtin_huge_valf())
                                    : static_cast<T>(-__builtin_huge_val());

template <class T>
void row_lse(const T* x, int64_t rows, int64_t n, T* out) {
  constexpr int64_t kRows = 64;  // whose logarithms are taken together
  const auto most = [](Lane<T> a, Lane<T> b) __attribute__((always_inline)) {
    return maximum(a, b);
  };
  for (int64_t begin = 0; begin < rows; begin += kRows) {
    const int64_t count = rows - begin < kRows ? rows - begin : kRows;
    T shift[kRows], sums[kRows];
    for (int64_t r = 0; r < count; ++r, x += n) {
      Lane<T> top(lowest<T>);
      each_lane<T>(n, [&](int64_t i, int64_t m) { top = maximum(top, load(x + i, m, lowest<T>)); });
      top = across(top, most);
      // Of all -inf the sum is 0: nothing to shift by. An inf or nan shows in the result.
      top = select(top == Lane<T>(lowest<T>), Lane<T>(0), top);
      Lane<T> sum(0);
      each_lane<T>(
          n, [&](int64_t i, int64_t m) { sum += exp_masked(load(x + i, m, lowest<T>) - top); });
      shift[r] = top.v[0];
      sums[r] = total(sum);
    }
    each_lane<T>(count, [&](int64_t i, int64_t m) {
      store(load(shift + i, m) + log(load(sums + i, m)), out + begin + i, m);
    });
  }
}

// Of `lanes` lanes beside each other, of which the last may be a part of m elements.
template <int lanes, class T>
TYCHO_INLINE void column_lse_at(const T* x, int64_t classes, int64_t stride, int64_t m, T* out) {
  constexpr int w = Lane<T>::size;
  const auto at = [=](int64_t c, int k) __attribute__((always_inline)) {
    return lanes > 1 ? Lane<T>::load(x + c * stride + k * w) : load(x + c * stride, m);
  };
  Lane<T> top[lanes], sum[lanes];
  for (int k = 0; k < lanes; ++k) top[k] = Lane<T>(lowest<T>), sum[k] = Lane<T>(0);
  for (int64_t c = 0; c < classes; ++c)
#pragma GCC unroll 4
    for (int k = 0; k < lanes; ++k) top[k] = maximum(top[k], at(c, k));
  for (int k = 0; k < lanes; ++k) top[k] = select(top[k] == Lane<T>(lowest<T>), Lane<T>(0), top[k]);
  for (int64_t c = 0; c < classes; ++c)
#pragma GCC unroll 4
    for (int k = 0; k < lanes; ++k) sum[k] += exp_masked(at(c, k) - top[k]);
  for (int k = 0; k < lanes; ++k)
    store(top[k] + log(sum[k]), out + k * w, lanes > 1 ? int64_t{w} : m);
}
template <class T>
void column_lse(const T* x, int64_t classes, int64_t stride, int64_t n, T* out) {
  constexpr int w = Lane<T>::size;
  int64_t i = 0;
  for (; i + 4 * w <= n; i += 4 * w) column_lse_at<4>(x + i, classes, stride, w, out + i);
  for (; i < n; i += w)
    column_lse_at<1>(x + i, classes, stride, n - i < w ? n - i : int64_t{w}, out + i);
}

template <class T>
void exp_scale(const T* x, T* y, int64_t n, T shift, T scale) {
  each_lane<T>(n, [&](int64_t i, int64_t m) {
    store(exp_masked(load(x + i, m) - Lane<T>(shift)) * Lane<T>(scale), y + i, m);
  });
}

template <class T>
void exp_scale_each(const T* x, T* y, int64_t n, const T* shift, const T* scale) {
  each_lane<T>(n, [&](int64_t i, int64_t m) {
    store(exp_masked(load(x + i, m) - load(shift + i, m)) * load(scale + i, m), y + i, m);
  });
}

}  // namespace

void row_lse_f32(const float* x, int64_t rows, int64_t n, float* out) { row_lse(x, rows, n, out); }
void row_lse_f64(const double* x, int64_t rows, int64_t n, double* out) {
  row_lse(x, rows, n, out);
}
void column_lse_f32(const float* x, int64_t classes, int64_t stride, int64_t n, float* out) {
  column_lse(x, classes, stride, n, out);
}
void column_lse_f64(const double* x, int64_t classes, int64_t stride, int64_t n, double* out) {
  column_lse(x, classes, stride, n, out);
}
void exp_scale_f32(const float* x, float* y, int64_t n, float shift, float scale) {
  exp_scale(x, y, n, shift, scale);
}
void exp_scale_f64(const double* x, double* y, int64_t n, double shift, double scale) {
  exp_scale(x, y, n, shift, scale);
}
void exp_scale_each_f32(const float* x, float* y, int64_t n, const float* shift,
                        const float* scale) {
  exp_scale_each(x, y, n, shift, scale);
}
void exp_scale_each_f64(const double* x, double* y, int64_t n, const double* shift,
                        const double* scale) {
  exp_scale_each(x, y, n, shift, scale);
}

}  // namespace tycho::cpu::TYCHO_LEVEL
