// Connectionist temporal classification (Graves et al., ICML 2006): the probability of a label
// sequence under per-step class probabilities, over all ways to stretch it with repeats and blanks.

#include <string>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

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
           Tensor loss =
               ops<"_ctc">(x, c.tensor(1), c.tensor(2), c.tensor(3), c.integer(4), c.flag(6))[0];
           if (reduction == "mean") {
             const Tensor lengths = op<"to.dtype">(op<"clamp_min">(c.tensor(3), 1), loss.dtype());
             loss =
                 op<"mean">(loss / op<"to.device">(op<"reshape">(lengths, Sizes{-1}), x.device()));
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

}  // namespace
}  // namespace tycho
