// Rows by position along one dimension (index_select, index_add, index_copy, index_fill), and elements
// by position in the whole tensor (take, put). An index tensor holds positions from 1.
#include <vector>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/index/index.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

// One index along one dimension. A 0-d tensor counts as one element.
int checked_dim(Call& c, const Tensor& self) {
  const Tensor& index = c.tensor(2);
  const int d = wrap_dim(c.integer(1), self.rank());
  c.arg[1] = Value(static_cast<int64_t>(d));
  check_index_type(c.op->name, index);
  TYCHO_CHECK(Kind::Shape, index.rank() <= 1,
              "%s: the index must be a list of positions (one dimension), not %s", c.op->name,
              to_string(index.shape()).c_str());
  return d;
}
Sizes with_size(const Tensor& x, int d, int64_t n) {
  Sizes s = x.shape();
  if (s.n) s[d] = n;
  return s;
}
void check_source(Call& c, int d) {
  const Tensor &x = c.tensor(0), &index = c.tensor(2), &src = c.tensor(3);
  TYCHO_CHECK(Kind::DType, x.dtype() == src.dtype(), "%s: the tensor is %s, the source %s",
              c.op->name, dtype_name(x.dtype()), dtype_name(src.dtype()));
  const Sizes want = with_size(x, d, index.numel());
  const bool one = want.n <= 1 && src.rank() <= 1 && src.numel() == index.numel();
  TYCHO_CHECK(Kind::Shape, one || src.shape() == want,
              "%s: %lld positions along dimension %d of %s need a source of shape %s, not %s",
              c.op->name, static_cast<long long>(index.numel()), d + 1,
              to_string(x.shape()).c_str(), to_string(want).c_str(),
              to_string(src.shape()).c_str());
}

const Op& index_select = add_op(
    {.name = "index_select",
     .args = "self, dim: dim, index",
     .doc = "The parts of the tensor at given positions along one dimension.",
     .saves = "index",
     .see = "gather, take",
     .rule = "[.., n, ..], index [k] -> [.., k, ..]",
     .example =
         "torch.tensor{{1, 2}, {3, 4}, {5, 6}}:index_select(1, torch.tensor{3, 1}) --> i64 [2, 2]\n"
         " 5  6\n"
         " 1  2",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           const int d = checked_dim(c, x);
           TYCHO_CHECK(Kind::Shape, x.rank() || c.tensor(2).numel() == 1,
                       "index_select: a 0-d tensor has one position, the index names %lld",
                       static_cast<long long>(c.tensor(2).numel()));
           c.out.push_back(empty(with_size(x, d, c.tensor(2).numel()), x.dtype(), x.device()));
         },
     .grad =
         [](Backward& b) {
           Tensor z = zeros_for(b.g(), b.shape(0));
           op_<"index_add">(z, b.integer(1), b.in(2), b.g());
           b.set(0, z);
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({4, 3}), 0, s.integers({5}, 1, 4)});
           s.add({s.normal({2, 3, 4}), 1, s.integers({2}, 1, 3, DType::Int32)});
           s.add({s.normal({2, 3, 4}), -1, s.integers({6}, 1, 4)});
           s.add({s.normal({}), 0, s.of({1}, {1}, DType::Int64)});
         }});

const Op& index_add = add_op(
    {.name = "index_add",
     .args = "self, dim: dim, index, source, alpha: number = 1",
     .doc = "The tensor with alpha times the source added at given positions along one dimension.",
     .inplace = Inplace::Direct,
     .fresh = true,
     .saves = "index",
     .see = "scatter_add, index_copy",
     .rule = "[.., n, ..], index [k], source [.., k, ..] -> [.., n, ..]",
     .example = "torch.zeros(3):index_add(1, torch.tensor{1, 3, 3}, torch.tensor{5.0, 1.0, 1.0}) "
                "--> f32 [3]  5 0 2",
     .shape =
         [](Call& c) {
           check_source(c, checked_dim(c, c.tensor(0)));
           TYCHO_CHECK(Kind::DType, c.arg[4].tag != Tag::Float || is_floating(c.tensor(0).dtype()),
                       "index_add: alpha %g is not whole, but the tensor is %s", c.number(4),
                       dtype_name(c.tensor(0).dtype()));
           changed_shape(c);
         },
     .grad =
         [](Backward& b) {
           if (b.needs(0)) b.set(0, b.g());
           if (b.needs(3)) {
             Tensor g = op<"index_select">(b.g(), b.integer(1), b.in(2));
             if (b.number(4) != 1) g = g * b.number(4);
             b.set(3, op<"reshape">(g, b.shape(3)));
           }
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({4, 3}), 0, s.integers({5}, 1, 4), s.normal({5, 3})});
           s.add({s.normal({2, 3, 4}), 1, s.integers({2}, 1, 3), s.normal({2, 2, 4}), 2.5});
           s.add({s.normal({5}), 0, s.integers({7}, 1, 5), s.normal({7}), -1});
         }});

const Op& index_copy = add_op(
    {.name = "index_copy",
     .args = "self, dim: dim, index, source",
     .doc = "The tensor with the source written at given positions along one dimension.",
     .inplace = Inplace::Direct,
     .fresh = true,
     .saves = "index",
     .see = "index_add, index_fill",
     .rule = "[.., n, ..], index [k], source [.., k, ..] -> [.., n, ..]",
     .example = "torch.zeros(3):index_copy(1, torch.tensor{3, 1}, torch.tensor{5.0, 6.0}) --> f32 "
                "[3]  6 0 5",
     .shape =
         [](Call& c) {
           check_source(c, checked_dim(c, c.tensor(0)));
           changed_shape(c);
         },
     .grad =
         [](Backward& b) {
           if (b.needs(0)) b.set(0, op<"index_fill">(b.g(), b.integer(1), b.in(2), 0));
           if (b.needs(3))
             b.set(3, op<"reshape">(op<"index_select">(b.g(), b.integer(1), b.in(2)), b.shape(3)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({4, 3}), 0, s.of({3}, {4, 1, 2}, DType::Int64), s.normal({3, 3})});
           s.add({s.normal({2, 3, 4}), -1, s.of({2}, {3, 1}, DType::Int64), s.normal({2, 3, 2})});
         }});

const Op& index_fill = add_op(
    {.name = "index_fill",
     .args = "self, dim: dim, index, value: operand",
     .doc = "The tensor with one value written at given positions along one dimension.",
     .inplace = Inplace::Direct,
     .fresh = true,
     .saves = "index",
     .see = "index_copy, masked_fill",
     .rule = "[.., n, ..], index [k] -> [.., n, ..]",
     .example = "torch.zeros(3):index_fill(1, torch.tensor{2}, 9) --> f32 [3]  0 9 0",
     .shape =
         [](Call& c) {
           checked_dim(c, c.tensor(0));
           if (c.arg[3].tag == Tag::Tensor)
             TYCHO_CHECK(Kind::Shape, c.tensor(3).rank() == 0,
                         "index_fill: the value must be a number or a 0-d tensor, not %s",
                         describe(c.tensor(3)).c_str());
           changed_shape(c);
         },
     .grad =
         [](Backward& b) {
           if (b.needs(0)) b.set(0, op<"index_fill">(b.g(), b.integer(1), b.in(2), 0));
           if (b.needs(3))  // a place that is named twice still holds the value once
             b.set(3, op<"sum">(op<"index_select">(b.g(), b.integer(1), op<"unique">(b.in(2)))));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({4, 3}), 0, s.of({2}, {4, 1}, DType::Int64), 2.5});
           s.add({s.normal({2, 3, 4}), -1, s.of({2}, {3, 1}, DType::Int64), s.normal({})});
         }});

const Op& take = add_op(
    {.name = "take",
     .args = "self, index",
     .doc = "The elements at positions of the tensor read as one row.",
     .see = "put, gather, index_select",
     .rule = "any shape, index [..] -> [..]",
     .example = "torch.tensor{{10, 20}, {30, 40}}:take(torch.tensor{4, 1}) --> i64 [2]  40 10",
     .compose =
         [](Call& c) {
           check_index_type("take", c.tensor(1));
           TYCHO_CHECK(Kind::Index, c.tensor(0).numel() || !c.tensor(1).numel(),
                       "take: the tensor has no elements");
           become<"index_at">(c, op<"reshape">(c.tensor(0), Sizes{-1}), c.tensor(1));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), s.integers({2, 3}, 1, 12)});
           s.add({s.normal({3, 4}), s.integers({5}, -12, -1)});
         }});

const Op& put = add_op(
    {.name = "put",
     .args = "self, index, source, accumulate: bool = false",
     .doc = "The tensor with the source's elements written at positions counted over all its "
            "elements.",
     .inplace = Inplace::Copy,
     .see = "take, scatter",
     .rule = "any shape, index and source of one shape -> the first shape",
     .example =
         "torch.zeros(2, 2):put(torch.tensor{1, 4}, torch.tensor{5.0, 6.0}) --> f32 [2, 2]  view\n"
         " 5  0\n"
         " 0  6",
     .compose =
         [](Call& c) {
           const Tensor &x = c.tensor(0), &index = c.tensor(1), &source = c.tensor(2);
           check_index_type("put", index);
           TYCHO_CHECK(Kind::Shape, index.numel() == source.numel(),
                       "put: %lld positions but %lld values", static_cast<long long>(index.numel()),
                       static_cast<long long>(source.numel()));
           TYCHO_CHECK(Kind::DType, x.dtype() == source.dtype(),
                       "put: the tensor is %s, the source %s", dtype_name(x.dtype()),
                       dtype_name(source.dtype()));
           const Tensor flat = op<"reshape">(x, Sizes{-1});
           const Tensor changed =
               op<"index_put_at">(flat, op<"reshape">(source, index.shape()), c.flag(3), index);
           c.out.push_back(op<"reshape">(changed, x.shape()));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), s.of({3}, {12, 1, 5}, DType::Int64), s.normal({3})});
           s.add({s.normal({3, 4}), s.integers({2, 2}, 1, 12), s.normal({2, 2}), true});
         }});

// Positions of take_along_dim, which may count from the end.
const Op& wrapped_positions = add_op(
    {.name = "wrapped_positions",
     .args = "index, size: int, place: int",
     .doc = "Positions along a dimension (from 0; -1: of the flat tensor), checked, all from "
            "the front.",
     .where = kHidden,
     .differentiable = false,
     .shape =
         [](Call& c) {
           const Tensor& index = c.tensor(0);
           c.out.push_back(empty(index.shape(), DType::Int64, index.device()));
         },
     .samples =
         [](Samples& s) {
           s.add({s.integers({3, 2}, -4, -1), 4, 0});
           s.add({s.integers({5}, 1, 4, DType::Int32), 4, -1});
         }});
Tensor wrapped(const Tensor& index, int64_t size, int dim) {
  return op<"wrapped_positions">(index, size, dim);
}

const Op& take_along_dim = add_op(
    {.name = "take_along_dim",
     .args = "self, indices, dim: dim?",
     .doc = "The elements at positions along one dimension (of the flat tensor when none), with "
            "broadcasting.",
     .see = "gather, argsort",
     .rule = "[.., n, ..], indices [.., k, ..] -> [.., k, ..]",
     .example = "x = torch.tensor{{3, 1, 2}}\n"
                "x:take_along_dim(x:argsort(), 2) --> i64 [1, 3]\n"
                " 1  2  3",
     .compose =
         [](Call& c) {
           const Tensor &x = c.tensor(0), &index = c.tensor(1);
           check_index_type("take_along_dim", index);
           if (!c.has(2)) {
             const Tensor at = wrapped(index, x.numel(), -1);
             c.out.push_back(
                 op<"gather">(op<"reshape">(x, Sizes{-1}), 0, op<"reshape">(at, Sizes{-1})));
             return;
           }
           TYCHO_CHECK(
               Kind::Shape, x.rank() == index.rank(),
               "take_along_dim: the positions (%s) need as many dimensions as the tensor (%s)",
               to_string(index.shape()).c_str(), to_string(x.shape()).c_str());
           const int d = wrap_dim(c.integer(2), x.rank());
           Sizes a = x.shape(), i = index.shape();
           if (x.rank()) a[d] = i[d] = 1;
           const Sizes common = broadcast(a, i);
           a = i = common;
           if (x.rank()) a[d] = x.size(d), i[d] = index.size(d);
           c.out.push_back(
               op<"gather">(op<"expand">(x, a), d,
                            op<"expand">(wrapped(index, x.rank() ? x.size(d) : 1, d), i)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({4, 3}), s.integers({1, 3}, 1, 4), 0});
           s.add({s.normal({4, 1}), s.integers({4, 5}, 1, 1), 1});
           s.add({s.normal({4, 3}), s.integers({5}, 1, 12)});
         }});

}  // namespace
}  // namespace tycho
