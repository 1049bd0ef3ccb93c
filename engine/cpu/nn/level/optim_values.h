// What an optimiser step makes of one element, in lanes: x[0] is the parameter, x[1] its gradient, the
// rest its state. It includes nothing but lanes, so other compilers take it too.
#pragma once
#include "engine/cpu/lanes/math_basic.h"
#include "engine/cpu/nn/optim_steps.h"

namespace tycho::cpu::TYCHO_LEVEL {

template <class T>
struct SgdValue {
  using L = Lane<T>;
  L lr, momentum, fresh, decay, sign;
  bool first, nesterov;
  TYCHO_INLINE explicit SgdValue(const SgdStep& s)
      : lr(static_cast<T>(s.lr)),
        momentum(static_cast<T>(s.momentum)),
        fresh(static_cast<T>(1 - s.dampening)),
        decay(static_cast<T>(s.weight_decay)),
        sign(static_cast<T>(s.maximize ? -1 : 1)),
        first(s.first),
        nesterov(s.nesterov) {}
  TYCHO_INLINE void plain(L* x) const { x[0] = x[0] - lr * (sign * x[1] + decay * x[0]); }
  TYCHO_INLINE void with_momentum(L* x) const {
    const L d = sign * x[1] + decay * x[0];
    x[2] = first ? d : momentum * x[2] + fresh * d;
    x[0] = x[0] - lr * (nesterov ? d + momentum * x[2] : x[2]);
  }
};

template <class T>
struct AdamValue {
  using L = Lane<T>;
  L beta1, beta2, rest2, eps, size, root, coupled, shrink, sign;
  TYCHO_INLINE explicit AdamValue(const AdamStep& s)
      : beta1(static_cast<T>(1 - s.beta1)),
        beta2(static_cast<T>(s.beta2)),
        rest2(static_cast<T>(1 - s.beta2)),
        eps(static_cast<T>(s.eps)),
        size(static_cast<T>(s.step_size)),
        root(static_cast<T>(s.root_bias2)),
        coupled(static_cast<T>(s.decoupled ? 0 : s.weight_decay)),
        shrink(static_cast<T>(s.decoupled ? 1 - s.lr * s.weight_decay : 1)),
        sign(static_cast<T>(s.maximize ? -1 : 1)) {}
  TYCHO_INLINE void average(L* x) const {
    x[0] = x[0] * shrink;
    const L d = sign * x[1] + coupled * x[0];
    x[2] = x[2] + beta1 * (d - x[2]);
    x[3] = x[3] * beta2 + rest2 * (d * d);
  }
  TYCHO_INLINE void plain(L* x) const {
    average(x);
    x[0] = x[0] - size * (x[2] / (sqrt(x[3]) / root + eps));
  }
  TYCHO_INLINE void amsgrad(L* x) const {
    average(x);
    x[4] = maximum(x[4], x[3]);
    x[0] = x[0] - size * (x[2] / (sqrt(x[4]) / root + eps));
  }
};

// The rules of one loop; `by` is the gradient with weight decay.
template <class T>
struct RuleValue {
  using L = Lane<T>;
  L decay, shrink, sign, k0, k1, k2, k3, k4, rest0, rest1;
  bool adaptive, copies;  // RAdam, ASGD
  TYCHO_INLINE explicit RuleValue(const RuleStep& s)
      : decay(static_cast<T>(s.decay)),
        shrink(static_cast<T>(s.shrink)),
        sign(static_cast<T>(s.maximize ? -1 : 1)),
        k0(static_cast<T>(s.k[0])),
        k1(static_cast<T>(s.k[1])),
        k2(static_cast<T>(s.k[2])),
        k3(static_cast<T>(s.k[3])),
        k4(static_cast<T>(s.k[4])),
        rest0(static_cast<T>(1 - s.k[0])),
        rest1(static_cast<T>(1 - s.k[1])),
        adaptive(s.k[4] != 0),
        copies(s.k[1] == 1) {}
  TYCHO_INLINE void average(L* x, L by) const {  // both moments of Adam
    x[2] = x[2] + rest0 * (by - x[2]);
    x[3] = x[3] * k1 + rest1 * (by * by);
  }
  // `second`, `third`: whether there is that state.
  template <Rule rule>
  TYCHO_INLINE void step(L* x, bool second, bool third) const {
    const L by = sign * x[1] + decay * x[0];
    x[0] = x[0] * shrink;
    if constexpr (rule == Rule::RMSprop) {
      x[2] = x[2] * k0 + rest0 * (by * by);
      L square = x[2];
      if (third) {
        x[4] = x[4] + rest0 * (by - x[4]);
        square = square - x[4] * x[4];
      }
      L move = by / (sqrt(square) + k1);
      if (second) move = x[3] = x[3] * k3 + move;
      x[0] = x[0] - k2 * move;
    } else if constexpr (rule == Rule::Adagrad) {
      x[2] = x[2] + by * by;
      x[0] = x[0] - k1 * (by / (sqrt(x[2]) + k0));
    } else if constexpr (rule == Rule::Adadelta) {
      x[2] = x[2] * k0 + rest0 * (by * by);
      const L move = sqrt(x[3] + k1) / sqrt(x[2] + k1) * by;
      x[3] = x[3] * k0 + rest0 * (move * move);
      x[0] = x[0] - k2 * move;
    } else if constexpr (rule == Rule::Adamax) {
      x[2] = x[2] + rest0 * (by - x[2]);
      x[3] = maximum(x[3] * k1, abs(by) + k2);
      x[0] = x[0] - k3 * (x[2] / x[3]);
    } else if constexpr (rule == Rule::NAdam) {
      average(x, by);
      x[0] = x[0] - (k3 * by + k4 * x[2]) / (sqrt(x[3]) + k2);
    } else if constexpr (rule == Rule::RAdam) {
      average(x, by);
      x[0] = x[0] - k3 * (adaptive ? x[2] / (sqrt(x[3]) + k2) : x[2]);
    } else if constexpr (rule == Rule::ASGD) {
      x[0] = x[0] - k0 * by;
      x[2] = copies ? x[0] : x[2] + k1 * (x[0] - x[2]);
    } else {
      const L same = by * x[2], none = 0, one = 1;
      x[3] = minimum(maximum(x[3] * select(same < 0, k0, select(same > 0, k1, one)), k2), k3);
      x[2] = select(same < 0, none, by);
      x[0] = x[0] - x[3] * select(x[2] > 0, one, select(x[2] < 0, -one, x[2]));
    }
  }
};

}  // namespace tycho::cpu::TYCHO_LEVEL
