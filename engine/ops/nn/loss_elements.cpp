// Losses that compare element by element: each is a row of elementwise.def (or a few operations),
// reduced by mean or sum. So their gradients are of any order.
#include <cmath>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/nn/loss.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/read.h"

namespace tycho {
namespace {

// Reduces with weights, where there are any: a mean then divides by their sum.
Tensor weighted(const Call& c, const Tensor& each, const Tensor& weight, Reduction r) {
  if (!weight) return reduce_loss(each, r);
  TYCHO_CHECK(Kind::Shape, weight.shape() == c.tensor(0).shape(),
              "%s: weight has shape %s, the input %s", c.op->name,
              to_string(weight.shape()).c_str(), to_string(c.tensor(0).shape()).c_str());
  const Tensor sum = each * weight;
  return r == Reduction::Mean ? op<"sum">(sum) / op<"sum">(weight) : reduce_loss(sum, r);
}

// The common samples: every reduction, and broadcasting.
void pairs(Samples& s) {
  s.add({s.normal({3, 4}), s.normal({3, 4})});
  s.add({s.normal({3, 4}), s.normal({3, 4}), "sum"});
  s.add({s.normal({3, 4}), s.normal({4}), "none"});
}

const Op& mse_loss = add_op(
    {.name = "mse_loss",
     .args = "self, target, reduction: string = mean, weight: tensor?",
     .doc = "The mean of (self - target)^2.",
     .where = kFunctional,
     .amp = Amp::F32,
     .see = "l1_loss, huber_loss",
     .rule = "[..] and a target that broadcasts -> [] (reduction \"none\": [..])",
     .example = "F.mse_loss(torch.tensor{1.0, 2.0}, torch.tensor{0.0, 4.0}) --> f32 []  2.5\n"
                "F.mse_loss(torch.tensor{1.0, 2.0}, torch.tensor{0.0, 4.0}, {reduction=\"none\"}) "
                "--> f32 [2]  1 4",
     .compose =
         [](Call& c) {
           standing_observer->compared(c.op->name, c.tensor(0), c.tensor(1));
           const Reduction r = parse_reduction(c.string(2));
           c.out.push_back(
               weighted(c, fn::squared_error(c.tensor(0), c.tensor(1)), c.tensor(3), r));
         },
     .samples =
         [](Samples& s) {
           pairs(s);
           s.add({s.normal({3}), s.normal({3}), "mean", s.uniform({3}, 0.5, 2)});
         }});

const Op& l1_loss =
    add_op({.name = "l1_loss",
            .args = "self, target, reduction: string = mean, weight: tensor?",
            .doc = "The mean of |self - target|.",
            .where = kFunctional,
            .amp = Amp::F32,
            .see = "mse_loss, smooth_l1_loss",
            .rule = "[..] and a target that broadcasts -> [] (reduction \"none\": [..])",
            .example = "F.l1_loss(torch.tensor{1.0, 2.0}, torch.tensor{0.0, 4.0}) --> f32 []  1.5",
            .compose =
                [](Call& c) {
                  standing_observer->compared(c.op->name, c.tensor(0), c.tensor(1));
                  const Reduction r = parse_reduction(c.string(2));
                  const Tensor each = fn::abs(c.tensor(0) - c.tensor(1));
                  c.out.push_back(weighted(c, each, c.tensor(3), r));
                },
            .samples =
                [](Samples& s) {
                  pairs(s);
                  s.add({s.normal({3}), s.normal({3}), "mean", s.uniform({3}, 0.5, 2)});
                }});

const Op& smooth_l1_loss = add_op(
    {.name = "smooth_l1_loss",
     .args = "self, target, reduction: string = mean, beta: float = 1.0",
     .doc = "|self - target| - beta / 2, and a parabola where the difference is below beta.",
     .where = kFunctional,
     .amp = Amp::F32,
     .see = "huber_loss, l1_loss",
     .rule = "[..] and a target that broadcasts -> [] (reduction \"none\": [..])",
     .example =
         "F.smooth_l1_loss(torch.tensor{0.5, 3.0}, torch.tensor{0.0, 0.0}) --> f32 []  1.3125",
     .compose =
         [](Call& c) {
           standing_observer->compared(c.op->name, c.tensor(0), c.tensor(1));
           const Reduction r = parse_reduction(c.string(2));
           const double beta = c.number(3);
           TYCHO_CHECK(Kind::Value, beta >= 0, "smooth_l1_loss: beta must not be negative, got %g",
                       beta);
           const Tensor &x = c.tensor(0), &t = c.tensor(1);
           const Tensor each = beta == 0   ? fn::abs(x - t)
                               : beta == 1 ? fn::huber_error(x, t, beta)
                                           : fn::huber_error(x, t, beta) / beta;
           c.out.push_back(reduce_loss(each, r));
         },
     .samples =
         [](Samples& s) {
           pairs(s);
           s.add({s.normal({3}), s.normal({3}), "mean", 0.3});
           s.add({s.normal({3}), s.normal({3}), "mean", 0.0});
         }});

const Op& huber_loss = add_op(
    {.name = "huber_loss",
     .args = "self, target, reduction: string = mean, delta: float = 1.0, weight: tensor?",
     .doc = "Half the squared difference, and linear where it is larger than delta.",
     .where = kFunctional,
     .amp = Amp::F32,
     .see = "smooth_l1_loss, mse_loss",
     .rule = "[..] and a target that broadcasts -> [] (reduction \"none\": [..])",
     .example = "F.huber_loss(torch.tensor{0.5, 3.0}, torch.tensor{0.0, 0.0}) --> f32 []  1.3125",
     .compose =
         [](Call& c) {
           standing_observer->compared(c.op->name, c.tensor(0), c.tensor(1));
           const Reduction r = parse_reduction(c.string(2));
           TYCHO_CHECK(Kind::Value, c.number(3) > 0, "huber_loss: delta must be above 0, got %g",
                       c.number(3));
           Tensor each = fn::huber_error(c.tensor(0), c.tensor(1), c.number(3));
           if (const Tensor& weight = c.tensor(4)) {
             TYCHO_CHECK(Kind::Shape, weight.shape() == c.tensor(0).shape(),
                         "huber_loss: weight has shape %s, the input %s",
                         to_string(weight.shape()).c_str(), to_string(c.tensor(0).shape()).c_str());
             each = each * weight;
           }
           c.out.push_back(reduce_loss(each, r));
         },
     .samples =
         [](Samples& s) {
           pairs(s);
           s.add({s.normal({3}), s.normal({3}), "mean", 0.3, s.uniform({3}, 0.5, 2)});
         }});

// --- Probabilities ---

void check_same_shape(const Call& c) {
  TYCHO_CHECK(Kind::Shape, c.tensor(0).shape() == c.tensor(1).shape(),
              "%s: the input has shape %s, the target %s", c.op->name,
              to_string(c.tensor(0).shape()).c_str(), to_string(c.tensor(1).shape()).c_str());
  for (int i = 0; i < 2; ++i)
    if (!is_floating(c.tensor(i).dtype()))
      fail(Kind::DType,
           format("%s: %s must be floating point, like probabilities, not %s", c.op->name,
                  c.op->params[i].name.c_str(), dtype_name(c.tensor(i).dtype())),
           i ? "y:float()" : "x:float()");
}

const Op& first_improbable = add_op(
    {.name = "first_improbable",
     .args = "self",
     .doc =
         "Where the first element lies that is not in [0, 1], in row-major order from 0; else -1.",
     .where = kHidden,
     .differentiable = false,
     .shape = [](Call& c) { c.out.push_back(empty({}, DType::Int64, c.tensor(0).device())); },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4})});
         }});

void check_probabilities(const Tensor& x) {
  if (shapes_only) return;  // then no kernel runs
  const NoGrad quiet;
  const int64_t at = item<int64_t>(op<"first_improbable">(x));
  if (at >= 0)
    fail(Kind::Value,
         format("binary_cross_entropy: the input holds probabilities in [0, 1], element %lld is %g",
                static_cast<long long>(at + 1), item(op<"select">(op<"flatten">(x), 0, at))),
         "F.binary_cross_entropy_with_logits(x, y)  -- for scores before the sigmoid");
}

const Op& binary_cross_entropy = add_op(
    {.name = "binary_cross_entropy",
     .args = "self, target, weight: tensor?, reduction: string = mean",
     .doc = "Cross entropy of probabilities in [0, 1] and targets in [0, 1].",
     .where = kFunctional,
     .amp = Amp::F32,
     .see = "binary_cross_entropy_with_logits",
     .rule = "[..] and a target that broadcasts -> [] (reduction \"none\": [..])",
     .example = "F.binary_cross_entropy(torch.tensor{0.5, 0.5}, torch.tensor{1.0, 0.0}) --> f32 [] "
                " 0.69315",
     .compose =
         [](Call& c) {
           const Reduction r = parse_reduction(c.string(3));
           check_same_shape(c);
           check_probabilities(c.tensor(0));
           Tensor each = fn::entropy_error(c.tensor(0), c.tensor(1));
           if (c.tensor(2)) each = each * c.tensor(2);
           c.out.push_back(reduce_loss(each, r));
         },
     .samples =
         [](Samples& s) {
           s.add({s.uniform({3, 4}, 0.1, 0.9), s.uniform({3, 4}, 0, 1)});
           s.add({s.uniform({3, 4}, 0.1, 0.9), s.uniform({3, 4}, 0, 1), s.uniform({4}, 0.5, 2),
                  "sum"});
           s.add({s.uniform({3}, 0.1, 0.9), s.uniform({3}, 0, 1), nullptr, "none"});
         }});

const Op& binary_cross_entropy_with_logits =
    add_op({.name = "binary_cross_entropy_with_logits",
            .args = "self, target, weight: tensor?, reduction: string = mean, pos_weight: tensor?",
            .doc = "Cross entropy of sigmoid(self) and targets in [0, 1], without overflow.",
            .where = kFunctional,
            .amp = Amp::F32,
            .see = "binary_cross_entropy",
            .rule = "[..] and a target that broadcasts -> [] (reduction \"none\": [..])",
            .example = "F.binary_cross_entropy_with_logits(torch.tensor{0.0, 0.0}, "
                       "torch.tensor{1.0, 0.0}) --> f32 []  0.69315",
            .compose =
                [](Call& c) {
                  const Tensor &x = c.tensor(0), &y = c.tensor(1), &pos = c.tensor(4);
                  const Reduction r = parse_reduction(c.string(3));
                  check_same_shape(c);
                  Tensor each = pos ? (1 - y) * x - (1 + (pos - 1) * y) * op<"logsigmoid">(x)
                                    : fn::entropy_logits_error(x, y);
                  if (c.tensor(2)) each = each * c.tensor(2);
                  c.out.push_back(reduce_loss(each, r));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3, 4}), s.uniform({3, 4}, 0, 1)});
                  s.add({s.normal({3, 4}), s.uniform({3, 4}, 0, 1), s.uniform({4}, 0.5, 2), "sum"});
                  s.add({s.normal({3, 4}), s.uniform({3, 4}, 0, 1), nullptr, "none",
                         s.uniform({4}, 0.5, 2)});
                }});

const Op& kl_div =
    add_op({.name = "kl_div",
            .args = "self, target, reduction: string = mean, log_target: bool = false",
            .doc = "Kullback-Leibler divergence: target * (log(target) - self), where self holds "
                   "log-probabilities.",
            .where = kFunctional,
            .amp = Amp::F32,
            .see = "cross_entropy, log_softmax",
            .rule = "[..] and a target that broadcasts -> [] (reduction \"none\": [..])",
            .example = "F.kl_div(torch.tensor{0.5, 0.5}:log(), torch.tensor{0.5, 0.5}, "
                       "{reduction=\"sum\"}) --> f32 []  0",
            .compose =
                [](Call& c) {
                  standing_observer->compared(c.op->name, c.tensor(0), c.tensor(1));
                  const Tensor &x = c.tensor(0), &t = c.tensor(1);
                  const bool batch = std::string_view(c.string(2)) == "batchmean";
                  const Reduction r = batch ? Reduction::Sum : parse_reduction(c.string(2));
                  const Tensor each = c.flag(3) ? fn::exp(t) * (t - x) : fn::xlogy(t, t) - t * x;
                  Tensor y = reduce_loss(each, r);
                  if (batch && x.rank() > 0) y = y / static_cast<double>(x.size(0));
                  c.out.push_back(y);
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3, 4}), s.uniform({3, 4}, 0.1, 1)});
                  s.add({s.normal({3, 4}), s.normal({3, 4}), "batchmean", true});
                  s.add({s.normal({3, 4}), s.uniform({4}, 0.1, 1), "none"});
                }});

const Op& poisson_nll_loss = add_op(
    {.name = "poisson_nll_loss",
     .args = "self, target, log_input: bool = true, full: bool = false, eps: float = 1e-8, "
             "reduction: string = mean",
     .doc = "Minus the log-likelihood of counts for a Poisson rate exp(self), or self.",
     .where = kFunctional,
     .amp = Amp::F32,
     .see = "gaussian_nll_loss, poisson",
     .rule = "[..] and a target that broadcasts -> [] (reduction \"none\": [..])",
     .example = "F.poisson_nll_loss(torch.tensor{0.0}, torch.tensor{2.0}) --> f32 []  1",
     .compose =
         [](Call& c) {
           standing_observer->compared(c.op->name, c.tensor(0), c.tensor(1));
           const Tensor &x = c.tensor(0), &t = c.tensor(1);
           const Reduction r = parse_reduction(c.string(5));
           Tensor each = c.flag(2) ? fn::exp(x) - t * x : x - t * fn::log(x + c.number(4));
           if (c.flag(3)) {  // Stirling's approximation of log(target!)
             const Tensor term = t * fn::log(t) - t + 0.5 * fn::log(t * (2 * M_PI));
             each = each + op<"masked_fill">(term, fn::le(t, 1), 0);
           }
           c.out.push_back(reduce_loss(each, r));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), s.uniform({3, 4}, 0, 4)});
           s.add({s.uniform({3, 4}, 0.5, 2), s.uniform({3, 4}, 1.5, 4), false, true, 1e-6, "sum"});
         }});

// `t` with elements below eps raised to it, and the gradient of `t`.
Tensor raised(const Tensor& t, double eps) {
  Tensor step;
  {
    NoGrad quiet;
    step = op<"clamp_min">(t, eps) - t;
  }
  return t + step;
}

const Op& gaussian_nll_loss = add_op(
    {.name = "gaussian_nll_loss",
     .args = "self, target, var: operand, full: bool = false, eps: float = 1e-6, reduction: string "
             "= mean",
     .doc = "Minus the log-likelihood of targets for normal numbers of mean self and variance var.",
     .where = kFunctional,
     .amp = Amp::F32Cuda,
     .see = "mse_loss, poisson_nll_loss",
     .rule = "[..] and a target that broadcasts -> [] (reduction \"none\": [..])",
     .example = "F.gaussian_nll_loss(torch.tensor{1.0}, torch.tensor{3.0}, torch.tensor{1.0}) --> "
                "f32 []  2",
     .compose =
         [](Call& c) {
           standing_observer->compared(c.op->name, c.tensor(0), c.tensor(1));
           const Tensor &x = c.tensor(0), &t = c.tensor(1);
           Tensor var =
               c.tensor(2) ? c.tensor(2) : filled(x.shape(), c.number(2), x.dtype(), x.device());
           {
             NoGrad quiet;
             TYCHO_CHECK(Kind::Value, !item<bool>(op<"any">(fn::lt(var, 0))),
                         "gaussian_nll_loss: var holds a negative number");
           }
           if (!(var.shape() == x.shape())) {
             Sizes short_shape = x.shape(), ones = x.shape();
             if (x.rank() > 0) short_shape.erase(x.rank() - 1);
             int64_t differing = 0;
             if (var.rank() == x.rank())
               for (int d = 0; d < x.rank(); ++d)
                 if (var.size(d) != x.size(d)) differing += var.size(d);
             if (x.rank() > 0 && var.shape() == short_shape) {
               ones = short_shape;
               ones.push_back(1);
               var = op<"reshape">(var, ones);
             } else {
               TYCHO_CHECK(Kind::Shape, var.rank() == x.rank() && differing == 1,
                           "gaussian_nll_loss: var of shape %s does not fit the input's %s",
                           to_string(var.shape()).c_str(), to_string(x.shape()).c_str());
             }
           }
           const std::string_view how =
               c.string(5);  // a wrong one is a wrong value here, in PyTorch too
           TYCHO_CHECK(
               Kind::Value, how == "mean" || how == "sum" || how == "none",
               "gaussian_nll_loss: reduction is \"mean\", \"sum\" or \"none\", not \"%.40s\"",
               c.string(5));
           const Reduction r = parse_reduction(c.string(5));
           var = raised(var, c.number(4));
           Tensor each = (fn::log(var) + fn::square(x - t) / var) * 0.5;
           if (c.flag(3)) each = each + 0.5 * std::log(2 * M_PI);
           c.out.push_back(reduce_loss(each, r));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), s.normal({3, 4}), s.uniform({3, 4}, 0.5, 2)});
           s.add({s.normal({3, 4}), s.normal({3, 4}), s.uniform({3}, 0.5, 2), true, 1e-6, "sum"});
           s.add({s.normal({3}), s.normal({3}), 0.5, false, 1e-6, "none"});
         }});

}  // namespace
}  // namespace tycho
