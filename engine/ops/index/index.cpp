// Advanced indexing, rows by position, embedding. An index tensor holds positions from 1.
#include "engine/ops/index/index.h"

#include <vector>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/samples.h"

namespace tycho {

using Tensors = std::vector<Tensor>;

void check_index_type(const char* op, const Tensor& index) {
  if (index.dtype() == DType::Int64 || index.dtype() == DType::Int32) return;
  fail(Kind::DType,
       format("%s: positions are int64 or int32, not %s", op, dtype_name(index.dtype())),
       index.dtype() == DType::UInt8 ? "mask:to(\"bool\")  -- if this is a mask"
                                     : "index:to(\"int64\")");
}

void changed_shape(Call& c) {
  const Tensor& self = c.tensor(0);
  c.out.push_back(c.inplace ? self : empty_like(self));
}

Tensor zeros_for(const Tensor& g, const Sizes& shape) {
  return filled(shape, 0, g.dtype(), g.device());
}

IndexPlan plan_index(const char* op, const Call& c, int first) {
  const Tensor& self = c.tensor(0);
  IndexPlan p;
  int before = -1;
  bool neighbours = true;
  for (int k = 0; k < kMaxDims; ++k) {
    if (!c.has(first + k)) continue;
    const Tensor& t = c.tensor(first + k);
    check_index_type(op, t);
    TYCHO_CHECK(Kind::Index, k < self.rank(), "%s: %d positions for a tensor with %d dimension%s",
                op, k + 1, self.rank(), self.rank() == 1 ? "" : "s");
    p.index = p.dims ? broadcast(p.index, t.shape()) : t.shape();
    neighbours = neighbours && (!p.dims || before == k - 1);
    if (!p.dims) p.place = k;
    before = k;
    p.dims |= 1u << k;
  }
  if (!neighbours) p.place = 0;
  for (int d = 0, put = 0; d <= self.rank(); ++d) {
    if (p.result.n == p.place && !put++)
      for (int i = 0; i < p.index.n; ++i) p.result.push_back(p.index[i]);
    if (d < self.rank() && !(p.dims >> d & 1)) p.result.push_back(self.size(d));
  }
  return p;
}

namespace {

// The eight index arguments of index_at and index_put_at, from argument `first` of the call.
#define TYCHO_EIGHT                                                                             \
  "i1: tensor?, i2: tensor?, i3: tensor?, i4: tensor?, i5: tensor?, i6: tensor?, i7: tensor?, " \
  "i8: tensor?"

const Op& index_at = add_op(
    {.name = "index_at",
     .args = "self, " TYCHO_EIGHT,
     .doc = "The elements at the positions that one index tensor per dimension names.",
     .where = kHidden,
     .saves = "i1, i2, i3, i4, i5, i6, i7, i8",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           c.out.push_back(empty(plan_index("index", c, 1).result, x.dtype(), x.device()));
         },
     .grad =
         [](Backward& b) {
           Tensor z = zeros_for(b.g(), b.shape(0));
           op_<"index_put_at">(z, b.g(), true, b.in(1), b.in(2), b.in(3), b.in(4), b.in(5), b.in(6),
                               b.in(7), b.in(8));
           b.set(0, z);
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({4, 3}), s.integers({5}, 1, 4)});
           s.add({s.normal({4, 3, 2}), s.integers({2, 1}, 1, 4), s.integers({3}, 1, 3)});
           s.add({s.normal({4, 3, 2}), s.integers({2, 2}, -4, -1), nullptr, s.integers({2}, 1, 2)});
           s.add({s.normal({3, 4, 2}), nullptr, s.integers({3}, 1, 4)});
           s.add({s.normal({3, 4}), s.integers({0}, 1, 1)});
         }});

const Op& index_put_at = add_op(
    {.name = "index_put_at",
     .args = "self, values, accumulate: bool, " TYCHO_EIGHT,
     .doc =
         "The tensor with values written (or added) at the positions that the index tensors name.",
     .where = kHidden,
     .inplace = Inplace::Direct,
     .saves = "i1, i2, i3, i4, i5, i6, i7, i8",
     .shape =
         [](Call& c) {
           const IndexPlan p = plan_index("index_put", c, 3);
           const Tensor& v = c.tensor(1);
           bool fits = v.rank() <= p.result.n;
           for (int d = 1; fits && d <= v.rank(); ++d)
             fits = v.size(-d) == 1 || v.size(-d) == p.result[p.result.n - d];
           TYCHO_CHECK(
               Kind::Broadcast, fits,
               "index_put: a value of shape %s does not fit into the shape %s that the index names",
               to_string(v.shape()).c_str(), to_string(p.result).c_str());
           changed_shape(c);
         },
     .grad =
         [](Backward& b) {
           if (b.needs(0))
             b.set(0, b.flag(2) ? b.g()
                                : op<"index_put_at">(b.g(), zeros_for(b.g(), {}), false, b.in(3),
                                                     b.in(4), b.in(5), b.in(6), b.in(7), b.in(8),
                                                     b.in(9), b.in(10)));
           if (b.needs(1))
             b.set(1, op<"index_at">(b.g(), b.in(3), b.in(4), b.in(5), b.in(6), b.in(7), b.in(8),
                                     b.in(9), b.in(10)));
         },
     .samples =
         [](Samples& s) {
           Impl* at = s.of({3}, {4, 1, 3}, DType::Int64);
           s.add({s.normal({4, 3}), s.normal({3, 3}), false, at});
           s.add({s.normal({4, 3}), s.normal({}), false, at});
           s.add({s.normal({4, 3, 2}), s.normal({2, 3, 2}), true, s.integers({2, 1}, 1, 4),
                  s.integers({3}, 1, 3)});
           s.add({s.normal({2, 3, 4}), s.normal({3, 1}), true, s.integers({3}, 1, 2), nullptr,
                  s.integers({3}, -4, -1)});
         }});

// A mask of one dimension or more.
const Op& index_mask =
    add_op({.name = "index.mask",
            .args = "mask",
            .doc = "The positions of a mask's true elements, one tensor per dimension.",
            .where = kHidden,
            .differentiable = false,
            .size_from_values = true,
            .shape = [](Call&) {},
            .samples =
                [](Samples& s) {
                  s.add({s.mask({5})});
                  s.add({s.mask({3, 4, 2})});
                }});

// Masks stand for the positions of their true elements, one index tensor per dimension they cover.
struct Expanded {
  Tensors list;
  Expanded(const char* op, const Call& c, int arg) {
    const Tensor& self = c.tensor(0);
    for (int k = 0; k < c.count(arg); ++k) {
      const Tensor& t = c.tensor(arg, k);
      if (!t) {
        list.emplace_back();
      } else if (t.dtype() == DType::Bool) {
        expand_mask(op, self, t);
      } else {
        check_index_type(op, t);
        list.push_back(t);
      }
    }
    TYCHO_CHECK(Kind::Index, static_cast<int>(list.size()) <= self.rank(),
                "%s: the index names %d dimensions, the tensor (%s) has %d", op,
                static_cast<int>(list.size()), to_string(self.shape()).c_str(), self.rank());
    list.resize(kMaxDims);
  }

 private:
  void expand_mask(const char* op, const Tensor& self, const Tensor& mask) {
    if (mask.rank() == 0) return;
    const int at = static_cast<int>(list.size());
    for (int d = 0; d < mask.rank(); ++d)
      if (at + d >= self.rank() || mask.size(d) != self.size(at + d))
        fail(Kind::Shape,
             format("%s: a mask of shape %s does not fit onto %s from dimension %d on", op,
                    to_string(mask.shape()).c_str(), to_string(self.shape()).c_str(), at + 1));
    const NoGrad quiet;
    for (Tensor& t : ops<"index.mask">(mask)) list.push_back(std::move(t));
  }
};

const Tensor& only_mask(const Call& c, int arg) {
  static const Tensor none;
  if (c.count(arg) != 1 || !c.tensor(arg, 0)) return none;
  const Tensor &m = c.tensor(arg, 0), &x = c.tensor(0);
  return m.dtype() == DType::Bool && m.rank() > 0 && m.shape() == x.shape() ? m : none;
}

const Op& index = add_op(
    {.name = "index",
     .args = "self, indices: tensors",
     .doc = "The elements that index tensors or masks, one per dimension (or none), name.",
     .where = kHidden,
     .compose =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           if (const Tensor& m = only_mask(c, 1)) {
             c.out.push_back(op<"masked_select">(x, m));
             return;
           }
           // A mask of no dimensions keeps everything or nothing, in a new leading dimension.
           if (c.count(1) == 1 && c.tensor(1, 0) && c.tensor(1, 0).dtype() == DType::Bool &&
               c.tensor(1, 0).rank() == 0) {
             const Tensor mask = op<"to.device">(c.tensor(1, 0), x.device());
             const Tensor at = op<"index.mask">(op<"reshape">(mask, Sizes{1}));
             c.out.push_back(op<"index_select">(op<"unsqueeze">(x, 0), 0, at));
             return;
           }
           const Expanded e("index", c, 1);
           const Tensors& l = e.list;
           c.out.push_back(op<"index_at">(x, l[0], l[1], l[2], l[3], l[4], l[5], l[6], l[7]));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({4, 3}), s.list({s.integers({5}, 1, 4)})});
           s.add({s.normal({4, 3}), s.list({s.mask({4, 3})})});
           s.add({s.normal({4, 3}), s.list({s.mask({4}), s.integers({1}, 1, 3)})});
           s.add({s.normal({4, 3}), s.list({nullptr, s.integers({2, 2}, -3, -1)})});
         }});

const Op& index_put = add_op(
    {.name = "index_put",
     .args = "self, indices: tensors, values: operand, accumulate: bool = false",
     .doc = "The tensor with values written at the positions that index tensors or masks name.",
     .inplace = Inplace::Direct,
     .see = "scatter, put",
     .rule = "any shape, one index tensor per dimension -> the same shape",
     .example = "torch.zeros(2, 2):index_put({torch.tensor{1, 2}, torch.tensor{2, 1}}, "
                "torch.tensor(5.0)) --> f32 [2, 2]\n"
                " 0  5\n"
                " 5  0",
     .compose =
         [](Call& c) {
           const Tensor x = c.tensor(0);
           Tensor v = c.tensor(2);
           if (!v)
             v = c.arg[2].tag == Tag::Int ? number_tensor(c.arg[2].i) : number_tensor(c.number(2));
           if (v.dtype() != x.dtype()) v = op<"to.dtype">(v, x.dtype());
           if (v.rank() == 0 && v.device() != x.device()) v = op<"to.device">(v, x.device());
           const Expanded e("index_put", c, 1);
           const Tensors& l = e.list;
           const bool add = c.flag(3);
           if (c.inplace)
             op_<"index_put_at">(x, v, add, l[0], l[1], l[2], l[3], l[4], l[5], l[6], l[7]);
           c.out.push_back(c.inplace ? x
                                     : op<"index_put_at">(x, v, add, l[0], l[1], l[2], l[3], l[4],
                                                          l[5], l[6], l[7]));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({4, 3}), s.list({s.of({2}, {3, 1}, DType::Int64)}), s.normal({2, 3})});
           s.add({s.normal({4, 3}), s.list({s.mask({4, 3})}), 1.5});
           s.add({s.normal({4, 3}), s.list({s.integers({6}, 1, 4)}), s.normal({3}), true});
         }});

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
           c.out.push_back(op<"index_at">(op<"reshape">(c.tensor(0), Sizes{-1}), c.tensor(1)));
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

}  // namespace
}  // namespace tycho
