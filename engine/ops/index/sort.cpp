// Sorting and selecting by rank: sort, argsort, topk, kthvalue, median, mode, quantile. nan counts
// as the largest; positions in the results count from 1.

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/index/select.h"
#include "engine/ops/reduce/reduce.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

// As in PyTorch, where booleans have no median and no largest few.
void refuse_bool(const char* name, const Tensor& x) {
  if (x.dtype() == DType::Bool)
    fail(Kind::DType, format("%s: takes numbers, not bool", name), "x:int()");
}

const Op& sort = add_op(
    {.name = "sort",
     .args = "self, dim: dim = -1, descending: bool = false, stable: bool = false",
     .doc = "The elements in ascending (or descending) order along a dimension, and the positions "
            "they come from; equal ones keep their order.",
     .saves = "out2",
     .see = "argsort, msort, topk",
     .rule = "[.., n, ..] -> values [.., n, ..], positions [.., n, ..]",
     .example = "v, i = torch.tensor{30, 10, 20}:sort()\n"
                "v --> i64 [3]  10 20 30\n"
                "i --> i64 [3]  2 3 1",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           wrap_dim(c.integer(1), x.rank());
           c.out.push_back(empty(x.shape(), x.dtype(), x.device()));
           c.out.push_back(empty(x.shape(), DType::Int64, x.device()));
         },
     .grad =
         [](Backward& b) {
           b.set(0, to_selected(b.g(), b.out(1), b.shape(0), b.integer(1), true));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({7})});
           s.add({s.normal({3, 5}), 0, true});
           s.add({s.normal({2, 700}), 1}, false);  // neighbours lie closer than a difference step
           s.add({s.integers({20}, -3, 3)});
           s.add({s.normal({})});
           s.add({s.normal({2, 0})});
         }});

const Op& argsort =
    add_op({.name = "argsort",
            .args = "self, dim: dim = -1, descending: bool = false, stable: bool = false",
            .doc = "The positions that put the elements in order along a dimension.",
            .see = "sort",
            .rule = "[.., n, ..] -> [.., n, ..]",
            .example = "torch.tensor{30, 10, 20}:argsort() --> i64 [3]  2 3 1",
            .compose =
                [](Call& c) {
                  NoGrad quiet;
                  c.out.push_back(ops<"sort">(c.tensor(0), c.arg[1], c.arg[2], c.arg[3])[1]);
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({7})}, false);
                  s.add({s.integers({3, 5}, 0, 3), 0, true}, false);
                }});

const Op& msort = add_op({.name = "msort",
                          .args = "self",
                          .doc = "The elements in ascending order along the first dimension.",
                          .see = "sort",
                          .rule = "[n, ..] -> [n, ..]",
                          .example = "torch.tensor{3, 1, 2}:msort() --> i64 [3]  1 2 3",
                          .compose = [](Call& c) { c.out.push_back(op<"sort">(c.tensor(0), 0)); },
                          .samples =
                              [](Samples& s) {
                                s.add({s.normal({4, 3})});
                              }});

const Op& topk = add_op(
    {.name = "topk",
     .args = "self, k: int, dim: dim = -1, largest: bool = true, sorted: bool = true",
     .doc = "The k largest (or smallest) elements along a dimension in order, and their positions.",
     .saves = "out2",
     .see = "sort, kthvalue, max",
     .rule = "[.., n, ..], k -> values [.., k, ..], positions [.., k, ..]",
     .example = "v, i = torch.tensor{3, 1, 4, 1, 5}:topk(2)\n"
                "v --> i64 [2]  5 4\n"
                "i --> i64 [2]  5 3",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           refuse_bool("topk", x);
           const int d = wrap_dim(c.integer(2), x.rank());
           const int64_t k = c.integer(1), n = x.rank() ? x.size(d) : 1;
           TYCHO_CHECK(
               Kind::Index, k >= 0 && k <= n, "topk: k = %lld, but dimension %d has %lld element%s",
               static_cast<long long>(k), d + 1, static_cast<long long>(n), n == 1 ? "" : "s");
           Sizes shape = x.shape();
           if (x.rank()) shape[d] = k;
           c.out.push_back(empty(shape, x.dtype(), x.device()));
           c.out.push_back(empty(shape, DType::Int64, x.device()));
         },
     .grad =
         [](Backward& b) {
           b.set(0, to_selected(b.g(), b.out(1), b.shape(0), b.integer(2), true));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({9}), 3});
           s.add({s.normal({3, 5}), 2, 0, false});
           s.add({s.normal({2, 900}), 4, 1});
           s.add({s.integers({20}, -3, 3), 5});
         }});

// One element per line along `dim`.
void one_shape(Call& c, int dim_arg, int keepdim_arg) {
  const Tensor& x = c.tensor(0);
  const uint32_t bits = one_dim(c.integer(dim_arg), x.rank());
  check_not_empty(c.op->name, x, bits);
  const Sizes shape = reduced_shape(x.shape(), bits, c.flag(keepdim_arg));
  c.out.push_back(empty(shape, x.dtype(), x.device()));
  c.out.push_back(empty(shape, DType::Int64, x.device()));
}
template <int dim_arg>
void one_grad(Backward& b) {
  b.set(0, to_selected(b.g(), b.out(1), b.shape(0), b.integer(dim_arg), b.flag(dim_arg + 1)));
}

const Op& kthvalue = add_op(
    {.name = "kthvalue",
     .args = "self, k: int, dim: dim = -1, keepdim: bool = false",
     .doc = "The k-th smallest element along a dimension (the smallest is k = 1) and its position.",
     .saves = "out2",
     .see = "topk, median, quantile",
     .rule = "[.., n, ..] -> value [.., ..], position [.., ..]",
     .example = "v, i = torch.tensor{30, 10, 20}:kthvalue(2)\n"
                "v --> i64 []  20\n"
                "i --> i64 []  3",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           const int d = wrap_dim(c.integer(2), x.rank());
           const int64_t k = c.integer(1), n = x.rank() ? x.size(d) : 1;
           TYCHO_CHECK(Kind::Index, k >= 1 && k <= n,
                       "kthvalue: k = %lld, but dimension %d has %lld element%s",
                       static_cast<long long>(k), d + 1, static_cast<long long>(n),
                       n == 1 ? "" : "s");
           one_shape(c, 2, 3);
         },
     .grad = one_grad<2>,
     .samples =
         [](Samples& s) {
           s.add({s.normal({9}), 3});
           s.add({s.normal({3, 5}), 2, 0, true});
         }});

void line_samples(Samples& s) {
  s.add({s.normal({9}), 0});
  s.add({s.normal({3, 5}), 1});
  s.add({s.normal({3, 6}), 0, true});
  s.add({s.normal({}), 0});
}

const Op& median_dim =
    add_op({.name = "median.dim",
            .args = "self, dim: dim, keepdim: bool = false",
            .doc = "The median along a dimension (the lower one of two) and its position.",
            .saves = "out2",
            .see = "nanmedian, quantile, kthvalue",
            .rule = "[.., n, ..] -> value [.., ..], position [.., ..]",
            .example = "v, i = torch.tensor{{5, 1, 3}}:median(2)\n"
                       "v --> i64 [1]  3\n"
                       "i --> i64 [1]  3",
            .shape = [](Call& c) { one_shape(c, 1, 2); },
            .grad = one_grad<1>,
            .samples = line_samples});

const Op& nanmedian_dim = add_op(
    {.name = "nanmedian.dim",
     .args = "self, dim: dim, keepdim: bool = false",
     .doc = "The median of the elements that are not nan along a dimension, and its position.",
     .saves = "out2",
     .see = "median",
     .rule = "[.., n, ..] -> value [.., ..], position [.., ..]",
     .example = "v, i = torch.tensor{1.0, 0/0, 3.0}:nanmedian(1)\n"
                "i --> i64 []  1",
     .shape = [](Call& c) { one_shape(c, 1, 2); },
     .grad = one_grad<1>,
     .samples = line_samples});

void whole_shape(Call& c) {
  refuse_bool(c.op->name, c.tensor(0));
  c.out.push_back(empty({}, c.tensor(0).dtype(), c.tensor(0).device()));
}
void whole_median(Call& c, bool skip_nan) {
  const Tensor& x = c.tensor(0);
  if (x.numel() == 0) {  // as PyTorch: nan, or the smallest integer
    const double none = is_floating(x.dtype()) ? __builtin_nan("") : -0x1p63;
    return copy_raw(c.out[0], filled({}, none, x.dtype(), x.device()));
  }
  const Tensor flat = op<"reshape">(x, Sizes{-1});
  copy_raw(c.out[0], skip_nan ? op<"nanmedian.dim">(flat, 0) : op<"median.dim">(flat, 0));
}
void whole_grad(Backward& b) {
  const Tensor x = b.in(0);
  b.set(0, share_among_equal(b.g(), x, b.out(), (1u << x.rank()) - 1, true));
}
void whole_samples(Samples& s) {
  s.add({s.normal({9})});
  s.add({s.normal({3, 4})});
}

const Op& median = add_op({.name = "median",
                           .args = "self",
                           .doc = "The median of all elements (the lower one of two).",
                           .saves = "self, out",
                           .see = "nanmedian, quantile",
                           .rule = "any shape -> []",
                           .example = "torch.tensor{5, 1, 3}:median() --> i64 []  3",
                           .shape = whole_shape,
                           .run = [](Call& c) { whole_median(c, false); },
                           .grad = whole_grad,
                           .samples = whole_samples});

const Op& nanmedian = add_op({.name = "nanmedian",
                              .args = "self",
                              .doc = "The median of the elements that are not nan.",
                              .saves = "self, out",
                              .see = "median",
                              .rule = "any shape -> []",
                              .example = "torch.tensor{1.0, 0/0, 3.0}:nanmedian() --> f32 []  1",
                              .shape = whole_shape,
                              .run = [](Call& c) { whole_median(c, true); },
                              .grad = whole_grad,
                              .samples = whole_samples});

const Op& mode = add_op(
    {.name = "mode",
     .args = "self, dim: dim = -1, keepdim: bool = false",
     .doc = "The most frequent element along a dimension (the smallest of several), and where.",
     .saves = "out2",
     .see = "median, unique",
     .rule = "[.., n, ..] -> value [.., ..], position [.., ..]",
     .example = "v, i = torch.tensor{7, 2, 2}:mode()\n"
                "v --> i64 []  2",
     .shape = [](Call& c) { one_shape(c, 1, 2); },
     .grad = one_grad<1>,
     .samples =
         [](Samples& s) {
           s.add({s.normal({9})});
           s.add({s.integers({3, 9}, 0, 3), 1, true});
         }});

BATCH("sort", by_dims);
BATCH("topk", by_dims);

}  // namespace
}  // namespace tycho
