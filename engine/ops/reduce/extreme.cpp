// The largest and smallest elements, and where they are. nan counts as larger and as smaller than
// every number; among equals the first position is given.
#include <cmath>

#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/index/select.h"
#include "engine/ops/reduce/reduce.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/read.h"

namespace tycho {

Tensor share_among_equal(const Tensor& g, const Tensor& x, const Tensor& value, uint32_t bits,
                         bool whole) {
  const Tensor v = unreduce(value, x.shape(), bits);
  // As PyTorch: max() of nan takes the elements that are nan, amax() has no gradient but nan there.
  const bool nan = whole && std::isnan(item(value));
  const Tensor mask = nan ? op<"isnan">(x) : fn::eq(x, v);
  const Tensor count = op<"sum">(mask, dim_list(bits, x.rank()), true);
  return unreduce(g, x.shape(), bits) / count * mask;
}

Tensor to_selected(const Tensor& g, const Tensor& positions, const Sizes& shape, int64_t dim,
                   bool keepdim) {
  if (shape.n == 0) return op<"reshape">(g, shape);
  const Tensor zeros = filled(shape, 0, g.dtype(), g.device());
  if (keepdim) return op<"scatter_add">(zeros, dim, positions, g);
  const int d = wrap_dim(dim, shape.n);
  return op<"scatter_add">(zeros, d, op<"unsqueeze">(positions, d), op<"unsqueeze">(g, d));
}

namespace {

uint32_t dims_of_both(const Call& c) {
  const int rank = c.tensor(0).rank();
  return c.has(1) ? one_dim(c.integer(1), rank) : (1u << rank) - 1;
}
void both_shape(Call& c) {
  const Tensor& x = c.tensor(0);
  const uint32_t bits = dims_of_both(c);
  if (x.numel() == 0 && !c.has(1))
    fail(Kind::Shape, "aminmax: there is nothing to choose from: the tensor is empty");
  check_not_empty("aminmax", x, bits);
  for (int k = 0; k < 2; ++k)
    c.out.push_back(empty(reduced_shape(x.shape(), bits, c.flag(2)), x.dtype(), x.device()));
}
void both_apart(Call& c) {
  const Tensor& x = c.tensor(0);
  const Sizes dims = dim_list(dims_of_both(c), x.rank());
  copy_raw(c.out[0], op<"amin">(x, dims, c.flag(2)));
  copy_raw(c.out[1], op<"amax">(x, dims, c.flag(2)));
}
void both_grad(Backward& b) {
  const Tensor x = b.in(0);
  const uint32_t bits = b.has(1) ? one_dim(b.integer(1), x.rank()) : (1u << x.rank()) - 1;
  Tensor sum;
  for (int k = 0; k < 2; ++k) {
    if (!b.has_g(k)) continue;
    const Tensor g = share_among_equal(b.g(k), x, b.out(k), bits, false);
    sum = sum ? sum + g : g;
  }
  b.set(0, sum);
}

const Op& aminmax =
    add_op({.name = "aminmax",
            .args = "self, dim: dim?, keepdim: bool = false",
            .doc = "The smallest and the largest element, overall or along a dimension.",
            .saves = "self, out, out2",
            .see = "amin, amax",
            .rule = "any shape -> min [], max []; with dim the shape without it",
            .example = "low, high = torch.tensor{4, -1, 7}:aminmax()\n"
                       "low --> i64 []  -1\n"
                       "high --> i64 []  7",
            .shape = both_shape,
            .run = both_apart,
            .grad = both_grad,
            .samples = [](Samples& s) {
              s.add({s.normal({3, 4})});
              s.add({s.normal({3, 4}), 1, true});
            }});

// max and min of everything: as amax and amin.
void whole_shape(Call& c) {
  const Tensor& x = c.tensor(0);
  check_not_empty(c.op->name, x, (1u << x.rank()) - 1);
  c.out.push_back(empty({}, x.dtype(), x.device()));
}
void whole_grad(Backward& b) {
  const Tensor x = b.in(0);
  b.set(0, share_among_equal(b.g(), x, b.out(), (1u << x.rank()) - 1, true));
}
void whole_samples(Samples& s) {
  s.add({s.normal({3, 4})});
  s.add({s.normal({})});
  s.add({s.integers({5}, -9, 9)});
}

const Op& max = add_op({.name = "max",
                        .args = "self",
                        .doc = "The largest element.",
                        .saves = "self, out",
                        .see = "amax, argmax, maximum",
                        .rule = "any shape -> []",
                        .example = "torch.tensor{3, 9, 4}:max() --> i64 []  9",
                        .shape = whole_shape,
                        .grad = whole_grad,
                        .samples = whole_samples});

const Op& min = add_op({.name = "min",
                        .args = "self",
                        .doc = "The smallest element.",
                        .saves = "self, out",
                        .see = "amin, argmin, minimum",
                        .rule = "any shape -> []",
                        .example = "torch.tensor{3, 9, 4}:min() --> i64 []  3",
                        .shape = whole_shape,
                        .grad = whole_grad,
                        .samples = whole_samples});

void with_index_shape(Call& c) {
  const Tensor& x = c.tensor(0);
  const uint32_t bits = one_dim(c.integer(1), x.rank());
  check_not_empty(c.op->name, x, bits);
  const Sizes shape = reduced_shape(x.shape(), bits, c.flag(2));
  c.out.push_back(empty(shape, x.dtype(), x.device()));
  c.out.push_back(empty(shape, DType::Int64, x.device()));
}
void with_index_grad(Backward& b) {
  b.set(0, to_selected(b.g(), b.out(1), b.shape(0), b.integer(1), b.flag(2)));
}
void with_index_samples(Samples& s) {
  s.add({s.normal({3, 4}), 1});
  s.add({s.normal({2, 3, 4}), 0, true});
  s.add({s.normal({}), 0});
  s.add({s.integers({3, 4}, 0, 3), 0});
}

const Op& max_dim = add_op({.name = "max.dim",
                            .args = "self, dim: dim, keepdim: bool = false",
                            .doc = "The largest elements along a dimension, and their positions.",
                            .saves = "out2",
                            .see = "amax, argmax, topk",
                            .rule = "[.., n, ..] -> values [.., ..], positions [.., ..]",
                            .example = "v, i = torch.tensor{{1, 9}, {5, 4}}:max(2)\n"
                                       "v --> i64 [2]  9 5\n"
                                       "i --> i64 [2]  2 1",
                            .shape = with_index_shape,
                            .grad = with_index_grad,
                            .samples = with_index_samples});

const Op& min_dim = add_op({.name = "min.dim",
                            .args = "self, dim: dim, keepdim: bool = false",
                            .doc = "The smallest elements along a dimension, and their positions.",
                            .saves = "out2",
                            .see = "amin, argmin, topk",
                            .rule = "[.., n, ..] -> values [.., ..], positions [.., ..]",
                            .example = "v, i = torch.tensor{{1, 9}, {5, 4}}:min(2)\n"
                                       "v --> i64 [2]  1 4\n"
                                       "i --> i64 [2]  1 2",
                            .shape = with_index_shape,
                            .grad = with_index_grad,
                            .samples = with_index_samples});

void two_samples(Samples& s) { s.add({s.normal({3, 4}), s.normal({4})}); }

const Op& max_other =
    add_op({.name = "max.other",
            .args = "self, other",
            .doc = "The larger of two elements, with broadcasting.",
            .see = "maximum",
            .rule = "shapes that broadcast -> the broadcast shape",
            .example = "torch.tensor{1, 5}:max(torch.tensor{3, 2}) --> i64 [2]  3 5",
            .compose = [](Call& c) { become<"maximum">(c, c.tensor(0), c.tensor(1)); },
            .samples = two_samples});

const Op& min_other =
    add_op({.name = "min.other",
            .args = "self, other",
            .doc = "The smaller of two elements, with broadcasting.",
            .see = "minimum",
            .rule = "shapes that broadcast -> the broadcast shape",
            .example = "torch.tensor{1, 5}:min(torch.tensor{3, 2}) --> i64 [2]  1 2",
            .compose = [](Call& c) { become<"minimum">(c, c.tensor(0), c.tensor(1)); },
            .samples = two_samples});

void position_shape(Call& c) {
  const Tensor& x = c.tensor(0);
  const uint32_t bits = c.has(1) ? one_dim(c.integer(1), x.rank()) : (1u << x.rank()) - 1;
  check_not_empty(c.op->name, x, bits);
  if (x.dtype() == DType::Bool)
    fail(Kind::DType, format("%s: takes numbers, not bool", c.op->name), "x:int()");
  c.out.push_back(empty(reduced_shape(x.shape(), bits, c.flag(2)), DType::Int64, x.device()));
}
void position_samples(Samples& s) {
  s.add({s.normal({3, 4})});
  s.add({s.normal({3, 4}), 1});
  s.add({s.normal({2, 3, 4}), 0, true});
  s.add({s.normal({})});
  s.add({s.integers({3, 4}, 0, 3), 0});
}

const Op& argmax = add_op(
    {.name = "argmax",
     .args = "self, dim: dim?, keepdim: bool = false",
     .doc = "Position (from 1) of the largest element along a dimension, or in the whole tensor "
            "read row by row.",
     .differentiable = false,
     .see = "max, argmin, topk",
     .rule = "any shape -> []; with dim [.., n, ..] -> [.., ..]",
     .example = "torch.tensor{3, 9, 4}:argmax() --> i64 []  2\n"
                "torch.tensor{{1, 9}, {5, 4}}:argmax(2) --> i64 [2]  2 1",
     .shape = position_shape,
     .samples = position_samples});

const Op& argmin = add_op(
    {.name = "argmin",
     .args = "self, dim: dim?, keepdim: bool = false",
     .doc = "Position (from 1) of the smallest element along a dimension, or in the whole tensor "
            "read row by row.",
     .differentiable = false,
     .see = "min, argmax, topk",
     .rule = "any shape -> []; with dim [.., n, ..] -> [.., ..]",
     .example = "torch.tensor{3, 9, 2}:argmin() --> i64 []  3",
     .shape = position_shape,
     .samples = position_samples});

BATCH("aminmax", by_dims);
BATCH("max.dim", by_dims);
BATCH("min.dim", by_dims);
BATCH("argmax", by_dims);
BATCH("argmin", by_dims);

}  // namespace
}  // namespace tycho
