// Exponentials of the class losses, on lanes.
#include "engine/cpu/nn/loss.h"

#include "engine/cpu/lanes/math.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Loads up to a lane of elements, the rest filled with `pad`.
template <class T>
TYCHO_INLINE Lane<T> load_some(const T* p, int64_t n, T pad) {
  T scratch[Lane<T>::size];
  for (int k = 0; k < Lane<T>::size; ++k) scratch[k] = k < n ? p[k] : pad;
  return Lane<T>::load(scratch);
}
template <class T>
TYCHO_INLINE void store_some(Lane<T> x, T* p, int64_t n) {
  T scratch[Lane<T>::size];
  x.store(scratch);
  for (int k = 0; k < n; ++k) p[k] = scratch[k];
}

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
  return n == Lane<T>::size ? Lane<T>::load(p) : load_some(p, n, pad);
}
template <class T>
TYCHO_INLINE void store(Lane<T> x, T* p, int64_t n) {
  if (n == Lane<T>::size)
    x.store(p);
  else
    store_some(x, p, n);
}

template <class T>
constexpr T lowest = sizeof(T) == 4 ? static_cast<T>(-__builtin_huge_valf())
                                    : static_cast<T>(-__builtin_huge_val());

template <class T>
void row_lse(const T* x, int64_t rows, int64_t n, T* out) {
  constexpr int size = Lane<T>::size;
  for (int64_t r = 0; r < rows; ++r, x += n) {
    Lane<T> top(lowest<T>);
    each_lane<T>(n, [&](int64_t i, int64_t m) { top = maximum(top, load(x + i, m, lowest<T>)); });
    T scratch[size], most = lowest<T>;
    top.store(scratch);
    for (int k = 0; k < size; ++k)
      most = scratch[k] > most || scratch[k] != scratch[k] ? scratch[k] : most;
    // Of all -inf the sum is 0: nothing to shift by. An inf or nan shows in the result.
    const T shift = most == lowest<T> ? 0 : most;
    Lane<T> sum(0);
    each_lane<T>(
        n, [&](int64_t i, int64_t m) { sum += exp(load(x + i, m, lowest<T>) - Lane<T>(shift)); });
    sum.store(scratch);
    T total = 0;
    for (int k = 0; k < size; ++k) total += scratch[k];
    log(Lane<T>(total)).store(scratch);
    out[r] = shift + scratch[0];
  }
}

template <class T>
void column_lse(const T* x, int64_t classes, int64_t stride, int64_t n, T* out) {
  each_lane<T>(n, [&](int64_t i, int64_t m) {
    Lane<T> top(lowest<T>);
    for (int64_t c = 0; c < classes; ++c) top = maximum(top, load(x + c * stride + i, m));
    const Lane<T> shift = select(top == Lane<T>(lowest<T>), Lane<T>(0), top);
    Lane<T> sum(0);
    for (int64_t c = 0; c < classes; ++c) sum += exp(load(x + c * stride + i, m) - shift);
    store(shift + log(sum), out + i, m);
  });
}

template <class T>
void exp_scale(const T* x, T* y, int64_t n, T shift, T scale) {
  each_lane<T>(n, [&](int64_t i, int64_t m) {
    store(exp(load(x + i, m) - Lane<T>(shift)) * Lane<T>(scale), y + i, m);
  });
}

template <class T>
void exp_scale_each(const T* x, T* y, int64_t n, const T* shift, const T* scale) {
  each_lane<T>(n, [&](int64_t i, int64_t m) {
    store(exp(load(x + i, m) - load(shift + i, m)) * load(scale + i, m), y + i, m);
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
