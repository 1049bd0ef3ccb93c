// Optimiser steps over arrays, in lanes.
#include "engine/cpu/lanes/math.h"
#include "engine/cpu/nn/optim_rows.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Calls f(x) lane by lane and stores what it changed, but never array 1, the gradient; an array
// that is absent is given as the gradient too. The rest at the end goes element by element through
// a padded copy, so that nothing outside the arrays is touched.
template <class T, int arrays, class F>
TYCHO_INLINE void lanes(T* const* a, int64_t n, F&& f) {
  constexpr int size = Lane<T>::size;
  int64_t i = 0;
  Lane<T> x[arrays];
  for (; i + size <= n; i += size) {
    for (int k = 0; k < arrays; ++k) x[k] = Lane<T>::load(a[k] + i);
    f(x);
    for (int k = 0; k < arrays; ++k)
      if (k != 1 && a[k] != a[1]) x[k].store(a[k] + i);
  }
  if (i == n) return;
  T scratch[arrays][size] = {};
  for (int k = 0; k < arrays; ++k)
    for (int64_t j = i; j < n; ++j) scratch[k][j - i] = a[k][j];
  for (int k = 0; k < arrays; ++k) x[k] = Lane<T>::load(scratch[k]);
  f(x);
  for (int k = 0; k < arrays; ++k) {
    if (k == 1 || a[k] == a[1]) continue;
    x[k].store(scratch[k]);
    for (int64_t j = i; j < n; ++j) a[k][j] = scratch[k][j - i];
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

// x: parameter, gradient, then the state; `by` is the gradient with weight decay.
template <class T>
void rule(T* p, const T* g, T* first, T* second, T* third, int64_t n, const RuleStep& s) {
  using L = Lane<T>;
  const L decay = static_cast<T>(s.decay), shrink = static_cast<T>(s.shrink),
          sign = static_cast<T>(s.maximize ? -1 : 1);
  const L k0 = static_cast<T>(s.k[0]), k1 = static_cast<T>(s.k[1]), k2 = static_cast<T>(s.k[2]),
          k3 = static_cast<T>(s.k[3]), k4 = static_cast<T>(s.k[4]);
  const L rest0 = static_cast<T>(1 - s.k[0]), rest1 = static_cast<T>(1 - s.k[1]);
  T* grads = const_cast<T*>(g);
  T* const arrays[] = {p, grads, first ? first : grads, second ? second : grads,
                       third ? third : grads};
  const auto each = [&](auto&& update) {
    lanes<T, 5>(arrays, n, [&](L* x) {
      const L by = sign * x[1] + decay * x[0];
      x[0] = x[0] * shrink;
      update(x, by);
    });
  };
  const auto average = [&](L* x, L by) {  // both moments of Adam
    x[2] = x[2] + rest0 * (by - x[2]);
    x[3] = x[3] * k1 + rest1 * (by * by);
  };
  switch (s.rule) {
    case Rule::RMSprop:
      return each([&](L* x, L by) {
        x[2] = x[2] * k0 + rest0 * (by * by);
        L square = x[2];
        if (third) {
          x[4] = x[4] + rest0 * (by - x[4]);
          square = square - x[4] * x[4];
        }
        L move = by / (sqrt(square) + k1);
        if (second) move = x[3] = x[3] * k3 + move;
        x[0] = x[0] - k2 * move;
      });
    case Rule::Adagrad:
      return each([&](L* x, L by) {
        x[2] = x[2] + by * by;
        x[0] = x[0] - k1 * (by / (sqrt(x[2]) + k0));
      });
    case Rule::Adadelta:
      return each([&](L* x, L by) {
        x[2] = x[2] * k0 + rest0 * (by * by);
        const L move = sqrt(x[3] + k1) / sqrt(x[2] + k1) * by;
        x[3] = x[3] * k0 + rest0 * (move * move);
        x[0] = x[0] - k2 * move;
      });
    case Rule::Adamax:
      return each([&](L* x, L by) {
        x[2] = x[2] + rest0 * (by - x[2]);
        x[3] = maximum(x[3] * k1, abs(by) + k2);
        x[0] = x[0] - k3 * (x[2] / x[3]);
      });
    case Rule::NAdam:
      return each([&](L* x, L by) {
        average(x, by);
        x[0] = x[0] - (k3 * by + k4 * x[2]) / (sqrt(x[3]) + k2);
      });
    case Rule::RAdam:
      return each([&](L* x, L by) {
        average(x, by);
        x[0] = x[0] - k3 * (s.k[4] != 0 ? x[2] / (sqrt(x[3]) + k2) : x[2]);
      });
    case Rule::ASGD:
      return each([&](L* x, L by) {
        x[0] = x[0] - k0 * by;
        x[2] = s.k[1] == 1 ? x[0] : x[2] + k1 * (x[0] - x[2]);
      });
    case Rule::Rprop:
      return each([&](L* x, L by) {
        const L same = by * x[2], none = 0, one = 1;
        x[3] = minimum(maximum(x[3] * select(same < 0, k0, select(same > 0, k1, one)), k2), k3);
        x[2] = select(same < 0, none, by);
        x[0] = x[0] - x[3] * select(x[2] > 0, one, select(x[2] < 0, -one, x[2]));
      });
  }
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

void rule_f32(float* p, const float* g, float* first, float* second, float* third, int64_t n,
              const RuleStep* s) {
  rule(p, g, first, second, third, n, *s);
}
void rule_f64(double* p, const double* g, double* first, double* second, double* third, int64_t n,
              const RuleStep* s) {
  rule(p, g, first, second, third, n, *s);
}

}  // namespace tycho::cpu::TYCHO_LEVEL
