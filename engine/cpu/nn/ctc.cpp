// ctc_loss by the forward and backward recursions of Graves et al. (2006), in logarithms and
// double, one sequence per thread.

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
                const std::vector<int64_t>& labels, int64_t blank, bool zero_infinity,
                T* gradient) {
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

// The sequences fit into the log probabilities and are what the targets hold.
void check_lengths(const Call& c, const Tensor& inputs, const Tensor& lengths) {
  constexpr int64_t kFar = INT64_MAX / 4;  // sums of two do not overflow
  const Tensor& targets = c.tensor(1);
  const int64_t n = c.tensor(0).size(1);
  int64_t total = 0, longest = 0;
  for (int arg : {2, 3})
    for (int64_t i = 0; i < n; ++i) {
      const int64_t length = (arg == 2 ? inputs : lengths).data<int64_t>()[i],
                    most = arg == 2 ? c.tensor(0).size(0) : kFar;
      TYCHO_CHECK(Kind::Value, length >= 0 && length <= most,
                  "ctc_loss: %s of sequence %lld is %lld; it goes from 0 to %lld",
                  c.op->params[arg].name.c_str(), static_cast<long long>(i + 1),
                  static_cast<long long>(length), static_cast<long long>(most));
      if (arg == 3) total = std::min(total + length, kFar), longest = std::max(longest, length);
    }
  TYCHO_CHECK(Kind::Shape,
              targets.rank() == 1
                  ? targets.size(0) == total
                  : targets.rank() == 2 && targets.size(0) == n && targets.size(1) >= longest,
              "ctc_loss: targets of shape %s do not hold sequences of these lengths",
              to_string(targets.shape()).c_str());
}

template <class T>
void run(Call& c, const Tensor& x) {
  const Tensor targets = packed(op<"to.dtype">(c.tensor(1), DType::Int64));
  const Tensor inputs = packed(op<"to.dtype">(c.tensor(2), DType::Int64));
  const Tensor lengths = packed(op<"to.dtype">(c.tensor(3), DType::Int64));
  check_lengths(c, inputs, lengths);
  const int64_t steps = x.size(0), n = x.size(1), classes = x.size(2), blank = c.integer(4);
  std::vector<std::vector<int64_t>> labels(static_cast<size_t>(n));
  int64_t from = 0;
  for (int64_t i = 0; i < n; ++i) {
    const int64_t length = lengths.data<int64_t>()[i];
    const int64_t* p = targets.data<int64_t>() + (targets.rank() == 2 ? i * targets.size(1) : from);
    from += length;
    for (int64_t k = 0; k < length; ++k) {
      TYCHO_CHECK(Kind::Index, p[k] >= 1 && p[k] <= classes,
                  "ctc_loss: label %lld of sequence %lld is %lld; classes go from 1 to %lld",
                  static_cast<long long>(k + 1), static_cast<long long>(i + 1),
                  static_cast<long long>(p[k]), static_cast<long long>(classes));
      labels[static_cast<size_t>(i)].push_back(p[k] - 1);
    }
  }
  T* loss = c.out[0].data<T>();
  parallel_for(n, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      loss[i] = static_cast<T>(sequence(
          x.data<T>() + i * classes, n * classes, inputs.data<int64_t>()[i], steps, classes,
          labels[static_cast<size_t>(i)], blank, c.flag(5), c.out[1].data<T>() + i * classes));
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
