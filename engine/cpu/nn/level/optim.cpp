// Optimiser steps over arrays, in lanes.
#include "engine/cpu/nn/level/optim_values.h"
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
  const SgdValue<T> value(s);
  T* grads = const_cast<T*>(g);  // array 1 is read only
  if (!m) {
    T* const a[] = {p, grads};
    lanes<T, 2>(a, n, [&](L* x) { value.plain(x); });
    return;
  }
  T* const a[] = {p, grads, m};
  lanes<T, 3>(a, n, [&](L* x) { value.with_momentum(x); });
}

template <class T>
void adam(T* p, const T* g, T* m, T* v, T* most, int64_t n, const AdamStep& s) {
  using L = Lane<T>;
  const AdamValue<T> value(s);
  T* grads = const_cast<T*>(g);
  if (s.amsgrad) {
    T* const a[] = {p, grads, m, v, most};
    lanes<T, 5>(a, n, [&](L* x) { value.amsgrad(x); });
    return;
  }
  T* const a[] = {p, grads, m, v};
  lanes<T, 4>(a, n, [&](L* x) { value.plain(x); });
}

template <class T>
void rule(T* p, const T* g, T* first, T* second, T* third, int64_t n, const RuleStep& s) {
  const RuleValue<T> value(s);
  T* grads = const_cast<T*>(g);
  T* const arrays[] = {p, grads, first ? first : grads, second ? second : grads,
                       third ? third : grads};
  switch (s.rule) {
#define RULE(name)                                                             \
  case Rule::name:                                                             \
    return lanes<T, 5>(arrays, n, [&](Lane<T>* x) {                            \
      value.template step<Rule::name>(x, second != nullptr, third != nullptr); \
    });
    RULE(RMSprop)
    RULE(Adagrad)
    RULE(Adadelta)
    RULE(Adamax)
    RULE(NAdam)
    RULE(RAdam)
    RULE(ASGD)
    RULE(Rprop)
#undef RULE
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
