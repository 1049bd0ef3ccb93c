// Views that put dimensions in another order.
#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

const Op& transpose = add_op(
    {.name = "transpose",
     .args = "self, dim0: dim, dim1: dim",
     .doc = "A view with two dimensions exchanged.",
     .inplace = Inplace::Copy,
     .view = true,
     .see = "t, permute, mT",
     .rule = "the two sizes are exchanged",
     .example =
         "torch.zeros(2, 3, 4):transpose(1, 3).shape --> [4, 3, 2]\n"
         "torch.tensor{{1, 2}, {3, 4}}:transpose(1, 2) --> i64 [2, 2]  view  non-contiguous\n"
         " 1  3\n"
         " 2  4",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           Sizes shape = x.shape(), stride = x.strides();
           const int i = wrap_dim(c.integer(1), x.rank()), j = wrap_dim(c.integer(2), x.rank());
           if (x.rank()) {
             std::swap(shape[i], shape[j]);
             std::swap(stride[i], stride[j]);
           }
           c.out.push_back(alias(x, shape, stride, x->offset));
         },
     .grad = [](Backward& b) { b.set(0, op<"transpose">(b.g(), b.integer(1), b.integer(2))); },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3}), 0, 1});
         }});

const Op& swapaxes = add_also(transpose, "swapaxes", "self, axis0: dim, axis1: dim");
const Op& swapdims = add_also(transpose, "swapdims");

// A view with dimension order[d] of x as its dimension d.
void permuted(Call& c, const Sizes& order) {
  const Tensor& x = c.tensor(0);
  Sizes shape, stride;
  for (int64_t d : order) {
    shape.push_back(x.size(static_cast<int>(d)));
    stride.push_back(x.stride(static_cast<int>(d)));
  }
  c.out.push_back(alias(x, shape, stride, x->offset));
}
Sizes reversed(int rank) {
  Sizes order;
  for (int d = rank - 1; d >= 0; --d) order.push_back(d);
  return order;
}

const Op& permute =
    add_op({.name = "permute",
            .args = "self, dims: dims*",
            .doc = "A view with the dimensions in the given order.",
            .view = true,
            .see = "transpose, movedim, t",
            .rule = "the sizes in the given order",
            .example = "torch.zeros(2, 3, 4):permute(3, 1, 2).shape --> [4, 2, 3]",
            .shape =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  TYCHO_CHECK(Kind::Shape, c.count(1) == x.rank(),
                              "permute: %d dimensions are named, the tensor (%s) has %d",
                              c.count(1), to_string(x.shape()).c_str(), x.rank());
                  dim_bits(c, 1, x.rank());
                  Sizes order;
                  for (int k = 0; k < x.rank(); ++k)
                    order.push_back(wrap_dim(c.arg[1].ints[k], x.rank()));
                  permuted(c, order);
                },
            .grad =
                [](Backward& b) {
                  const Sizes order = b.ints(1);
                  Sizes back = order;
                  for (int d = 0; d < order.n; ++d) back[wrap_dim(order[d], order.n)] = d;
                  b.set(0, op<"permute">(b.g(), back));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3, 4}), s.ints({2, 0, 1})});
                  s.add({s.normal({2, 3, 4}), s.ints({-1, 1, 0})});
                }});

const Op& t = add_op(
    {.name = "t",
     .args = "self",
     .doc = "A matrix transposed; one dimension or none is left as it is.",
     .inplace = Inplace::Copy,
     .view = true,
     .see = "transpose, mT",
     .rule = "[n, m] -> [m, n]",
     .example = "torch.tensor{{1, 2, 3}, {4, 5, 6}}:t() --> i64 [3, 2]  view  non-contiguous\n"
                " 1  4\n"
                " 2  5\n"
                " 3  6",
     .shape =
         [](Call& c) {
           TYCHO_CHECK(Kind::Value, c.tensor(0).rank() <= 2,
                       "t: a matrix is expected, not %d dimensions; transpose and mT take more",
                       c.tensor(0).rank());
           permuted(c, reversed(c.tensor(0).rank()));
         },
     .grad = [](Backward& b) { b.set(0, op<"t">(b.g())); },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3})});
           s.add({s.normal({3})});
         }});
const Op& T =
    add_op({.name = "T",
            .args = "self",
            .doc = "A view with all dimensions in reverse order (a field: x.T).",
            .where = kHidden,
            .view = true,
            .see = "mT, t",
            .rule = "the sizes in reverse order",
            .example = "torch.tensor{{1, 2}, {3, 4}}.T --> i64 [2, 2]  view  non-contiguous\n"
                       " 1  3\n"
                       " 2  4",
            .shape = [](Call& c) { permuted(c, reversed(c.tensor(0).rank())); },
            .grad = [](Backward& b) { b.set(0, op<"T">(b.g())); },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3})});
                }});
const Op& mT =
    add_op({.name = "mT",
            .args = "self",
            .doc = "A view with the last two dimensions exchanged (a field: x.mT).",
            .where = kHidden,
            .view = true,
            .see = "transpose, t",
            .rule = "[.., n, m] -> [.., m, n]",
            .example = "torch.tensor{{1, 2}, {3, 4}}.mT --> i64 [2, 2]  view  non-contiguous\n"
                       " 1  3\n"
                       " 2  4",
            .shape =
                [](Call& c) {
                  const int rank = c.tensor(0).rank();
                  TYCHO_CHECK(Kind::Shape, rank >= 2,
                              "mT: at least 2 dimensions are needed, not %d", rank);
                  Sizes order = reversed(rank);
                  for (int d = 0; d < rank - 2; ++d) order[d] = d;
                  order[rank - 2] = rank - 1;
                  order[rank - 1] = rank - 2;
                  permuted(c, order);
                },
            .grad = [](Backward& b) { b.set(0, op<"mT">(b.g())); },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3, 4})});
                }});

const Op& movedim =
    add_op({.name = "movedim",
            .args = "self, source: dims, destination: dims",
            .doc = "A view with some dimensions moved to other places; the rest keep their order.",
            .see = "permute, transpose",
            .rule = "the sizes move with their dimensions",
            .example = "torch.zeros(2, 3, 4):movedim(1, 3).shape --> [3, 4, 2]",
            .compose =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  const int rank = x.rank(), n = c.count(1);
                  TYCHO_CHECK(Kind::Dim, n == c.count(2),
                              "movedim: %d dimensions to move, but %d places", n, c.count(2));
                  if (n) dim_bits(c, 1, rank), dim_bits(c, 2, rank);
                  if (rank == 0) {
                    c.out.push_back(x);
                    return;
                  }
                  int64_t order[kMaxDims];
                  bool moved[kMaxDims] = {}, taken[kMaxDims] = {};
                  for (int k = 0; k < n; ++k) {
                    const int from = wrap_dim(c.arg[1].ints[k], rank),
                              to = wrap_dim(c.arg[2].ints[k], rank);
                    order[to] = from;
                    moved[from] = taken[to] = true;
                  }
                  for (int to = 0, from = 0; to < rank; ++to) {
                    if (taken[to]) continue;
                    while (moved[from]) ++from;
                    order[to] = from++;
                  }
                  c.out.push_back(op<"permute">(x, Sizes(order, rank)));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3, 4}), s.ints({0}), s.ints({-1})});
                  s.add({s.normal({2, 3, 4}), s.ints({0, 2}), s.ints({1, 0})});
                }});
const Op& moveaxis = add_also(movedim, "moveaxis");
const Op& adjoint = add_also(mT, "adjoint");

BATCH("transpose", by_dims);
BATCH("permute", [](Spread& s) -> BatchResults {
  Sizes dims{0};
  for (int64_t d : s.one.ints(1)) dims.push_back(wrap_dim(d, s.rank(0)) + 1);
  return {op<"permute">(s.tensor(0), dims)};
});
BATCH("T", [](Spread& s) -> BatchResults {
  Sizes dims{0};
  for (int d = s.rank(0); d > 0; --d) dims.push_back(d);
  return {op<"permute">(s.tensor(0), dims)};
});
BATCH("mT", by_leading);

}  // namespace
}  // namespace tycho
