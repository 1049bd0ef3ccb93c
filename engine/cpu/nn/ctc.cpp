// ctc_loss by the forward and backward recursions of Graves et al. (2006), in logarithms and
// double, one sequence per thread.

#include "engine/ops/nn/ctc.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

constexpr double kNever = -HUGE_VAL;

double log_add(double a, double b) {
  if (a < b) std::swap(a, b);
  return b == kNever ? a : a + std::log1p(std::exp(b - a));
}

// One sequence: `probability(t, class)`, its labels, and where the gradient goes.
template <class T>
double sequence(const T* x, int64_t step, int64_t steps, int64_t all_steps, int64_t classes,
                std::span<const int64_t> labels, int64_t blank, bool zero_infinity, T* gradient) {
  const int64_t states = 2 * static_cast<int64_t>(labels.size()) + 1;
  const auto label = [&](int64_t s) { return s & 1 ? labels[static_cast<size_t>(s / 2)] : blank; };
  // A state may be reached from two before when its label differs from that one's and is no blank.
  const auto jumps = [&](int64_t s) { return s >= 2 && (s & 1) && label(s) != label(s - 2); };
  std::vector<double> forward(static_cast<size_t>(steps * states), kNever), backward = forward;
  const auto f = [&](int64_t t, int64_t s) -> double& {
    return forward[static_cast<size_t>(t * states + s)];
  };
  const auto b = [&](int64_t t, int64_t s) -> double& {
    return backward[static_cast<size_t>(t * states + s)];
  };
  const auto p = [&](int64_t t, int64_t c) { return static_cast<double>(x[t * step + c]); };
  double likelihood = steps == 0 ? (labels.empty() ? 0 : kNever) : kNever;
  if (steps > 0) {
    f(0, 0) = p(0, blank);
    if (states > 1) f(0, 1) = p(0, label(1));
    for (int64_t t = 1; t < steps; ++t)
      for (int64_t s = 0; s < states; ++s) {
        double sum = f(t - 1, s);
        if (s >= 1) sum = log_add(sum, f(t - 1, s - 1));
        if (jumps(s)) sum = log_add(sum, f(t - 1, s - 2));
        f(t, s) = sum + p(t, label(s));
      }
    b(steps - 1, states - 1) = p(steps - 1, blank);
    if (states > 1) b(steps - 1, states - 2) = p(steps - 1, label(states - 2));
    for (int64_t t = steps - 2; t >= 0; --t)
      for (int64_t s = 0; s < states; ++s) {
        double sum = b(t + 1, s);
        if (s + 1 < states) sum = log_add(sum, b(t + 1, s + 1));
        if (s + 2 < states && jumps(s + 2)) sum = log_add(sum, b(t + 1, s + 2));
        b(t, s) = sum + p(t, label(s));
      }
    likelihood = f(steps - 1, states - 1);
    if (states > 1) likelihood = log_add(likelihood, f(steps - 1, states - 2));
  }
  const double loss = -likelihood;
  const bool drop = zero_infinity && std::isinf(loss);
  std::vector<double> both(static_cast<size_t>(classes));
  for (int64_t t = 0; t < all_steps; ++t) {
    T* to = gradient + t * step;
    if (t >= steps || drop) {
      std::fill(to, to + classes, T(0));
      continue;
    }
    std::fill(both.begin(), both.end(), kNever);
    for (int64_t s = 0; s < states; ++s) {
      double& sum = both[static_cast<size_t>(label(s))];
      sum = log_add(sum, f(t, s) + b(t, s));
    }
    for (int64_t c = 0; c < classes; ++c)
      to[c] = static_cast<T>(std::exp(p(t, c)) -
                             std::exp(both[static_cast<size_t>(c)] + loss - p(t, c)));
  }
  return drop ? 0 : loss;
}

template <class T>
void run(Call& c, const Tensor& x) {
  const CtcSequences all = ctc_sequences(c);
  const int64_t steps = x.size(0), n = x.size(1), classes = x.size(2), blank = c.integer(4);
  T* loss = c.out[0].data<T>();
  parallel_for(n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      loss[i] = static_cast<T>(
          sequence(x.data<T>() + i * classes, n * classes, all.steps[static_cast<size_t>(i)], steps,
                   classes, all.labels_of(i), blank, c.flag(5), c.out[1].data<T>() + i * classes));
  });
}

}  // namespace

void ctc(Call& c) {
  const Tensor x = packed(c.tensor(0));
  if (x.dtype() == DType::Float32)
    run<float>(c, x);
  else
    run<double>(c, x);
}

BIND_KERNEL(Cpu, "_ctc", ctc);

}  // namespace tycho::cpu
