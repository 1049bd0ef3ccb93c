// Advanced indexing. An index tensor holds positions from 1.
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
  Expanded(const char* name, const Call& c, int arg) {
    const Tensor& self = c.tensor(0);
    for (int k = 0; k < c.count(arg); ++k) {
      Tensor t = c.tensor(arg, k);
      // As in PyTorch, positions of the CPU go to wherever the tensor is.
      if (t && t.device().is_cpu() && !self.device().is_cpu())
        t = op<"to.device">(t, self.device());
      if (!t) {
        list.emplace_back();
      } else if (t.dtype() == DType::Bool) {
        expand_mask(name, self, t);
      } else {
        check_index_type(name, t);
        list.push_back(t);
      }
    }
    TYCHO_CHECK(Kind::Index, static_cast<int>(list.size()) <= self.rank(),
                "%s: the index names %d dimensions, the tensor (%s) has %d", name,
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
             become<"masked_select">(c, x, m);
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
           become<"index_at">(c, x, l[0], l[1], l[2], l[3], l[4], l[5], l[6], l[7]);
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
     .any_device = true,
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
           const bool add = c.flag(3);
           if (const Tensor& m = only_mask(c, 1);
               m && !add && v.rank() == 0 && m.device() == x.device())
             return become<"masked_fill">(c, x, m, v);
           const Expanded e("index_put", c, 1);
           const Tensors& l = e.list;
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

}  // namespace
}  // namespace tycho
