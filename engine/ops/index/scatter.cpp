// gather, scatter and their reductions: along one dimension, element by element.
#include <cstring>
#include <string>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/index/index.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

// Checks the index against the tensor (and the source): as many dimensions, and no larger apart
// from `dim`. Empty indices of any rank and dtype are allowed, as in PyTorch; they have no
// gradient.
void check_shapes(Call& c, int source) {
  const Tensor &x = c.tensor(0), &index = c.tensor(2);
  const int d = wrap_dim(c.integer(1), x.rank());
  const char* name = c.op->name;
  c.arg[1] = Value(static_cast<int64_t>(d));
  if (index.numel() == 0) {
    if (is_floating(index.dtype())) c.set(2, empty(index.shape(), DType::Int64, index.device()));
    return;
  }
  check_index_type(name, index);
  const auto rank = [](const Tensor& t) { return t.rank() ? t.rank() : 1; };
  const auto size = [](const Tensor& t, int k) { return t.rank() ? t.size(k) : 1; };
  TYCHO_CHECK(Kind::Shape, rank(index) == rank(x),
              "%s: the index (%s) needs as many dimensions as the tensor (%s)", name,
              to_string(index.shape()).c_str(), to_string(x.shape()).c_str());
  const Tensor src = source ? c.tensor(source) : Tensor();
  if (src)
    TYCHO_CHECK(Kind::Shape, rank(index) == rank(src),
                "%s: the index (%s) needs as many dimensions as the source (%s)", name,
                to_string(index.shape()).c_str(), to_string(src.shape()).c_str());
  for (int k = 0; k < rank(index); ++k) {
    TYCHO_CHECK(Kind::Shape, k == d || size(index, k) <= size(x, k),
                "%s: the index (%s) is larger than the tensor (%s) in dimension %d", name,
                to_string(index.shape()).c_str(), to_string(x.shape()).c_str(), k + 1);
    TYCHO_CHECK(Kind::Shape, !src || size(index, k) <= size(src, k),
                "%s: the index (%s) is larger than the source (%s) in dimension %d", name,
                to_string(index.shape()).c_str(), to_string(src.shape()).c_str(), k + 1);
  }
  if (src)
    TYCHO_CHECK(Kind::DType, x.dtype() == src.dtype(), "%s: the tensor is %s, the source %s", name,
                dtype_name(x.dtype()), dtype_name(src.dtype()));
}

// The gradient for a source of shape `want`, which may be larger than the index: zeros beyond.
Tensor gathered(const Tensor& g, int64_t dim, const Tensor& index, const Sizes& want) {
  const Tensor part = op<"gather">(g, dim, index);
  if (part.shape() == want) return part;
  Tensor whole = zeros_for(part, want), corner = whole;
  if (part.numel() == 0) return whole;  // an empty index may have any rank
  for (int d = 0; d < want.n; ++d) corner = op<"narrow">(corner, d, 0, index.size(d));
  op_<"copy">(corner, part);
  return whole;
}

const Op& gather = add_op(
    {.name = "gather",
     .args = "self, dim: dim, index, sparse_grad: bool = false",
     .doc = "For each place of the index, the element at that place with the index's value as "
            "position along `dim`.",
     .saves = "index",
     .see = "scatter, index_select, take_along_dim",
     .rule = "[.., n, ..], index [.., k, ..] -> [.., k, ..]",
     .example = "torch.tensor{{1, 2}, {3, 4}}:gather(2, torch.tensor{{2}, {1}}) --> i64 [2, 1]\n"
                " 2\n"
                " 3",
     .shape =
         [](Call& c) {
           check_shapes(c, 0);
           c.out.push_back(empty(c.tensor(2).shape(), c.tensor(0).dtype(), c.tensor(0).device()));
         },
     .grad =
         [](Backward& b) {
           Tensor z = zeros_for(b.g(), b.shape(0));
           op_<"scatter_add">(z, b.integer(1), b.in(2), b.g());
           b.set(0, z);
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({4, 3}), 0, s.integers({2, 3}, 1, 4)});
           s.add({s.normal({4, 3}), 1, s.integers({4, 5}, 1, 3)});
           s.add({s.normal({2, 3, 4}), 1, s.integers({2, 2, 3}, 1, 3, DType::Int32)});
           s.add({s.normal({}), 0, s.of({}, {1}, DType::Int64)});
         }});

const Op& scatter = add_op(
    {.name = "scatter_source",
     .args = "self, dim: dim, index, src",
     .doc = "The tensor with the source's elements written at positions along one dimension.",
     .where = kHidden,
     .inplace = Inplace::Direct,
     .saves = "index",
     .shape =
         [](Call& c) {
           check_shapes(c, 3);
           changed_shape(c);
         },
     .grad =
         [](Backward& b) {
           if (b.needs(0)) b.set(0, op<"scatter.value">(b.g(), b.integer(1), b.in(2), 0));
           if (b.needs(3)) b.set(3, gathered(b.g(), b.integer(1), b.in(2), b.shape(3)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({4, 3}), 0, s.of({2, 3}, {1, 2, 3, 4, 1, 1}, DType::Int64),
                  s.normal({2, 3})});
           s.add({s.normal({2, 5}), 1, s.of({2, 2}, {5, 1, 3, 4}, DType::Int64), s.normal({3, 3})});
         }});

const Op& scatter_value = add_op(
    {.name = "scatter_number",
     .args = "self, dim: dim, index, value: number",
     .doc = "The tensor with one number written at positions along one dimension.",
     .where = kHidden,
     .inplace = Inplace::Direct,
     .saves = "index",
     .shape =
         [](Call& c) {
           check_shapes(c, 0);
           changed_shape(c);
         },
     .grad = [](Backward& b) { b.set(0, op<"scatter.value">(b.g(), b.integer(1), b.in(2), 0)); },
     .samples =
         [](Samples& s) {
           s.add({s.normal({4, 3}), 0, s.integers({2, 3}, 1, 4), 2.5});
         }});

// PyTorch's scatter has the older forms of reduction too.
Tensor source_of(const Call& c) {
  if (c.arg[3].tag == Tag::Tensor) return c.tensor(3);
  const Tensor v =
      c.arg[3].tag == Tag::Int ? number_tensor(c.arg[3].i) : number_tensor(c.number(3));
  Tensor there = empty(Sizes(), c.tensor(0).dtype(), c.tensor(0).device());
  copy_raw(there, v);
  return op<"expand">(there, c.tensor(2).shape());
}
void scatter_forms(Call& c) {
  const Tensor x = c.tensor(0);
  const bool value = c.arg[3].tag != Tag::Tensor;
  if (c.has(4)) {
    const char* reduce = c.string(4);
    const bool add = !std::strcmp(reduce, "add");
    TYCHO_CHECK(Kind::Value, add || !std::strcmp(reduce, "multiply"),
                "scatter: reduce is \"add\" or \"multiply\", not \"%s\"", reduce);
    const Tensor src = source_of(c);
    const char* how = add ? "sum" : "prod";
    if (c.inplace) op_<"scatter_reduce">(x, c.integer(1), c.tensor(2), src, how, true);
    c.out.push_back(c.inplace ? x
                              : op<"scatter_reduce">(x, c.integer(1), c.tensor(2), src, how, true));
  } else if (value) {
    if (c.inplace) op_<"scatter_number">(x, c.integer(1), c.tensor(2), c.arg[3]);
    c.out.push_back(c.inplace ? x : op<"scatter_number">(x, c.integer(1), c.tensor(2), c.arg[3]));
  } else {
    if (c.inplace) op_<"scatter_source">(x, c.integer(1), c.tensor(2), c.tensor(3));
    c.out.push_back(c.inplace ? x
                              : op<"scatter_source">(x, c.integer(1), c.tensor(2), c.tensor(3)));
  }
}
const Op& scatter_op = add_op(
    {.name = "scatter",
     .args = "self, dim: dim, index, src, reduce: string?",
     .doc = "The tensor with the source's elements written at positions along one dimension.",
     .inplace = Inplace::Direct,
     .see = "gather, scatter_add, index_copy",
     .rule = "[.., n, ..], index [.., k, ..], src [.., k, ..] -> [.., n, ..]",
     .example =
         "torch.zeros(3):scatter(1, torch.tensor{3, 1}, torch.tensor{5.0, 6.0}) --> f32 [3]  6 0 5",
     .compose = scatter_forms,
     .samples = [](Samples& s) {
       s.add(
           {s.normal({4, 3}), 0, s.of({2, 3}, {1, 2, 3, 4, 1, 1}, DType::Int64), s.normal({2, 3})});
       s.add({s.normal({4, 3}), 1, s.integers({4, 5}, 1, 3), s.normal({4, 5}), "add"});
       s.add({s.normal({4, 3}), 1, s.integers({4, 5}, 1, 3), s.normal({4, 5}), "multiply"});
     }});
const Op& scatter_value_op =
    add_op({.name = "scatter.value",
            .args = "self, dim: dim, index, value: number, reduce: string?",
            .doc = "The tensor with one number written at positions along one dimension.",
            .inplace = Inplace::Direct,
            .see = "one_hot",
            .rule = "[.., n, ..], index [.., k, ..] -> [.., n, ..]",
            .example = "torch.zeros(2, 3):scatter(2, torch.tensor{{1}, {3}}, 1) --> f32 [2, 3]\n"
                       " 1  0  0\n"
                       " 0  0  1",
            .compose = scatter_forms,
            .samples = [](Samples& s) {
              s.add({s.normal({4, 3}), 0, s.integers({2, 3}, 1, 4), 2.5});
              s.add({s.normal({4, 3}), 0, s.integers({2, 3}, 1, 4), 2.5, "add"});
            }});

const Op& scatter_add =
    add_op({.name = "scatter_add",
            .args = "self, dim: dim, index, src",
            .doc = "The tensor with the source's elements added at positions along one dimension.",
            .inplace = Inplace::Direct,
            .saves = "index",
            .see = "scatter, index_add",
            .rule = "[.., n, ..], index [.., k, ..], src [.., k, ..] -> [.., n, ..]",
            .example = "torch.zeros(3):scatter_add(1, torch.tensor{1, 1, 3}, torch.tensor{5.0, "
                       "6.0, 7.0}) --> f32 [3]  11 0 7",
            .shape =
                [](Call& c) {
                  check_shapes(c, 3);
                  changed_shape(c);
                },
            .grad =
                [](Backward& b) {
                  if (b.needs(0)) b.set(0, b.g());
                  if (b.needs(3)) b.set(3, gathered(b.g(), b.integer(1), b.in(2), b.shape(3)));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({4, 3}), 0, s.integers({5, 3}, 1, 4), s.normal({5, 3})});
                  s.add({s.normal({4, 3}), 1, s.integers({2, 2}, 1, 3), s.normal({3, 4})});
                  s.add({s.normal({2, 3, 4}), 1, s.integers({2, 2, 3}, 1, 3), s.normal({2, 2, 3})});
                }});

void scatter_reduce_grad(Backward& b) {
  const int64_t dim = b.integer(1);
  const Tensor index = b.in(2), g = b.g();
  const std::string how = b.string(4);
  const bool include = b.flag(5);
  // Where the index points, the tensor's own elements count only when they are included.
  const auto own = [&](const Tensor& t) {
    return include ? t : op<"scatter.value">(t, dim, index, 0);
  };
  const auto back = [&](const Tensor& t) { return gathered(t, dim, index, b.in(3).shape()); };
  if (how == "sum") {
    if (b.needs(0)) b.set(0, own(g));
    if (b.needs(3)) b.set(3, back(g));
    return;
  }
  const Tensor x = b.in(0), src = b.in(3);
  if (how == "mean") {
    const Tensor count =
        op<"scatter_add">(own(op<"ones_like">(x)), dim, index, op<"ones_like">(src));
    const Tensor share = g / count;
    if (b.needs(0)) b.set(0, own(share));
    if (b.needs(3)) b.set(3, back(share));
  } else if (how == "prod") {
    // An element's derivative is the product of the other factors: the result over the element,
    // or, where the element is the only 0, the product with a 1 in its place.
    if (b.needs(0)) {
      const Tensor x_or_1 = op<"masked_fill">(x, fn::eq(x, 0), 1);
      b.set(0, own(g * op<"scatter_reduce">(x_or_1, dim, index, src, "prod", include) / x_or_1));
    }
    if (b.needs(3)) {
      const Tensor is_0 = op<"to.dtype">(fn::eq(src, 0), src.dtype());
      const Tensor zeros = op<"scatter_add">(op<"zeros_like">(x), dim, index, is_0);
      const Tensor alone = is_0 * fn::eq(back(zeros), 1);
      const Tensor others = op<"masked_fill">(src, fn::eq(alone, 1), 1);
      const Tensor without = op<"scatter_reduce">(x, dim, index, others, "prod", include);
      b.set(3, alone * back(g * without) + (1 - alone) * (back(g * b.out()) / (src + is_0)));
    }
  } else {  // amax, amin: shared equally by all that equal the result
    const Tensor y = b.out();
    const Tensor mine = own(op<"to.dtype">(fn::eq(x, y), g.dtype()));
    const Tensor hit = op<"to.dtype">(fn::eq(src, back(y)), g.dtype());
    const Tensor share = g / fn::maximum(op<"scatter_add">(mine, dim, index, hit), 1);
    if (b.needs(0)) b.set(0, share * mine);
    if (b.needs(3)) b.set(3, hit * back(share));
  }
}

const Op& scatter_reduce = add_op(
    {.name = "scatter_reduce",
     .args = "self, dim: dim, index, src, reduce: string, include_self: bool = true",
     .doc = "The tensor with the source's elements combined into it at positions along one "
            "dimension: sum, prod, mean, "
            "amax or amin.",
     .inplace = Inplace::Direct,
     .saves = "self, index, src, out",
     .see = "scatter_add",
     .rule = "[.., n, ..], index [.., k, ..], src [.., k, ..] -> [.., n, ..]",
     .example = "torch.zeros(2):scatter_reduce(1, torch.tensor{1, 1, 2}, torch.tensor{5.0, 6.0, "
                "7.0}, \"amax\") --> f32 [2]  6 7",
     .shape =
         [](Call& c) {
           const std::string how = c.string(4);
           TYCHO_CHECK(
               Kind::Value,
               how == "sum" || how == "prod" || how == "mean" || how == "amax" || how == "amin",
               "scatter_reduce: reduce is \"sum\", \"prod\", \"mean\", \"amax\" or \"amin\", not "
               "\"%s\"",
               how.c_str());
           check_shapes(c, 3);
           changed_shape(c);
         },
     .grad = scatter_reduce_grad,
     .samples =
         [](Samples& s) {
           for (const char* how : {"sum", "prod", "mean", "amax", "amin"}) {
             s.add({s.normal({4, 3}), 0, s.integers({5, 3}, 1, 4), s.normal({5, 3}), how});
             s.add({s.normal({4, 3}), 1, s.integers({4, 2}, 1, 3), s.normal({4, 2}), how, false});
           }
         }});

const Op& index_reduce = add_op(
    {.name = "index_reduce",
     .args = "self, dim: dim, index, source, reduce: string, include_self: bool = true",
     .doc = "The tensor with the source's parts combined into it at given positions along one "
            "dimension: prod, mean, amax or amin.",
     .inplace = Inplace::Copy,
     .see = "index_add, scatter_reduce",
     .rule = "[.., n, ..], index [k], [.., k, ..] -> [.., n, ..]",
     .example = "torch.tensor{1, 2}:index_reduce(1, torch.tensor{1, 1}, torch.tensor{5, 7}, "
                "\"amax\") --> i64 [2]  7 2",
     .compose =
         [](Call& c) {
           const Tensor &x = c.tensor(0), &index = c.tensor(2), &source = c.tensor(3);
           const int d = wrap_dim(c.integer(1), x.rank());
           check_index_type("index_reduce", index);
           TYCHO_CHECK(Kind::Shape,
                       index.rank() <= 1 && source.rank() == x.rank() &&
                           index.numel() == (source.rank() ? source.size(d) : 1),
                       "index_reduce: the index (%s) names one position for each part of the "
                       "source (%s) along dimension %d",
                       to_string(index.shape()).c_str(), to_string(source.shape()).c_str(), d + 1);
           const std::string how = c.string(4);
           TYCHO_CHECK(Kind::Value, how != "sum",
                       "index_reduce: reduce is \"prod\", \"mean\", \"amax\" or \"amin\", not "
                       "\"sum\"; use index_add");
           Sizes shape;
           for (int k = 0; k < source.rank(); ++k) shape.push_back(k == d ? index.numel() : 1);
           const Tensor wide = op<"expand">(op<"reshape">(index, shape), source.shape());
           c.out.push_back(op<"scatter_reduce">(x, d, wide, source, c.arg[4], c.arg[5]));
         },
     .samples =
         [](Samples& s) {
           for (const char* how : {"prod", "mean", "amax", "amin"})
             s.add({s.normal({4, 3}), 0, s.integers({5}, 1, 4), s.normal({5, 3}), how});
           s.add({s.normal({2, 3}), 1, s.integers({4}, 1, 3), s.normal({2, 4}), "mean", false});
         }});

BATCH("gather", by_dims);
BATCH("scatter_add", by_dims);

}  // namespace
}  // namespace tycho
