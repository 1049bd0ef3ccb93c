// softmax, log_softmax, softmin: fused kernels, whose gradients are fused ops with gradients by
// ops.

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

constexpr uint8_t kEverywhere = kFunction | kMethod | kFunctional;

void shape(Call& c) {
  const Tensor& x = c.tensor(0);
  wrap_dim(c.integer(1), x.rank());
  const DType t = c.dtype(2, x.dtype());
  if (!is_floating(t))
    fail(Kind::DType, format("%s: takes floating point numbers, not %s", c.op->name, dtype_name(t)),
         "x:float()");
  c.out.push_back(empty(x.shape(), t, x.device()));
}

void samples(Samples& s) {
  s.add({s.normal({3, 4}), 1});
  s.add({s.normal({2, 3, 4}), 1});
  s.add({s.normal({3, 20}), 0});
  s.add({s.normal({}), 0});
  s.add({s.normal({2, 0}), 1});
  s.add({s.integers({2, 3}, -2, 2), 1, DType::Float32});
}

void softmax_backward_shape(Call& c) {
  const Tensor& g = c.tensor(0);
  wrap_dim(c.integer(2), g.rank());
  TYCHO_CHECK(Kind::Shape, g.shape() == c.tensor(1).shape(), "%s: shapes %s and %s differ",
              c.op->name, to_string(g.shape()).c_str(), to_string(c.tensor(1).shape()).c_str());
  c.out.push_back(empty(g.shape(), promote(g.dtype(), c.tensor(1).dtype()), g.device()));
}

void backward_samples(Samples& s) {
  s.add({s.normal({3, 4}), s.uniform({3, 4}, 0.1, 0.5), 1});
  s.add({s.normal({3, 20}), s.uniform({3, 20}, 0.1, 0.5), 0});
}

Tensor sum_along(const Tensor& t, int64_t dim) { return op<"sum">(t, Sizes{dim}, true); }

const Op& softmax = add_op(
    {.name = "softmax",
     .args = "self, dim: dim, dtype: dtype?",
     .doc = "exp(x) / sum(exp(x)) along a dimension: positive numbers that add up to 1.",
     .where = kEverywhere,
     .amp = Amp::F32Cuda,
     .saves = "out",
     .see = "log_softmax, softmin, cross_entropy",
     .rule = "[.., n, ..] -> [.., n, ..]",
     .example = "torch.tensor{0.0, 0.0}:softmax(1) --> f32 [2]   0.5  0.5\n"
                "torch.tensor{{1.0, 2.0}, {3.0, 3.0}}:softmax(2) --> f32 [2, 2]\n"
                " 0.269  0.731\n"
                " 0.500  0.500",
     .shape = shape,
     .grad = [](Backward& b) { b.set(0, op<"softmax_backward">(b.g(), b.out(), b.integer(1))); },
     .samples = samples});

const Op& log_softmax = add_op(
    {.name = "log_softmax",
     .args = "self, dim: dim, dtype: dtype?",
     .doc = "The logarithm of softmax, computed without overflow.",
     .where = kEverywhere,
     .amp = Amp::F32Cuda,
     .saves = "out",
     .see = "softmax, nll_loss, logsumexp",
     .rule = "[.., n, ..] -> [.., n, ..]",
     .example = "torch.tensor{0.0, 0.0}:log_softmax(1) --> f32 [2]   -0.693  -0.693",
     .shape = shape,
     .grad =
         [](Backward& b) { b.set(0, op<"log_softmax_backward">(b.g(), b.out(), b.integer(1))); },
     .samples = samples});

const Op& softmin =
    add_op({.name = "softmin",
            .args = "self, dim: dim, dtype: dtype?",
            .doc = "softmax of the negated elements.",
            .where = kFunctional,
            .see = "softmax",
            .rule = "[.., n, ..] -> [.., n, ..]",
            .example = "F.softmin(torch.tensor{1.0, 1.0}, 1) --> f32 [2]   0.5  0.5",
            .compose =
                [](Call& c) {
                  Tensor x = c.tensor(0);
                  if (c.has(2)) x = op<"to.dtype">(x, c.arg[2].dtype);
                  become<"softmax">(c, -x, c.integer(1));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3, 4}), 1});
                }});

// y (g - sum(g y)).
const Op& softmax_backward =
    add_op({.name = "softmax_backward",
            .args = "grad, result, dim: dim",
            .doc = "The gradient of softmax, from its result.",
            .where = kHidden,
            .saves = "grad, result",
            .shape = softmax_backward_shape,
            .grad =
                [](Backward& b) {
                  const Tensor v = b.g(), g = b.in(0), y = b.in(1);
                  const int64_t d = b.integer(2);
                  if (b.needs(0)) b.set(0, op<"softmax_backward">(v, y, d));
                  if (b.needs(1)) b.set(1, v * (g - sum_along(g * y, d)) - g * sum_along(v * y, d));
                },
            .samples = backward_samples});

// g - exp(y) sum(g).
const Op& log_softmax_backward = add_op({.name = "log_softmax_backward",
                                         .args = "grad, result, dim: dim",
                                         .doc = "The gradient of log_softmax, from its result.",
                                         .where = kHidden,
                                         .saves = "grad, result",
                                         .shape = softmax_backward_shape,
                                         .grad =
                                             [](Backward& b) {
                                               const Tensor v = b.g(), e = fn::exp(b.in(1));
                                               const int64_t d = b.integer(2);
                                               if (b.needs(0)) b.set(0, v - sum_along(v * e, d));
                                               if (b.needs(1))
                                                 b.set(1, -(v * e * sum_along(b.in(0), d)));
                                             },
                                         .samples = backward_samples});

BATCH("softmax", by_dims);
BATCH("log_softmax", by_dims);
BATCH("softmax_backward", by_dims);
BATCH("log_softmax_backward", by_dims);

}  // namespace
}  // namespace tycho
