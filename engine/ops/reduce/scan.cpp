// Running sums, products and extremes along a dimension; differences; the trace.

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/index/select.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/read.h"

namespace tycho {
namespace {

void sum_shape(Call& c) {
  const Tensor& x = c.tensor(0);
  wrap_dim(c.integer(1), x.rank());
  const DType t = c.dtype(2, is_floating(x.dtype()) ? x.dtype() : DType::Int64);
  c.out.push_back(empty(x.shape(), t, x.device()));
}
void same_shape(Call& c) {
  const Tensor& x = c.tensor(0);
  wrap_dim(c.integer(1), x.rank());
  c.out.push_back(empty(x.shape(), x.dtype(), x.device()));
}
void running_samples(Samples& s) {
  s.add({s.normal({5}), 0});
  s.add({s.normal({3, 20}), 1});
  s.add({s.normal({3, 4, 10}), 1});
  s.add({s.normal({}), 0});
  s.add({s.integers({2, 3}, -5, 5, DType::Int32), 0});
  s.add({s.normal({2, 0}), 1});
}

const Op& cumsum =
    add_op({.name = "cumsum",
            .args = "self, dim: dim, dtype: dtype?",
            .doc = "Running sum along a dimension.",
            .amp = Amp::F32Cuda,
            .inplace = Inplace::Copy,
            .see = "cumprod, cummax, logcumsumexp, diff",
            .rule = "[.., n, ..] -> [.., n, ..]",
            .example = "torch.tensor{1, 2, 3, 4}:cumsum(1) --> i64 [4]  1 3 6 10\n"
                       "torch.tensor{{1, 2}, {3, 4}}:cumsum(2) --> i64 [2, 2]\n"
                       " 1  3\n"
                       " 3  7",
            .shape = sum_shape,
            .grad = [](Backward& b) { b.set(0, op<"cumsum_from_end">(b.g(), b.integer(1))); },
            .samples = running_samples});

const Op& cumsum_from_end =
    add_op({.name = "cumsum_from_end",
            .args = "self, dim: dim",
            .doc = "Running sum along a dimension, from its end.",
            .where = kHidden,
            .shape = same_shape,
            .grad = [](Backward& b) { b.set(0, op<"cumsum">(b.g(), b.integer(1))); },
            .samples = running_samples});

const Op& cumprod = add_op(
    {.name = "cumprod",
     .args = "self, dim: dim, dtype: dtype?",
     .doc = "Running product along a dimension.",
     .amp = Amp::F32Cuda,
     .inplace = Inplace::Copy,
     .saves = "self",
     .see = "cumsum, prod",
     .rule = "[.., n, ..] -> [.., n, ..]",
     .example = "torch.tensor{1, 2, 3, 4}:cumprod(1) --> i64 [4]  1 2 6 24",
     .shape = sum_shape,
     .grad = [](Backward& b) { b.set(0, op<"cumprod_backward">(b.g(), b.in(0), b.integer(1))); },
     .samples =
         [](Samples& s) {
           running_samples(s);
           s.add({s.of({2, 4}, {1, 0, 2, 3, 0, 0, 1, 2}), 1});
         }});

bool has_zeros(const Tensor& x) {
  NoGrad quiet;
  return !item<bool>(op<"all">(x));
}

// Second derivatives of cumprod with zeros in x, along the last dimension: result i is the product
// of row i of a square that holds x[k] for k <= i and 1 elsewhere.
void cumprod_square_grad(const Tensor& v, const Tensor& g, const Tensor& x, Tensor* dg,
                         Tensor* dx) {
  const int64_t n = x.size(-1);
  Sizes square = x.shape();
  square.insert(square.n - 1, n);
  const Tensor line = op<"cumsum">(filled({n}, 1, DType::Int64, x.device()), 0);
  const Tensor before = op<"logical_not">(fn::gt(line, op<"unsqueeze">(line, -1)));
  const Tensor wide = op<"where">(before, op<"expand">(op<"unsqueeze">(x, -2), square), 1.0);
  const Tensor vk = op<"where">(before, op<"expand">(op<"unsqueeze">(v, -2), square), 0.0);
  if (dg) *dg = op<"sum">(vk * op<"prod_of_others">(wide, -1), Sizes{-1});
  if (!dx) return;
  // Each row's result in direction v, squared out once more: the derivative of prod_of_others.
  const Tensor weight = vk * op<"unsqueeze">(g, -1);
  const Tensor others = op<"prod_of_others_backward">(weight, wide, -1);
  *dx = op<"sum">(op<"where">(before, others, 0.0), Sizes{-2});
}

const Op& cumprod_backward = add_op(
    {.name = "cumprod_backward",
     .args = "grad, self, dim: dim",
     .doc = "The gradient of cumprod.",
     .where = kHidden,
     .saves = "grad, self",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(1);
           c.out.push_back(empty(x.shape(), promote(c.tensor(0).dtype(), x.dtype()), x.device()));
         },
     .grad =
         [](Backward& b) {
           const Tensor v = b.g(), g = b.in(0), x = b.in(1);
           const int64_t d = b.integer(2);
           if (x.rank() == 0) {  // the gradient is g itself
             if (b.needs(0)) b.set(0, v);
             if (b.needs(1)) b.set(1, op<"zeros_like">(x));
             return;
           }
           if (!has_zeros(x)) {
             const Tensor part = op<"cumsum">(v / x, d);
             if (b.needs(0)) b.set(0, op<"cumprod">(x, d) * part);
             if (b.needs(1))
               b.set(1, op<"cumprod_backward">(g * part, x, d) -
                            v * op<"cumprod_backward">(g, x, d) / x);
             return;
           }
           const auto last = [&](const Tensor& t) { return op<"transpose">(t, d, -1); };
           Tensor dg, dx;
           cumprod_square_grad(last(v), last(g), last(x), b.needs(0) ? &dg : nullptr,
                               b.needs(1) ? &dx : nullptr);
           if (dg) b.set(0, last(dg));
           if (dx) b.set(1, last(dx));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), s.normal({3, 4}), 1});
           s.add({s.normal({2, 3}), s.of({2, 3}, {1, 0, 2, 0, 0, 3}), 1});
         }});

void float_shape(Call& c) {
  const Tensor& x = c.tensor(0);
  wrap_dim(c.integer(1), x.rank());
  if (!is_floating(x.dtype()))
    fail(Kind::DType,
         format("%s: takes floating point numbers, not %s", c.op->name, dtype_name(x.dtype())),
         "x:float()");
  c.out.push_back(empty(x.shape(), x.dtype(), x.device()));
}
void float_samples(Samples& s) {
  s.add({s.normal({5}), 0});
  s.add({s.normal({3, 4, 10}), 1});
  s.add({s.normal({}), 0});
}

// The sum over i >= k of g[i] exp(x[k] - y[i]), positive and negative parts apart in logarithms.
Tensor logcumsumexp_grad(const Tensor& g, const Tensor& x, const Tensor& y, int64_t dim) {
  const auto part = [&](const Tensor& size, const Tensor& where) {
    const Tensor logs = op<"where">(where, fn::log(size), -__builtin_inf());
    return fn::exp(op<"logcumsumexp_from_end">(logs - y, dim) + x);
  };
  return part(g, fn::gt(g, 0)) - part(-g, fn::lt(g, 0));
}

const Op& logcumsumexp = add_op(
    {.name = "logcumsumexp",
     .args = "self, dim: dim",
     .doc = "log(cumsum(exp(x))) along a dimension, without overflow.",
     .amp = Amp::F32Cuda,
     .saves = "self, out",
     .see = "logsumexp, cumsum",
     .rule = "[.., n, ..] -> [.., n, ..]",
     .example = "torch.zeros(3):logcumsumexp(1) --> f32 [3]   0  0.69  1.1",
     .shape = float_shape,
     .grad =
         [](Backward& b) { b.set(0, logcumsumexp_grad(b.g(), b.in(0), b.out(), b.integer(1))); },
     .samples = float_samples});

// Its gradient is that of logcumsumexp read from the other end.
const Op& logcumsumexp_from_end =
    add_op({.name = "logcumsumexp_from_end",
            .args = "self, dim: dim",
            .doc = "logcumsumexp along a dimension, from its end.",
            .where = kHidden,
            .saves = "self, out",
            .shape = float_shape,
            .grad =
                [](Backward& b) {
                  const Tensor g = b.g(), x = b.in(0), y = b.out();
                  const int64_t d = b.integer(1);
                  const auto part = [&](const Tensor& size, const Tensor& where) {
                    // A y of -inf has no elements behind it that count.
                    const Tensor logs = op<"where">(where, fn::log(size) - y, -__builtin_inf());
                    return fn::exp(op<"logcumsumexp">(logs, d) + x);
                  };
                  const Tensor some = fn::gt(y, -__builtin_inf());
                  b.set(0, part(g, fn::gt(g * some, 0)) - part(-g, fn::lt(g * some, 0)));
                },
            .samples = float_samples});

void extreme_shape(Call& c) {
  same_shape(c);
  c.out.push_back(empty(c.tensor(0).shape(), DType::Int64, c.tensor(0).device()));
}
void extreme_grad(Backward& b) {
  b.set(0, to_selected(b.g(), b.out(1), b.shape(0), b.integer(1), true));
}
void running_extreme_samples(Samples& s) {
  s.add({s.normal({5}), 0});
  s.add({s.normal({3, 4, 10}), 1});
  s.add({s.normal({}), 0});
  s.add({s.integers({2, 3}, -5, 5), 0});
}

const Op& cummax =
    add_op({.name = "cummax",
            .args = "self, dim: dim",
            .doc = "Largest element so far along a dimension, and its (latest) position.",
            .saves = "out2",
            .see = "cummin, max",
            .rule = "[.., n, ..] -> values [.., n, ..], positions [.., n, ..]",
            .example = "v, i = torch.tensor{1, 3, 2, 5}:cummax(1)\n"
                       "v --> i64 [4]  1 3 3 5\n"
                       "i --> i64 [4]  1 2 2 4",
            .shape = extreme_shape,
            .grad = extreme_grad,
            .samples = running_extreme_samples});

const Op& cummin =
    add_op({.name = "cummin",
            .args = "self, dim: dim",
            .doc = "Smallest element so far along a dimension, and its (latest) position.",
            .saves = "out2",
            .see = "cummax, min",
            .rule = "[.., n, ..] -> values [.., n, ..], positions [.., n, ..]",
            .example = "v, i = torch.tensor{4, 3, 5, 1}:cummin(1)\n"
                       "v --> i64 [4]  4 3 3 1\n"
                       "i --> i64 [4]  1 2 2 4",
            .shape = extreme_shape,
            .grad = extreme_grad,
            .samples = running_extreme_samples});

const Op& diff = add_op(
    {.name = "diff",
     .args = "self, n: int = 1, dim: dim = -1, prepend: tensor?, append: tensor?",
     .doc = "Differences between neighbours along a dimension, n times over.",
     .see = "cumsum",
     .rule = "[.., n, ..] -> [.., n - 1, ..]",
     .example = "torch.tensor{1, 4, 9, 16}:diff() --> i64 [3]  3 5 7",
     .compose =
         [](Call& c) {
           Tensor x = c.tensor(0);
           if (x.rank() == 0)
             fail(Kind::Shape, "diff: a 0-d tensor has no neighbours", "x:reshape(1)");
           const int64_t n = c.integer(1);
           const int d = wrap_dim(c.integer(2), x.rank());
           TYCHO_CHECK(Kind::Value, n >= 0, "diff: n cannot be %lld", static_cast<long long>(n));
           if (c.has(3) || c.has(4)) {
             std::vector<Tensor> parts;
             for (int k : {3, 0, 4}) {
               if (!c.has(k)) continue;
               Tensor part = c.tensor(k);
               if (part.rank() == 0) {
                 Sizes one = x.shape();
                 one[d] = 1;
                 part = op<"expand">(part, one);
               }
               parts.push_back(part);
             }
             x = op<"cat">(parts, d);
           }
           for (int64_t k = 0; k < n; ++k) {
             const int64_t m = x.size(d);
             if (m == 0) break;
             const Tensor later = op<"narrow">(x, d, 1, m - 1),
                          earlier = op<"narrow">(x, d, 0, m - 1);
             x = x.dtype() == DType::Bool ? op<"logical_xor">(later, earlier) : later - earlier;
           }
           c.out.push_back(n == 0 ? op<"clone">(x) : x);
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({5})});
           s.add({s.normal({3, 5}), 2, 1});
           s.add({s.normal({3, 5}), 1, 0, s.normal({1, 5}), s.normal({2, 5})});
         }});

const Op& trace = add_op({.name = "trace",
                          .args = "self",
                          .doc = "Sum of the main diagonal of a matrix.",
                          .see = "diagonal",
                          .rule = "[n, m] -> []",
                          .example = "torch.tensor{{1, 2}, {3, 4}}:trace() --> i64 []  5",
                          .compose =
                              [](Call& c) {
                                const Tensor& x = c.tensor(0);
                                TYCHO_CHECK(Kind::Shape, x.rank() == 2,
                                            "trace: takes a matrix, not a tensor of shape %s",
                                            to_string(x.shape()).c_str());
                                become<"sum">(c, op<"diagonal">(x));
                              },
                          .samples =
                              [](Samples& s) {
                                s.add({s.normal({3, 4})});
                              }});

BATCH("cumsum", by_dims);
BATCH("cumprod", by_dims);

}  // namespace
}  // namespace tycho
