// Variance, standard deviation, norms, logsumexp.
#include <cmath>

#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/reduce/reduce.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/samples.h"

namespace tycho {

// Of equal points, and of what they have in common, the gradient is 0 to any order, where a norm's
// second derivative is not; the largest differences get all of it each.
Tensor distance_slope(const Tensor& g, const Tensor& x, const Tensor& y, double p) {
  if (p == 0) return op<"zeros_like">(x);
  if (p == 1) return g * op<"sgn">(x);
  if (std::isinf(p)) return g * fn::eq(op<"abs">(x), y) * op<"sgn">(x);
  const Tensor none = fn::eq(y, 0), some = op<"masked_fill">(y, none, 1);
  if (p == 2) return x * op<"masked_fill">(g / some, none, 0);
  const Tensor zero = fn::eq(x, 0), apart = op<"masked_fill">(x, zero, 1);
  const Tensor slope = fn::pow(op<"abs">(apart), p - 1) * op<"sgn">(apart);
  return op<"masked_fill">(slope, zero, 0) * op<"masked_fill">(g / fn::pow(some, p - 1), none, 0);
}

namespace {

// All take (self, dim, unbiased, keepdim, correction): the divisor is n - correction, where
// unbiased stands for a correction of 1, and is what holds when neither is given.
constexpr const char* kArgs =
    "self, dim: dims?, unbiased: bool?, keepdim: bool = false, correction: number?";

void shape(Call& c) {
  const DType t = c.tensor(0).dtype();
  if (!is_floating(t))
    fail(Kind::DType, format("%s: takes floating point numbers, not %s", c.op->name, dtype_name(t)),
         "x:float()");
  correction_of(c);
  add_reduced(c, 1, c.flag(3), t);
}
void shape_with_mean(Call& c) {
  shape(c);
  add_reduced(c, 1, c.flag(3), c.tensor(0).dtype());
}

double depth(const Sizes& shape, uint32_t bits) {
  double n = 1;
  for (int d = 0; d < shape.n; ++d)
    if (bits >> d & 1) n *= static_cast<double>(shape[d]);
  return n;
}

// d var / d x = 2 (x - mean) / (n - correction), times the variance's gradient.
Tensor variance_grad(const Backward& b, const Tensor& g) {
  const Tensor x = b.in(0);
  const uint32_t bits = dims_of(b, 1, x.rank());
  const double freedom = depth(x.shape(), bits) - correction_of(b);
  const Tensor mean = op<"mean">(x, dim_list(bits, x.rank()), true);
  return unreduce(g, x.shape(), bits) * (2 / (freedom > 0 ? freedom : 0)) * (x - mean);
}
// Of the root; 0 where all elements are equal, as PyTorch.
Tensor root_grad(const Backward& b, const Tensor& g) {
  const Tensor y = b.out();
  return variance_grad(b, op<"masked_fill">(g / (y * 2), fn::eq(y, 0), 0));
}
Tensor mean_grad(const Backward& b, const Tensor& g) {
  const Sizes shape = b.shape(0);
  const uint32_t bits = dims_of(b, 1, shape.n);
  return op<"expand">(unreduce(g / depth(shape, bits), shape, bits), shape);
}
template <Tensor (*Of)(const Backward&, const Tensor&)>
void grad(Backward& b) {
  b.set(0, Of(b, b.g()));
}
template <Tensor (*Of)(const Backward&, const Tensor&)>
void grad_with_mean(Backward& b) {
  if (!b.has_g(1))
    b.set(0, Of(b, b.g()));
  else if (!b.has_g(0))
    b.set(0, mean_grad(b, b.g(1)));
  else
    b.set(0, Of(b, b.g()) + mean_grad(b, b.g(1)));
}

void samples(Samples& s) {
  s.add({s.normal({3, 4})});
  s.add({s.normal({3, 4}), s.ints({1})});
  s.add({s.normal({2, 3, 4}), s.ints({0, 2}), false, true});
  s.add({s.normal({2, 3, 4}), s.ints({0}), nullptr, false, 0.5});
}

const Op& var =
    add_op({.name = "var",
            .args = kArgs,
            .doc = "Variance: the mean squared distance from the mean, with divisor "
                   "n - correction (1 unless given).",
            .saves = "self",
            .see = "std, var_mean",
            .rule = "any shape -> []; with dim [.., n, ..] -> [.., ..] (keepdim: [.., 1, ..])",
            .example = "torch.tensor{2.0, 4.0, 6.0}:var() --> f32 []  4\n"
                       "torch.tensor{2.0, 4.0, 6.0}:var{correction=0} --> f32 []  2.6667",
            .shape = shape,
            .grad = grad<variance_grad>,
            .samples = samples});

const Op& standard_deviation =
    add_op({.name = "std",
            .args = kArgs,
            .doc = "Standard deviation: the root of the variance.",
            .saves = "self, out",
            .see = "var, std_mean",
            .rule = "any shape -> []; with dim [.., n, ..] -> [.., ..] (keepdim: [.., 1, ..])",
            .example = "torch.tensor{2.0, 4.0, 6.0}:std() --> f32 []  2",
            .shape = shape,
            .grad = grad<root_grad>,
            .samples = samples});

const Op& var_mean = add_op({.name = "var_mean",
                             .args = kArgs,
                             .doc = "Variance and mean, in one pass over the data.",
                             .where = kFunction,
                             .saves = "self",
                             .see = "var, mean",
                             .rule = "any shape -> var [], mean []; with dim the shape without it",
                             .example = "v, m = torch.var_mean(torch.tensor{2.0, 4.0, 6.0})\n"
                                        "v --> f32 []  4\n"
                                        "m --> f32 []  4",
                             .shape = shape_with_mean,
                             .grad = grad_with_mean<variance_grad>,
                             .samples = samples});

const Op& std_mean = add_op({.name = "std_mean",
                             .args = kArgs,
                             .doc = "Standard deviation and mean, in one pass over the data.",
                             .where = kFunction,
                             .saves = "self, out",
                             .see = "std, mean",
                             .rule = "any shape -> std [], mean []; with dim the shape without it",
                             .example = "s, m = torch.std_mean(torch.tensor{2.0, 4.0, 6.0})\n"
                                        "s --> f32 []  2\n"
                                        "m --> f32 []  4",
                             .shape = shape_with_mean,
                             .grad = grad_with_mean<root_grad>,
                             .samples = samples});

// x:var(false), without dims.
constexpr const char* kUnbiasedArgs = "self, unbiased: bool";
template <OpName Name>
void unbiased(Call& c) {
  c.out = ops<Name>(c.tensor(0), Value(), c.flag(1));
}
void unbiased_samples(Samples& s) { s.add({s.normal({3, 4}), false}); }

const Op& var_unbiased = add_op({.name = "var.unbiased",
                                 .args = kUnbiasedArgs,
                                 .doc = "Variance of all elements.",
                                 .see = "std",
                                 .rule = "any shape -> []",
                                 .example = "torch.tensor{1.0, 3.0}:var(false) --> f32 []  1",
                                 .compose = unbiased<"var">,
                                 .samples = unbiased_samples});
const Op& std_unbiased = add_op({.name = "std.unbiased",
                                 .args = kUnbiasedArgs,
                                 .doc = "Standard deviation of all elements.",
                                 .see = "var",
                                 .rule = "any shape -> []",
                                 .example = "torch.tensor{1.0, 3.0}:std(false) --> f32 []  1",
                                 .compose = unbiased<"std">,
                                 .samples = unbiased_samples});

// The gradient of a norm, by PyTorch's conventions where it has none: 0 at the origin.
void norm_grad(Backward& b) {
  const double p = b.number(1);
  const Tensor x = b.in(0);
  const uint32_t bits = dims_of(b, 2, x.rank());
  const Tensor g = unreduce(b.g(), x.shape(), bits), y = unreduce(b.out(), x.shape(), bits);
  if (p == 0) {
    b.set(0, op<"zeros_like">(x));
  } else if (p == 1) {
    b.set(0, g * op<"sgn">(x));
  } else if (p == 2) {
    // Where the norm is 0, its gradient is taken as 0; there is no second one, and this has none.
    const Tensor zero = fn::eq(y, 0);
    b.set(0, mode.grad ? g * op<"masked_fill">(x / y, zero, 0)
                       : x * op<"masked_fill">(g / y, zero, 0));
  } else if (std::isinf(p)) {
    const Tensor mask = fn::eq(op<"abs">(x), y);
    const Tensor count = op<"sum">(mask, dim_list(bits, x.rank()), true);
    b.set(0, g / count * mask * op<"sgn">(x));
  } else {
    const Tensor slope = fn::pow(op<"abs">(x), p - 1) * op<"sgn">(x);
    const Tensor still = p < 1 ? op<"masked_fill">(slope, fn::eq(x, 0), 0) : slope;
    b.set(0, still * op<"masked_fill">(g / fn::pow(y, p - 1), fn::eq(y, 0), 0));
  }
}

void distance_grad(Backward& b) {
  const Tensor x = b.in(0);
  const uint32_t bits = dims_of(b, 2, x.rank());
  b.set(0, distance_slope(unreduce(b.g(), x.shape(), bits), x, unreduce(b.out(), x.shape(), bits),
                          b.number(1)));
}

void norm_shape(Call& c) {
  const Tensor& x = c.tensor(0);
  const DType t = c.dtype(4, x.dtype());
  if (!is_floating(x.dtype()) || !is_floating(t))
    fail(Kind::DType,
         format("vector_norm: takes floating point numbers, not %s",
                dtype_name(is_floating(t) ? x.dtype() : t)),
         "x:float()");
  if (c.number(1) < 0 || std::isinf(c.number(1)))
    check_not_empty("vector_norm", x, dim_bits(c, 2, x.rank()));
  add_reduced(c, 2, c.flag(3), t);
}

const Op& distance =
    add_op({.name = "distance",
            .args = "self, ord: number = 2, dim: dims?, keepdim: bool = false, dtype: dtype?",
            .doc = "The p-norm of differences over dimensions.",
            .where = kHidden,
            .amp = Amp::F32Cuda,
            .saves = "self, out",
            .shape = norm_shape,
            .grad = distance_grad,
            .samples = [](Samples& s) {
              s.add({s.normal({3, 4}), 2, s.ints({1})});
              s.add({s.uniform({3, 4}, 0.5, 2), 1.5, s.ints({1})});
              s.add({s.normal({3, 4}), __builtin_inf(), s.ints({1})});
            }});

const Op& vector_norm = add_op(
    {.name = "vector_norm",
     .args = "self, ord: number = 2, dim: dims?, keepdim: bool = false, dtype: dtype?",
     .doc = "The p-norm over dimensions: sum(abs(x)^ord)^(1/ord); ord may be 0, inf or -inf.",
     .where = kLinalg,
     .amp = Amp::F32Cuda,
     .saves = "self, out",
     .see = "norm",
     .rule = "any shape -> []; with dim [.., n, ..] -> [.., ..] (keepdim: [.., 1, ..])",
     .example = "torch.linalg.vector_norm(torch.tensor{3.0, 4.0}) --> f32 []  5",
     .shape = norm_shape,
     .grad = norm_grad,
     .samples = [](Samples& s) {
       s.add({s.normal({3, 4})});
       s.add({s.normal({3, 4}), 1, s.ints({0})});
       s.add({s.normal({2, 3, 4}), 3, s.ints({0, 2}), true});
       s.add({s.uniform({3, 4}, 0.5, 2), 0.5, s.ints({1})});
       s.add({s.normal({3, 4}), __builtin_inf(), s.ints({1})});
       s.add({s.normal({3, 4}), -__builtin_inf()});
       s.add({s.normal({3, 4}), 0, s.ints({1})}, false);
     }});

const Op& norm =
    add_op({.name = "norm",
            .args = "self, p: number? = 2, dim: dims?, keepdim: bool = false, dtype: dtype?",
            .doc = "The p-norm over all dimensions or the named ones.",
            .see = "linalg.vector_norm",
            .rule = "any shape -> []; with dim [.., n, ..] -> [.., ..] (keepdim: [.., 1, ..])",
            .example = "torch.tensor{3.0, 4.0}:norm() --> f32 []  5\n"
                       "torch.tensor{{3.0, 4.0}, {0.0, 1.0}}:norm(1, 2) --> f32 [2]  7 1",
            .compose =
                [](Call& c) {
                  const Value p = c.has(1) ? c.arg[1] : Value(2);
                  become<"vector_norm">(c, c.tensor(0), p, c.arg[2], c.arg[3], c.arg[4]);
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3, 4})});
                  s.add({s.normal({3, 4}), 1, s.ints({0}), true});
                }});

const Op& logsumexp =
    add_op({.name = "logsumexp",
            .args = "self, dim: dims, keepdim: bool = false",
            .doc = "log(sum(exp(x))) along dimensions, without overflow.",
            .amp = Amp::F32Cuda,
            .saves = "self, out",
            .see = "logcumsumexp, log_softmax",
            .rule = "[.., n, ..] -> [.., ..] (keepdim: [.., 1, ..])",
            .example = "torch.tensor{0.0, 0.0}:logsumexp(1) --> f32 []  0.69315",
            .shape =
                [](Call& c) {
                  const DType t = c.tensor(0).dtype();
                  add_reduced(c, 1, c.flag(2), is_floating(t) ? t : default_dtype());
                },
            .run =
                [](Call& c) {
                  Tensor x = c.tensor(0);
                  const Tensor& out = c.out[0];
                  const uint32_t bits = dim_bits(c, 1, x.rank());
                  const Sizes dims = dim_list(bits, x.rank());
                  const DType wide =
                      out.dtype() == DType::Float64 ? DType::Float64 : DType::Float32;
                  x = op<"to.dtype">(x, wide);
                  if (x.numel() == 0) {
                    copy_raw(out, filled({}, -__builtin_inf(), out.dtype(), out.device()));
                    return;
                  }
                  Tensor top = op<"amax">(x, dims, true);
                  top = op<"masked_fill">(top, op<"isinf">(top), 0);
                  const Tensor y = fn::log(op<"sum">(fn::exp(x - top), dims, true)) + top;
                  copy_raw(out, op<"reshape">(y, out.shape()));
                },
            .grad =
                [](Backward& b) {
                  const Tensor x = b.in(0);
                  const uint32_t bits = dims_of(b, 1, x.rank());
                  const Tensor y = unreduce(b.out(), x.shape(), bits);
                  b.set(0, unreduce(b.g(), x.shape(), bits) * fn::exp(x - y));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3, 4}), s.ints({1})});
                  s.add({s.normal({2, 3, 4}), s.ints({0, 2}), true});
                  s.add({s.integers({3, 4}, -3, 3), s.ints({0})});
                }});

BATCH("var", by_dims);
BATCH("std", by_dims);
BATCH("vector_norm", by_dims);

}  // namespace
}  // namespace tycho
