// Views of parts: select, slice, narrow, diagonal, unfold; and copies with one part replaced.
#include "engine/ops/shape/slice.h"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/grad/node.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/read.h"

namespace tycho {

void slice_view(Call& c, int d, int64_t start, int64_t stop, int64_t step) {
  const Tensor& x = c.tensor(0);
  Sizes shape = x.shape(), stride = x.strides();
  const int64_t offset = x->offset + (start < shape[d] ? start * stride[d] : 0);
  shape[d] = (stop - start + step - 1) / step;
  stride[d] *= step;
  c.out.push_back(alias(x, shape, stride, offset));
}

namespace {

const Op& select = add_op(
    {.name = "select",
     .args = "self, dim: dim, index: position",
     .doc = "A view of one position along a dimension, which disappears.",
     .view = true,
     .see = "narrow, index_select, indexing",
     .rule = "[.., n, ..] -> [.., ..]",
     .example = "torch.tensor{{1, 2}, {3, 4}}:select(2, 1) --> i64 [2]  view  non-contiguous  1 3",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           TYCHO_CHECK(Kind::Index, x.rank() > 0,
                       "select: a 0-d tensor has no positions; use x:item()");
           const int d = wrap_dim(c.integer(1), x.rank());
           int64_t i = c.integer(2);
           const int64_t n = x.size(d);
           if (i < -n || i >= n)
             fail(
                 Kind::Index,
                 format("index %lld is out of range for dimension %d with size %lld%s",
                        static_cast<long long>(i < 0 ? i : i + 1), d + 1, static_cast<long long>(n),
                        n ? format(" (1..%lld, or -%lld..-1)", static_cast<long long>(n),
                                   static_cast<long long>(n))
                                .c_str()
                          : ""));
           if (i < 0) i += n;
           Sizes shape = x.shape(), stride = x.strides();
           const int64_t offset = x->offset + i * stride[d];
           shape.erase(d);
           stride.erase(d);
           c.out.push_back(alias(x, shape, stride, offset));
         },
     .grad =
         [](Backward& b) {
           b.set(0, op<"select_backward">(b.g(), b.shape(0), b.integer(1), b.integer(2)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), 1, 2});
         }});

const Op& select_backward = add_op(
    {.name = "select_backward",
     .args = "grad, size: ints, dim: dim, index: position",
     .doc = "Zeros with a gradient written at one position of a dimension.",
     .where = kHidden,
     .fresh = true,
     .shape =
         [](Call& c) {
           c.out.push_back(filled(c.ints(1), 0, c.tensor(0).dtype(), c.tensor(0).device()));
         },
     .run =
         [](Call& c) { copy_raw(op<"select">(c.out[0], c.integer(2), c.integer(3)), c.tensor(0)); },
     .grad = [](Backward& b) { b.set(0, op<"select">(b.g(), b.integer(2), b.integer(3))); }});

[[noreturn]] void fail_slice(int64_t position, int d, int64_t n) {
  const long long size = n;
  fail(Kind::Index,
       format("index %lld is out of range for dimension %d with size %lld (1..%lld, or -%lld..-1)",
              static_cast<long long>(position), d + 1, size, size, size));
}

const Op& slice = add_op(
    {.name = "slice",
     .args = "self, dim: dim, start: int, stop: int, step: int = 1",
     .doc = "A view of every step-th position from start until before stop (counted from 0).",
     .where = kHidden,
     .view = true,
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           TYCHO_CHECK(Kind::Index, x.rank() > 0,
                       "slice: a 0-d tensor has no positions; use x:item()");
           const int d = wrap_dim(c.integer(1), x.rank());
           const int64_t n = x.size(d), start = c.integer(2), stop = c.integer(3),
                         step = c.integer(4);
           if (start < 0 || start > n) fail_slice(start + 1, d, n);
           if (stop < start || stop > n) fail_slice(stop, d, n);
           TYCHO_CHECK(Kind::Value, step > 0, "slice: steps are positive, not %lld; flip reverses",
                       static_cast<long long>(step));
           slice_view(c, d, start, stop, step);
         },
     .grad =
         [](Backward& b) {
           b.set(0, op<"slice_backward">(b.g(), b.shape(0), b.integer(1), b.integer(2),
                                         b.integer(3), b.integer(4)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({5, 3}), 0, 1, 4});
           s.add({s.normal({5, 3}), 0, 0, 5, 2});
           s.add({s.normal({2, 6}), -1, 1, 6, 3});
           s.add({s.normal({2, 6}), 1, 6, 6});
         }});
const Op& slice_backward = add_op(
    {.name = "slice_backward",
     .args = "grad, size: ints, dim: dim, start: int, stop: int, step: int",
     .doc = "Zeros with a gradient written at the positions of a slice.",
     .where = kHidden,
     .fresh = true,
     .shape =
         [](Call& c) {
           c.out.push_back(filled(c.ints(1), 0, c.tensor(0).dtype(), c.tensor(0).device()));
         },
     .run =
         [](Call& c) {
           copy_raw(op<"slice">(c.out[0], c.integer(2), c.integer(3), c.integer(4), c.integer(5)),
                    c.tensor(0));
         },
     .grad =
         [](Backward& b) {
           b.set(0, op<"slice">(b.g(), b.integer(2), b.integer(3), b.integer(4), b.integer(5)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3}), s.ints({5, 3}), 0, 1, 5, 2});
         }});

const Op& narrow = add_op(
    {.name = "narrow",
     .args = "self, dim: dim, start: position, length: int",
     .doc = "A view of `length` positions along a dimension from `start` on.",
     .view = true,
     .see = "select, split, indexing",
     .rule = "[.., n, ..] -> [.., length, ..]",
     .example = "torch.tensor{10, 20, 30, 40}:narrow(1, 2, 2) --> i64 [2]  view  20 30",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           TYCHO_CHECK(Kind::Shape, x.rank() > 0, "narrow: a 0-d tensor has no positions");
           const int d = wrap_dim(c.integer(1), x.rank());
           const int64_t n = x.size(d), length = c.integer(3);
           int64_t start = c.integer(2);
           TYCHO_CHECK(Kind::Value, length >= 0, "narrow: the length cannot be %lld",
                       static_cast<long long>(length));
           if (start < -n || start > n) fail_slice(start < 0 ? start : start + 1, d, n);
           if (start < 0) start += n;
           TYCHO_CHECK(Kind::Index, length <= n - start,
                       "narrow: %lld positions from %lld on reach past dimension %d with size %lld",
                       static_cast<long long>(length), static_cast<long long>(start + 1), d + 1,
                       static_cast<long long>(n));
           c.arg[2] = Value(start);
           slice_view(c, d, start, start + length, 1);
         },
     .grad =
         [](Backward& b) {
           b.set(0, op<"slice_backward">(b.g(), b.shape(0), b.integer(1), b.integer(2),
                                         b.integer(2) + b.integer(3), 1));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({5, 3}), 0, 1, 3});
           s.add({s.normal({2, 6}), -1, -4, 2});
         }});
const Op& narrow_tensor = add_op(
    {.name = "narrow.tensor",
     .args = "self, dim: dim, start, length: int",
     .doc = "A view of `length` positions along a dimension from the one that a 0-d tensor holds.",
     .see = "select",
     .rule = "[.., n, ..] -> [.., length, ..]",
     .example =
         "torch.tensor{10, 20, 30, 40}:narrow(1, torch.tensor(3), 2) --> i64 [2]  view  30 40",
     .compose =
         [](Call& c) {
           const Tensor& at = c.tensor(2);
           TYCHO_CHECK(Kind::Value, at.rank() == 0 && is_integral(at.dtype()),
                       "narrow: start must be a 0-d integer tensor, not %s", describe(at).c_str());
           const int64_t i = has_values(at) ? item<int64_t>(at) : 1;
           TYCHO_CHECK(Kind::Index, i != 0, "narrow: index 0: positions count from 1");
           c.out.push_back(
               op<"narrow">(c.tensor(0), c.integer(1), i < 0 ? i : i - 1, c.integer(3)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({5, 3}), 0, s.of({}, {2}, DType::Int64), 3});
         }});

const Op& diagonal = add_op(
    {.name = "diagonal",
     .args = "self, offset: int = 0, dim1: dim = 0, dim2: dim = 1",
     .doc = "A view of a diagonal of two dimensions, as a new last dimension.",
     .view = true,
     .see = "diag, trace",
     .rule = "[n, m, ..] -> [.., min(n, m)]",
     .example = "torch.arange(9):view(3, 3):diagonal() --> i64 [3]  view  non-contiguous  0 4 8\n"
                "torch.arange(9):view(3, 3):diagonal(1) --> i64 [2]  view  non-contiguous  1 5",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           const int i = wrap_dim(c.integer(2), x.rank()), j = wrap_dim(c.integer(3), x.rank());
           TYCHO_CHECK(Kind::Dim, i != j, "diagonal: dim1 and dim2 are both %d", i + 1);
           const int64_t offset = std::clamp<int64_t>(c.integer(1), -x.size(i), x.size(j));
           const int64_t n =
               std::max<int64_t>(0, offset >= 0 ? std::min(x.size(i), x.size(j) - offset)
                                                : std::min(x.size(i) + offset, x.size(j)));
           const int64_t skip = n == 0        ? 0
                                : offset >= 0 ? offset * x.stride(j)
                                              : -offset * x.stride(i);
           Sizes shape, stride;
           for (int d = 0; d < x.rank(); ++d)
             if (d != i && d != j) {
               shape.push_back(x.size(d));
               stride.push_back(x.stride(d));
             }
           shape.push_back(n);
           stride.push_back(x.stride(i) + x.stride(j));
           c.out.push_back(alias(x, shape, stride, x->offset + skip));
         },
     .grad =
         [](Backward& b) {
           b.set(0, op<"diagonal_backward">(b.g(), b.shape(0), b.integer(1), b.integer(2),
                                            b.integer(3)));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4})});
           s.add({s.normal({3, 4}), 2});
           s.add({s.normal({2, 3, 4}), -1, 2, 1});
         }});
const Op& diagonal_backward =
    add_op({.name = "diagonal_backward",
            .args = "grad, size: ints, offset: int, dim1: dim, dim2: dim",
            .doc = "Zeros with a gradient written on a diagonal.",
            .where = kHidden,
            .fresh = true,
            .shape =
                [](Call& c) {
                  c.out.push_back(filled(c.ints(1), 0, c.tensor(0).dtype(), c.tensor(0).device()));
                },
            .run =
                [](Call& c) {
                  copy_raw(op<"diagonal">(c.out[0], c.integer(2), c.integer(3), c.integer(4)),
                           c.tensor(0));
                },
            .grad =
                [](Backward& b) {
                  b.set(0, op<"diagonal">(b.g(), b.integer(2), b.integer(3), b.integer(4)));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3}), s.ints({3, 4}), 0, 0, 1});
                }});

const Op& unfold =
    add_op({.name = "unfold",
            .args = "self, dimension: dim, size: int, step: int",
            .doc = "A view of all windows of a size along a dimension, each `step` further, as a "
                   "new last dimension.",
            .where = kMethod,
            .view = true,
            .see = "as_strided, narrow",
            .rule = "[.., n, ..] -> [.., (n - size) // step + 1, .., size]",
            .example = "torch.arange(5):unfold(1, 3, 1) --> i64 [3, 3]  view  non-contiguous\n"
                       " 0  1  2\n"
                       " 1  2  3\n"
                       " 2  3  4",
            .shape =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  const int d = wrap_dim(c.integer(1), x.rank());
                  const int64_t size = c.integer(2), step = c.integer(3),
                                n = x.rank() ? x.size(d) : 1;
                  TYCHO_CHECK(Kind::Value, size >= 0 && step > 0,
                              "unfold: a size of %lld and a step of %lld cannot be",
                              static_cast<long long>(size), static_cast<long long>(step));
                  TYCHO_CHECK(Kind::Shape, size <= n,
                              "unfold: windows of %lld do not fit into dimension %d with size %lld",
                              static_cast<long long>(size), d + 1, static_cast<long long>(n));
                  Sizes shape = x.shape(), stride = x.strides();
                  const int64_t unit = x.rank() ? stride[d] : 1;
                  if (x.rank()) {
                    shape[d] = (n - size) / step + 1;
                    stride[d] *= step;
                  }
                  shape.push_back(size);
                  stride.push_back(unit);
                  c.out.push_back(alias(x, shape, stride, x->offset));
                },
            .grad =
                [](Backward& b) {
                  const Sizes whole = b.shape(0), rows = row_major(whole);
                  Sizes stride = rows;
                  const int d = wrap_dim(b.integer(1), whole.n);
                  if (whole.n) stride[d] *= b.integer(3);
                  stride.push_back(whole.n ? rows[d] : 1);
                  b.set(0, op<"strided_add">(b.g(), whole, rows, 0, stride, 0));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({7}), 0, 3, 2});
                  s.add({s.normal({3, 5}), 1, 2, 1});
                }});

// A copy with one part replaced.
template <class F>
void with_part(Call& c, F&& part) {
  Tensor copy = op<"clone">(c.tensor(0));
  const Tensor view = part(copy);
  TYCHO_CHECK(Kind::Shape, view.shape() == c.tensor(1).shape(), "%s: src has shape %s, the part %s",
              c.op->name, to_string(c.tensor(1).shape()).c_str(), to_string(view.shape()).c_str());
  op_<"copy">(view, c.tensor(1));
  c.out.push_back(copy);
}
const Op& select_scatter = add_op(
    {.name = "select_scatter",
     .args = "self, src, dim: dim, index: position",
     .doc = "A copy with src written at one position along a dimension.",
     .see = "select",
     .rule = "[.., n, ..], src [.., ..] -> [.., n, ..]",
     .example = "torch.zeros(2, 2):select_scatter(torch.tensor{5.0, 6.0}, 1, 2) --> f32 [2, 2]\n"
                " 0  0\n"
                " 5  6",
     .compose =
         [](Call& c) {
           with_part(c,
                     [&](const Tensor& x) { return op<"select">(x, c.integer(2), c.integer(3)); });
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 4}), s.normal({3}), 1, 2});
         }});
const Op& diagonal_scatter =
    add_op({.name = "diagonal_scatter",
            .args = "self, src, offset: int = 0, dim1: dim = 0, dim2: dim = 1",
            .doc = "A copy with src written on a diagonal.",
            .see = "diagonal",
            .rule = "[n, m], src [min(n, m)] -> [n, m]",
            .example = "torch.zeros(2, 2):diagonal_scatter(torch.tensor{1.0, 2.0}) --> f32 [2, 2]\n"
                       " 1  0\n"
                       " 0  2",
            .compose =
                [](Call& c) {
                  with_part(c, [&](const Tensor& x) {
                    return op<"diagonal">(x, c.integer(2), c.integer(3), c.integer(4));
                  });
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3, 4}), s.normal({3})});
                }});

BATCH("select", by_dims);
BATCH("slice", by_dims);
BATCH("narrow", by_dims);
BATCH("diagonal", by_dims);
BATCH("unfold", by_dims);
BATCH("select_backward", by_dims_of_size);
BATCH("slice_backward", by_dims_of_size);

}  // namespace
}  // namespace tycho
