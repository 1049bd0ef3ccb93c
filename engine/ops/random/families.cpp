// Draws that torch.distributions is made of: gamma numbers, points of a simplex, counts of successes.
// What is drawn follows its parameters by the rows standard_gamma_grad and dirichlet_grad.
#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/random/limits.h"
#include "engine/ops/random/random.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

// Row-major, as numbers are drawn.
void like_self_by_rows(Call& c) {
  const Tensor& x = c.tensor(0);
  check_floating(c.op->name, x.dtype());
  c.out.push_back(empty(x.shape(), x.dtype(), x.device()));
}

// A slope at which a second derivative ends, with an error where one is asked for: that of `of`.
const Op& known_once = add_op({.name = "slope_known_once",
                               .args = "self, of",
                               .doc = "The tensor itself, without a second derivative.",
                               .where = kHidden,
                               .shape = [](Call& c) { c.out.push_back(empty_like(c.tensor(0))); },
                               .run = [](Call& c) { copy_raw(c.out[0], c.tensor(0)); },
                               .grad =
                                   [](Backward&) {
                                     fail(Kind::Autograd,
                                          "the second derivative of numbers drawn from a gamma or "
                                          "Dirichlet distribution is not "
                                          "known; leave create_graph out, or detach the sample");
                                   }});
Tensor known(const Tensor& slope, const Tensor& of) {
  return mode.grad ? op<"slope_known_once">(slope, of) : slope;
}

const Op& standard_gamma =
    add_op({.name = "_standard_gamma",
            .args = "self, generator: generator?",
            .doc = "Gamma numbers of rate 1, each with the shape that the element gives.",
            .where = kFunction,
            .random = true,
            .saves = "self, out",
            .see = "_sample_dirichlet, poisson",
            .rule = "any shape -> the same shape",
            .example = "torch._standard_gamma(torch.tensor{1.0, 9.0}):gt(0) --> bool [2]  # #",
            .shape = like_self_by_rows,
            .grad =
                [](Backward& b) {
                  b.set(0, b.g() * known(op<"standard_gamma_grad">(b.in(0), b.out()), b.in(0)));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.uniform({2, 3}, 0, 20)}, false);
                  s.add({s.uniform({0, 3}, 0, 20, DType::Float64)}, false);
                }});

const Op& sample_dirichlet = add_op(
    {.name = "_sample_dirichlet",
     .args = "self, generator: generator?",
     .doc = "Numbers that sum to 1 along the last dimension, drawn from a Dirichlet distribution.",
     .where = kFunction,
     .random = true,
     .saves = "self, out",
     .see = "_standard_gamma",
     .rule = "any shape -> the same shape",
     .example = "torch._sample_dirichlet(torch.tensor{1.0, 2.0}):sum() --> f32 []  1",
     .shape =
         [](Call& c) {
           TYCHO_CHECK(Kind::Dim, c.tensor(0).rank() > 0,
                       "_sample_dirichlet: wants at least one dimension");
           like_self_by_rows(c);
         },
     // In double: small shapes give gamma numbers that float32 does not have.
     .run =
         [](Call& c) {
           const Tensor& y = c.out[0];
           const Tensor gammas =
               op<"_standard_gamma">(op<"to.dtype">(c.tensor(0), DType::Float64), c.arg[1]);
           const Tensor shares = gammas / op<"sum">(gammas, Sizes{-1}, true);
           const double most = 1 - unit_roundoff(y.dtype());
           copy_raw(y, op<"clamp">(shares, least_normal(y.dtype()), most));
         },
     // With x from Dirichlet(a), whose x[i] alone is from a beta distribution of a[i] and the rest.
     .grad =
         [](Backward& b) {
           const Tensor a = b.in(0), x = b.out(), g = b.g();
           const Tensor total = op<"expand">(op<"sum">(a, Sizes{-1}, true), a.shape());
           b.set(0, known(op<"dirichlet_grad">(x, a, total), a) *
                        (g - op<"sum">(x * g, Sizes{-1}, true)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.uniform({2, 3}, 0.1, 5)}, false);
           s.add({s.uniform({4}, 0.1, 5, DType::Float64)}, false);
         }});

const Op& binomial = add_op(
    {.name = "binomial",
     .args = "count, prob, generator: generator?",
     .doc = "How many of `count` trials succeed, each with probability `prob`.",
     .where = kFunction,
     .random = true,
     .see = "bernoulli, poisson",
     .rule = "shapes that broadcast -> their common shape",
     .example = "torch.binomial(torch.tensor{5.0, 5.0}, torch.tensor{0.0, 1.0}) --> f32 [2]  0 5",
     .shape =
         [](Call& c) {
           const Tensor &count = c.tensor(0), &p = c.tensor(1);
           check_floating("binomial", count.dtype());
           TYCHO_CHECK(Kind::DType, count.dtype() == p.dtype(),
                       "binomial: count is %s and prob %s; they must be of one type",
                       dtype_name(count.dtype()), dtype_name(p.dtype()));
           c.out.push_back(
               empty(broadcast(count.shape(), p.shape()), count.dtype(), count.device()));
         },
     .grad =
         [](Backward& b) {
           for (int i = 0; i < 2; ++i)
             if (b.needs(i)) b.set(i, op<"zeros_like">(b.g()));
         },
     .samples =
         [](Samples& s) {
           s.add({s.integers({2, 3}, 0, 40, DType::Float32), s.uniform({3}, 0, 1)}, false);
         }});

}  // namespace
}  // namespace tycho
