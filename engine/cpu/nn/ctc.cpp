// ctc_loss by the forward and backward recursions of Graves et al. (2006), in logarithms and
// double, one sequence per thread and all states of a step together. Backward, the labels and the time are turned
// around, and the recursion is the same.

#include "engine/ops/nn/ctc.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/nn/ctc_step.h"
#include "engine/cpu/nn/loss.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

constexpr double kNever = -HUGE_VAL;
constexpr size_t kBefore = 2;  // numbers in front of a row of states, which stand for no state

// The states of a sequence (a label each, with the blank around them) as they are passed in one direction of time:
// logarithms of the probability of being there at each step and of all that was before.
class Passage {
 public:
  Passage(std::vector<int64_t> labels, size_t steps)
      : labels_(std::move(labels)),
        width_(kBefore + (labels_.size() + kCtcLane - 1) / kCtcLane * kCtcLane),
        jump_(width_, kNever),
        p_(width_),
        rows_(steps * width_, kNever) {
    // A state may be reached from two before when its label differs from that one's and is no blank.
    for (size_t s = 3; s < labels_.size(); s += 2)
      if (labels_[s] != labels_[s - 2]) jump_[s] = 0;
  }
  // x: log probabilities of step t, the t-th that is passed.
  template <class T>
  void pass(size_t t, const T* x) {
    for (size_t s = 0; s < labels_.size(); ++s) p_[s] = static_cast<double>(x[labels_[s]]);
    double* const to = rows_.data() + t * width_ + kBefore;
    if (t == 0)
      std::copy_n(p_.begin(), std::min<size_t>(2, labels_.size()), to);
    else
      level_of::ctc_step(
          static_cast<const double*>(to - width_), static_cast<const double*>(jump_.data()),
          static_cast<const double*>(p_.data()), to, static_cast<int64_t>(labels_.size()));
  }
  const double* at(size_t t) const { return rows_.data() + t * width_ + kBefore; }
  double end(size_t t) const {  // of the last label, and of the blank behind it
    const double *last = at(t) + labels_.size() - 1, a = last[0];
    if (labels_.size() == 1) return a;
    const double most = std::max(a, last[-1]);
    return most == kNever ? most : most + std::log(std::exp(a - most) + std::exp(last[-1] - most));
  }

 private:
  std::vector<int64_t> labels_;
  size_t width_;
  std::vector<double> jump_, p_, rows_;
};

void exponentials(const float* x, float* y, int64_t n) {
  level_of::exp_scale_f32(x, y, n, 0.f, 1.f);
}
void exponentials(const double* x, double* y, int64_t n) {
  level_of::exp_scale_f64(x, y, n, 0.0, 1.0);
}

// One sequence: log probabilities x, a step apart for each time, its labels, and where the gradient goes.
template <class T>
double sequence(const T* x, int64_t step, int64_t steps, int64_t all_steps, int64_t classes,
                std::span<const int64_t> labels, int64_t blank, bool zero_infinity, T* gradient) {
  const size_t states = 2 * labels.size() + 1;
  std::vector<int64_t> label(states, blank);
  for (size_t i = 0; i < labels.size(); ++i) label[2 * i + 1] = labels[i];
  const size_t n = static_cast<size_t>(steps);
  Passage forward(label, n), backward({label.rbegin(), label.rend()}, n);
  for (size_t t = 0; t < n; ++t) {
    forward.pass(t, x + static_cast<int64_t>(t) * step);
    backward.pass(t, x + static_cast<int64_t>(n - 1 - t) * step);
  }
  const double loss = n ? -forward.end(n - 1) : labels.empty() ? 0 : HUGE_VAL;
  const bool drop = zero_infinity && std::isinf(loss);
  std::vector<double> passed(states), of_class(static_cast<size_t>(classes));
  for (int64_t t = 0; t < all_steps; ++t) {
    T* const to = gradient + t * step;
    const T* const p = x + t * step;
    if (t >= steps || drop) {
      std::fill(to, to + classes, T(0));
      continue;
    }
    // How likely each state is at this time, given the labels.
    const double *f = forward.at(static_cast<size_t>(t)),
                 *b = backward.at(n - 1 - static_cast<size_t>(t)) + states - 1;
    for (size_t s = 0; s < states; ++s)
      passed[s] = f[s] + *(b - s) - static_cast<double>(p[label[s]]);
    level_of::exp_scale_f64(static_cast<const double*>(passed.data()), passed.data(),
                            static_cast<int64_t>(states), -loss, 1.0);
    std::fill(of_class.begin(), of_class.end(), loss - loss);  // nan where no path is
    for (size_t s = 0; s < states; ++s) of_class[static_cast<size_t>(label[s])] += passed[s];
    exponentials(p, to, classes);
    for (int64_t c = 0; c < classes; ++c)
      to[c] = static_cast<T>(static_cast<double>(to[c]) -
                             (of_class[static_cast<size_t>(c)] + static_cast<double>(p[c] - p[c])));
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
