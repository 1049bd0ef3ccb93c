// Optimiser steps over arrays, in lanes.
#include "engine/cpu/level/math.h"
#include "engine/cpu/optim_rows.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Calls f(i, load, store) lane by lane; the rest at the end goes element by element through a
// padded copy, so that nothing outside the arrays is touched.
template <class T, int arrays, class F>
TYCHO_INLINE void lanes(T* const* a, int64_t n, F&& f) {
  constexpr int size = Lane<T>::size;
  int64_t i = 0;
  Lane<T> x[arrays];
  for (; i + size <= n; i += size) {
    for (int k = 0; k < arrays; ++k) x[k] = Lane<T>::load(a[k] + i);
    f(x);
    for (int k = 0; k < arrays; ++k)
      if (k != 1) x[k].store(a[k] + i);
  }
  if (i == n) return;
  T room[arrays][size] = {};
  for (int k = 0; k < arrays; ++k)
    for (int64_t j = i; j < n; ++j) room[k][j - i] = a[k][j];
  for (int k = 0; k < arrays; ++k) x[k] = Lane<T>::load(room[k]);
  f(x);
  for (int k = 0; k < arrays; ++k) {
    if (k == 1) continue;
    x[k].store(room[k]);
    for (int64_t j = i; j < n; ++j) a[k][j] = room[k][j - i];
  }
}

template <class T>
void sgd(T* p, const T* g, T* m, int64_t n, const SgdStep& s) {
  using L = Lane<T>;
  const L lr = static_cast<T>(s.lr), momentum = static_cast<T>(s.momentum),
          fresh = static_cast<T>(1 - s.dampening), decay = static_cast<T>(s.weight_decay),
          sign = static_cast<T>(s.maximize ? -1 : 1);
  T* grads = const_cast<T*>(g);  // array 1 is read only
  if (!m) {
    T* const a[] = {p, grads};
    lanes<T, 2>(a, n, [&](L* x) { x[0] = x[0] - lr * (sign * x[1] + decay * x[0]); });
    return;
  }
  T* const a[] = {p, grads, m};
  lanes<T, 3>(a, n, [&](L* x) {
    const L d = sign * x[1] + decay * x[0];
    x[2] = s.first ? d : momentum * x[2] + fresh * d;
    x[0] = x[0] - lr * (s.nesterov ? d + momentum * x[2] : x[2]);
  });
}

template <class T>
void adam(T* p, const T* g, T* m, T* v, T* most, int64_t n, const AdamStep& s) {
  using L = Lane<T>;
  const L beta1 = static_cast<T>(1 - s.beta1), beta2 = static_cast<T>(s.beta2),
          rest2 = static_cast<T>(1 - s.beta2), eps = static_cast<T>(s.eps),
          size = static_cast<T>(s.step_size), root = static_cast<T>(s.root_bias2),
          coupled = static_cast<T>(s.decoupled ? 0 : s.weight_decay),
          shrink = static_cast<T>(s.decoupled ? 1 - s.lr * s.weight_decay : 1),
          sign = static_cast<T>(s.maximize ? -1 : 1);
  T* grads = const_cast<T*>(g);
  const auto update = [&](L* x) {
    x[0] = x[0] * shrink;
    const L d = sign * x[1] + coupled * x[0];
    x[2] = x[2] + beta1 * (d - x[2]);
    x[3] = x[3] * beta2 + rest2 * (d * d);
  };
  if (s.amsgrad) {
    T* const a[] = {p, grads, m, v, most};
    lanes<T, 5>(a, n, [&](L* x) {
      update(x);
      x[4] = maximum(x[4], x[3]);
      x[0] = x[0] - size * (x[2] / (sqrt(x[4]) / root + eps));
    });
    return;
  }
  T* const a[] = {p, grads, m, v};
  lanes<T, 4>(a, n, [&](L* x) {
    update(x);
    x[0] = x[0] - size * (x[2] / (sqrt(x[3]) / root + eps));
  });
}

}  // namespace

void sgd_f32(float* p, const float* g, float* m, int64_t n, const SgdStep* s) {
  sgd(p, g, m, n, *s);
}
void sgd_f64(double* p, const double* g, double* m, int64_t n, const SgdStep* s) {
  sgd(p, g, m, n, *s);
}
void adam_f32(float* p, const float* g, float* m, float* v, float* most, int64_t n,
              const AdamStep* s) {
  adam(p, g, m, v, most, n, *s);
}
void adam_f64(double* p, const double* g, double* m, double* v, double* most, int64_t n,
              const AdamStep* s) {
  adam(p, g, m, v, most, n, *s);
}

}  // namespace tycho::cpu::TYCHO_LEVEL
