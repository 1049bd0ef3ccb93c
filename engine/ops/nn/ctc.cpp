// Connectionist temporal classification (Graves et al., ICML 2006): the probability of a label
// sequence under per-step class probabilities, over all ways to stretch it with repeats and blanks.
#include "engine/ops/nn/ctc.h"

#include <algorithm>
#include <string>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/read.h"

namespace tycho {
namespace {

const Op& steps = add_op(
    {.name = "_ctc",
     .args = "log_probs, targets, input_lengths, target_lengths, blank: position, zero_infinity: "
             "bool",
     .doc = "Per sequence the negative log likelihood, and its gradient.",
     .where = kHidden,
     .saves = "out2",
     .shape =
         [](Call& c) {
           const Tensor &x = c.tensor(0), &targets = c.tensor(1);
           TYCHO_CHECK(Kind::Shape, x.rank() == 3,
                       "ctc_loss: log_probs are [time, batch, classes], not shape %s",
                       to_string(x.shape()).c_str());
           TYCHO_CHECK(Kind::DType, x.dtype() == DType::Float32 || x.dtype() == DType::Float64,
                       "ctc_loss: log_probs are float32 or float64, not %s", dtype_name(x.dtype()));
           TYCHO_CHECK(Kind::DType, is_integral(targets.dtype()),
                       "ctc_loss: targets are class numbers (integers), not %s",
                       dtype_name(targets.dtype()));
           const int64_t n = x.size(1), classes = x.size(2);
           int64_t blank = c.integer(4);
           TYCHO_CHECK(Kind::Value, blank >= 0 && blank < classes,
                       "ctc_loss: blank is a class from 1 to %lld, not %lld",
                       static_cast<long long>(classes), static_cast<long long>(blank + 1));
           for (int arg : {2, 3}) {
             const Tensor& lengths = c.tensor(arg);
             TYCHO_CHECK(Kind::Shape, lengths.numel() == n && lengths.rank() <= 1,
                         "ctc_loss: %s must hold %lld numbers, one for each sequence, not shape %s",
                         c.op->params[arg].name.c_str(), static_cast<long long>(n),
                         to_string(lengths.shape()).c_str());
             TYCHO_CHECK(Kind::DType, is_integral(lengths.dtype()),
                         "ctc_loss: %s are integers, not %s", c.op->params[arg].name.c_str(),
                         dtype_name(lengths.dtype()));
           }
           c.out.push_back(empty({n}, x.dtype(), x.device()));
           c.out.push_back(empty(x.shape(), x.dtype(), x.device()));
         },
     .grad =
         [](Backward& b) {
           // What is kept is numbers: a graph through them would give a wrong second derivative.
           TYCHO_CHECK(Kind::Autograd, !mode.grad,
                       "ctc_loss: has no second derivative; leave out create_graph, or add it "
                       "after the gradients of the other terms");
           const Tensor g = op<"unsqueeze">(op<"unsqueeze">(b.g(0), 0), -1);
           b.set(0, b.out(1) * g);
         }});

const Op& ctc_loss = add_op(
    {.name = "ctc_loss",
     .args = "log_probs, targets, input_lengths, target_lengths, blank: position = 0, reduction: "
             "string = mean, zero_infinity: bool = false",
     .doc = "The loss of label sequences whose places in time are not known; class 1 is the blank "
            "unless given. Its gradient is that of log_softmax before it, as PyTorch's.",
     .where = kFunction | kFunctional,
     .amp = Amp::F32,
     .any_device = true,
     .see = "nn.functional.log_softmax, nn.functional.nll_loss",
     .rule = "[t, n, c], [n, s], [n], [n] -> []",
     .example = "F.ctc_loss(torch.zeros(2, 1, 2), torch.tensor{{2}}, torch.tensor{2}, "
                "torch.tensor{1}) --> f32 []  -1.0986",
     .compose =
         [](Call& c) {
           const std::string reduction = c.string(5);
           TYCHO_CHECK(Kind::Value,
                       reduction == "mean" || reduction == "sum" || reduction == "none",
                       "ctc_loss: reduction is \"mean\", \"sum\" or \"none\", not \"%s\"",
                       reduction.c_str());
           const bool single = c.tensor(0).rank() == 2;  // one sequence without a batch
           const Tensor x = single ? op<"unsqueeze">(c.tensor(0), 1) : c.tensor(0);
           // Scripts keep lengths, and for cuDNN targets too, on the CPU.
           const auto there = [&](int i) { return op<"to.device">(c.tensor(i), x.device()); };
           Tensor loss = ops<"_ctc">(x, there(1), there(2), there(3), c.integer(4), c.flag(6))[0];
           if (reduction == "mean") {
             const Tensor lengths = op<"to.dtype">(op<"clamp_min">(there(3), 1), loss.dtype());
             loss = op<"mean">(loss / op<"reshape">(lengths, Sizes{-1}));
           } else if (reduction == "sum") {
             loss = op<"sum">(loss);
           } else if (single) {
             loss = op<"select">(loss, 0, 0);
           }
           c.out.push_back(loss);
         },
     .samples =
         [](Samples& s) {
           s.add({s.uniform({4, 2, 3}, -3, -0.1), s.integers({2, 2}, 2, 3),
                  s.of({2}, {4, 3}, DType::Int64), s.of({2}, {2, 1}, DType::Int64)},
                 false);
         }});

// The sequences fit into the log probabilities and are what the targets hold.
void check_lengths(const Call& c, const std::vector<int64_t>& inputs,
                   const std::vector<int64_t>& lengths) {
  constexpr int64_t kFar = INT64_MAX / 4;  // sums of two do not overflow
  const Tensor& targets = c.tensor(1);
  int64_t total = 0, longest = 0;
  for (int arg : {2, 3})
    for (size_t i = 0; i < lengths.size(); ++i) {
      const int64_t length = (arg == 2 ? inputs : lengths)[i],
                    most = arg == 2 ? c.tensor(0).size(0) : kFar;
      TYCHO_CHECK(Kind::Value, length >= 0 && length <= most,
                  "ctc_loss: %s of sequence %lld is %lld; it goes from 0 to %lld",
                  c.op->params[arg].name.c_str(), static_cast<long long>(i + 1),
                  static_cast<long long>(length), static_cast<long long>(most));
      if (arg == 3) total = std::min(total + length, kFar), longest = std::max(longest, length);
    }
  TYCHO_CHECK(Kind::Shape,
              targets.rank() == 1 ? targets.size(0) == total
                                  : targets.rank() == 2 && targets.size(0) == c.tensor(0).size(1) &&
                                        targets.size(1) >= longest,
              "ctc_loss: targets of shape %s do not hold sequences of these lengths",
              to_string(targets.shape()).c_str());
}

}  // namespace

CtcSequences ctc_sequences(const Call& c) {
  const auto numbers = [&](int i) { return items<int64_t>(fetch(c.tensor(i))); };
  const std::vector<int64_t> targets = numbers(1), lengths = numbers(3);
  CtcSequences all{numbers(2), {0}, {}};
  check_lengths(c, all.steps, lengths);
  const int64_t classes = c.tensor(0).size(2);
  for (size_t i = 0; i < lengths.size(); ++i) {
    const size_t from =
        c.tensor(1).rank() == 2 ? i * static_cast<size_t>(c.tensor(1).size(1)) : all.labels.size();
    for (size_t k = 0; k < static_cast<size_t>(lengths[i]); ++k) {
      const int64_t label = targets[from + k];
      TYCHO_CHECK(Kind::Index, label >= 1 && label <= classes,
                  "ctc_loss: label %lld of sequence %lld is %lld; classes go from 1 to %lld",
                  static_cast<long long>(k + 1), static_cast<long long>(i + 1),
                  static_cast<long long>(label), static_cast<long long>(classes));
      all.labels.push_back(label - 1);
    }
    all.begin.push_back(static_cast<int64_t>(all.labels.size()));
  }
  return all;
}

}  // namespace tycho
