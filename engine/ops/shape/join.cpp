// Tensors joined: cat, stack and their relatives, meshgrid, products.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/layout.h"

namespace tycho {
namespace {

using Tensors = std::vector<Tensor>;

Tensors list_of(const Call& c) {
  Tensors list;
  for (int k = 0; k < c.count(0); ++k) {
    TYCHO_CHECK(Kind::Argument, c.tensor(0, k), "%s: tensor %d of the list is nil", c.op->name,
                k + 1);
    list.push_back(c.tensor(0, k));
  }
  TYCHO_CHECK(Kind::Shape, !list.empty(), "%s: the list of tensors is empty", c.op->name);
  return list;
}

// The work of cat, with the list already of one type; `sizes` (along dim) are for the gradient.
const Op& cat_sized =
    add_op({.name = "cat_sized",
            .args = "tensors: tensors, dim: dim, sizes: ints",
            .doc = "Tensors of one type joined along a dimension.",
            .where = kHidden,
            .shape =
                [](Call& c) {
                  const int d = static_cast<int>(c.integer(1));
                  Sizes shape = c.tensor(0, 0).shape();
                  shape[d] = 0;
                  for (uint32_t k = 0; k < c.arg[2].n; ++k) shape[d] += c.arg[2].ints[k];
                  const Tensor& first = c.tensor(0, 0);
                  Format format = preferred(first);
                  for (int k = 1; k < c.count(0); ++k)
                    if (preferred(c.tensor(0, k)) != format) format = Format::RowMajor;
                  c.out.push_back(empty_in(format, shape, first.dtype(), first.device()));
                },
            .run =
                [](Call& c) {
                  const int d = static_cast<int>(c.integer(1));
                  const Tensor& out = c.out[0];
                  int64_t offset = out->offset;
                  for (int k = 0; k < c.count(0); ++k) {
                    const Tensor& t = c.tensor(0, k);
                    copy_raw(alias(out, t.shape(), out.strides(), offset), t);
                    offset += t.size(d) * out.stride(d);
                  }
                },
            .grad =
                [](Backward& b) {
                  const Tensor g = b.g();
                  int64_t at = 0;
                  for (int k = 0; k < b.count(0); ++k) {
                    const int64_t n = b.arg(2).ints[k];
                    if (b.needs(0, k)) b.set(0, k, op<"slice">(g, b.integer(1), at, at + n));
                    at += n;
                  }
                },
            .samples =
                [](Samples& s) {
                  s.add({s.list({s.normal({2, 3}), s.normal({4, 3})}), 0, s.ints({2, 4})});
                  s.add({s.list({s.normal({2, 3}), s.normal({2, 1})}), 1, s.ints({3, 1})});
                }});

// Empty one-dimensional tensors fit anywhere, as in PyTorch, where older code made them.
bool is_nothing(const Tensor& t) { return t.rank() == 1 && t.numel() == 0; }

// The end of a composition: the tensors joined.
void join(Call& c, const char* name, Tensors list, int64_t dim) {
  const Tensor* model = &list[0];
  for (const Tensor& t : list)
    if (!is_nothing(t)) {
      model = &t;
      break;
    }
  const Sizes shape = model->shape();
  TYCHO_CHECK(Kind::Shape, shape.n > 0, "%s: 0-d tensors cannot be joined; stack makes a dimension",
              name);
  const int d = wrap_dim(dim, shape.n);
  Promotion type;
  Tensors kept;
  std::vector<int64_t> sizes;
  for (size_t k = 0; k < list.size(); ++k) {
    const Tensor& t = list[k];
    type.add(t.dtype(), t.rank() > 0);
    if (is_nothing(t) && shape.n != 1) continue;
    TYCHO_CHECK(Kind::Shape, t.rank() == shape.n,
                "%s: tensor %d has shape %s, which does not join to %s: other number of dimensions",
                name, static_cast<int>(k) + 1, to_string(t.shape()).c_str(),
                to_string(shape).c_str());
    for (int i = 0; i < shape.n; ++i)
      TYCHO_CHECK(Kind::Shape, i == d || t.size(i) == shape[i],
                  "%s: tensor %d has shape %s, which does not join to %s: dimension %d differs",
                  name, static_cast<int>(k) + 1, to_string(t.shape()).c_str(),
                  to_string(shape).c_str(), i + 1);
    kept.push_back(t);
    sizes.push_back(t.size(d));
  }
  const DType to = type.result();
  for (Tensor& t : kept)
    if (t.dtype() != to) t = op<"to.dtype">(t, to);
  if (kept.empty()) return c.out.push_back(filled({0}, 0, to, list[0].device()));
  become<"cat_sized">(c, kept, d, sizes);
}

const Op& cat =
    add_op({.name = "cat",
            .args = "tensors: tensors, dim: dim = 0",
            .doc = "Tensors joined along an existing dimension.",
            .where = kFunction,
            .amp = Amp::Widest,
            .see = "stack, hstack, vstack, split",
            .rule = "[.., n1, ..], [.., n2, ..] -> [.., n1 + n2, ..]",
            .example = "torch.cat{torch.tensor{1, 2}, torch.tensor{3}} --> i64 [3]  1 2 3\n"
                       "torch.cat({torch.zeros(2, 1), torch.ones(2, 2)}, 2) --> f32 [2, 3]\n"
                       " 0  1  1\n"
                       " 0  1  1",
            .compose = [](Call& c) { join(c, "cat", list_of(c), c.integer(1)); },
            .samples =
                [](Samples& s) {
                  s.add({s.list({s.normal({2, 3}), s.normal({4, 3})})});
                  s.add({s.list({s.normal({2, 3}), s.normal({2, 1}), s.normal({2, 2})}), -1});
                  s.add({s.list({s.normal({2}), s.integers({3}, 0, 9)})});
                  s.add({s.list({s.normal({0}), s.normal({2, 3})}), 1});
                }});
const Op& concat = add_also(cat, "concat");
const Op& concatenate = add_also(cat, "concatenate");

void stacked(Call& c, const char* name, Tensors list, int64_t dim) {
  const Sizes shape = list[0].shape();
  const int d = wrap_dim(dim, shape.n + 1);
  for (size_t k = 0; k < list.size(); ++k) {
    TYCHO_CHECK(Kind::Value, list[k].shape() == shape,
                "%s: all tensors need one shape, but tensor 1 has %s and tensor %d %s", name,
                to_string(shape).c_str(), static_cast<int>(k) + 1,
                to_string(list[k].shape()).c_str());
    list[k] = op<"unsqueeze">(list[k], d);
  }
  join(c, name, std::move(list), d);
}
const Op& stack =
    add_op({.name = "stack",
            .args = "tensors: tensors, dim: dim = 0",
            .doc = "Tensors of one shape joined along a new dimension.",
            .where = kFunction,
            .amp = Amp::Widest,
            .see = "cat, unbind",
            .rule = "k tensors [n, m] -> [k, n, m]; dim says where k stands",
            .example = "torch.stack{torch.tensor{1, 2}, torch.tensor{3, 4}} --> i64 [2, 2]\n"
                       " 1  2\n"
                       " 3  4\n"
                       "torch.stack({torch.tensor{1, 2}, torch.tensor{3, 4}}, 2) --> i64 [2, 2]\n"
                       " 1  3\n"
                       " 2  4",
            .compose = [](Call& c) { stacked(c, "stack", list_of(c), c.integer(1)); },
            .samples =
                [](Samples& s) {
                  s.add({s.list({s.normal({2, 3}), s.normal({2, 3})})});
                  s.add({s.list({s.normal({2}), s.normal({2}), s.normal({2})}), -1});
                  s.add({s.list({s.normal({})})});
                }});

SmallVec<Tensor, 2> at_least(const Tensors& list, int dims) {
  return dims == 1   ? ops<"atleast_1d">(list)
         : dims == 2 ? ops<"atleast_2d">(list)
                     : ops<"atleast_3d">(list);
}
Tensors as_list(const SmallVec<Tensor, 2>& v) { return Tensors(v.begin(), v.end()); }

const Op& hstack =
    add_op({.name = "hstack",
            .args = "tensors: tensors",
            .doc = "Tensors joined side by side: along the second dimension, rows along the first.",
            .where = kFunction,
            .amp = Amp::Widest,
            .see = "cat, vstack",
            .rule = "[n, m1], [n, m2] -> [n, m1 + m2]; [n], [m] -> [n + m]",
            .example = "torch.hstack{torch.tensor{1, 2}, torch.tensor{3}} --> i64 [3]  1 2 3",
            .compose =
                [](Call& c) {
                  Tensors list = as_list(at_least(list_of(c), 1));
                  const int d = list[0].rank() == 1 ? 0 : 1;
                  join(c, "hstack", std::move(list), d);
                },
            .samples =
                [](Samples& s) {
                  s.add({s.list({s.normal({2, 3}), s.normal({2, 1})})});
                  s.add({s.list({s.normal({2}), s.normal({})})});
                }});
const Op& vstack =
    add_op({.name = "vstack",
            .args = "tensors: tensors",
            .doc = "Tensors joined one below the other, along the first dimension.",
            .where = kFunction,
            .amp = Amp::Widest,
            .see = "cat, hstack",
            .rule = "[n1, m], [n2, m] -> [n1 + n2, m]; [m], [m] -> [2, m]",
            .example = "torch.vstack{torch.tensor{1, 2}, torch.tensor{3, 4}} --> i64 [2, 2]\n"
                       " 1  2\n"
                       " 3  4",
            .compose = [](Call& c) { join(c, "vstack", as_list(at_least(list_of(c), 2)), 0); },
            .samples =
                [](Samples& s) {
                  s.add({s.list({s.normal({2, 3}), s.normal({3})})});
                }});
const Op& row_stack = add_also(vstack, "row_stack");
const Op& dstack =
    add_op({.name = "dstack",
            .args = "tensors: tensors",
            .doc = "Tensors joined along the third dimension.",
            .where = kFunction,
            .amp = Amp::Widest,
            .see = "stack, hstack",
            .rule = "[n, m] each -> [n, m, number of tensors]",
            .example = "torch.dstack{torch.tensor{1, 2}, torch.tensor{3, 4}}.shape --> [1, 2, 2]",
            .compose = [](Call& c) { join(c, "dstack", as_list(at_least(list_of(c), 3)), 2); },
            .samples =
                [](Samples& s) {
                  s.add({s.list({s.normal({2, 3}), s.normal({2, 3})})});
                }});
const Op& column_stack =
    add_op({.name = "column_stack",
            .args = "tensors: tensors",
            .doc = "Tensors joined side by side; rows become columns first.",
            .where = kFunction,
            .amp = Amp::Widest,
            .see = "hstack, cat",
            .rule = "[n] or [n, m] each -> [n, columns]",
            .example = "torch.column_stack{torch.tensor{1, 2}, torch.tensor{3, 4}} --> i64 [2, 2]\n"
                       " 1  3\n"
                       " 2  4",
            .compose =
                [](Call& c) {
                  Tensors list = list_of(c);
                  for (Tensor& t : list)
                    if (t.rank() <= 1) t = op<"reshape">(t, Sizes{t.numel(), 1});
                  join(c, "column_stack", std::move(list), 1);
                },
            .samples =
                [](Samples& s) {
                  s.add({s.list({s.normal({2}), s.normal({2, 3})})});
                }});

const Op& meshgrid =
    add_op({.name = "meshgrid",
            .args = "tensors: tensors*, indexing: string = ij",
            .doc = "Views that spread each list over its own dimension of a common grid.",
            .where = kFunction,
            .see = "cartesian_prod, broadcast_tensors",
            .rule = "[n], [m], .. -> [n, m, ..] for each",
            .example = "a, b = torch.meshgrid(torch.tensor{1, 2}, torch.tensor{7, 8, 9})\n"
                       "a --> i64 [2, 3]  view  non-contiguous\n"
                       " 1  1  1\n"
                       " 2  2  2\n"
                       "b --> i64 [2, 3]  view  non-contiguous\n"
                       " 7  8  9\n"
                       " 7  8  9",
            .compose =
                [](Call& c) {
                  Tensors list = list_of(c);
                  const bool xy = !std::strcmp(c.string(1), "xy");
                  TYCHO_CHECK(Kind::Value, xy || !std::strcmp(c.string(1), "ij"),
                              "meshgrid: indexing is \"ij\" or \"xy\", not \"%s\"", c.string(1));
                  const int n = static_cast<int>(list.size());
                  const bool swap = xy && n >= 2;
                  if (swap) std::swap(list[0], list[1]);
                  Sizes shape;
                  for (const Tensor& t : list) {
                    TYCHO_CHECK(Kind::Shape, t.rank() <= 1, "meshgrid: lists are expected, not %s",
                                to_string(t.shape()).c_str());
                    TYCHO_CHECK(Kind::DType, t.dtype() == list[0].dtype(),
                                "meshgrid: all lists need one type, not %s and %s",
                                dtype_name(list[0].dtype()), dtype_name(t.dtype()));
                    shape.push_back(t.numel());
                  }
                  Tensors grids;
                  for (int k = 0; k < n; ++k) {
                    Sizes own;
                    for (int d = 0; d < n; ++d) own.push_back(d == k ? shape[d] : 1);
                    Tensor g = op<"expand">(op<"reshape">(list[k], own), shape);
                    grids.push_back(g);
                  }
                  if (swap) std::swap(grids[0], grids[1]);
                  for (Tensor& g : grids) c.out.push_back(g);
                },
            .samples =
                [](Samples& s) {
                  s.add({s.list({s.normal({2}), s.normal({3})})});
                  s.add({s.list({s.normal({2}), s.normal({3}), s.normal({})}), "xy"});
                }});
const Op& cartesian_prod = add_op(
    {.name = "cartesian_prod",
     .args = "tensors: tensors*",
     .doc = "All combinations of one element from each list, one per row.",
     .where = kFunction,
     .see = "meshgrid",
     .rule = "[n], [m], .. -> [n * m * .., number of lists]",
     .example = "torch.cartesian_prod(torch.tensor{1, 2}, torch.tensor{8, 9}) --> i64 [4, 2]\n"
                " 1  8\n"
                " 1  9\n"
                " 2  8\n"
                " 2  9",
     .compose =
         [](Call& c) {
           const Tensors list = list_of(c);
           for (const Tensor& t : list)
             TYCHO_CHECK(Kind::Shape, t.rank() == 1, "cartesian_prod: lists are expected, not %s",
                         to_string(t.shape()).c_str());
           if (list.size() == 1) {
             c.out.push_back(list[0]);
             return;
           }
           Tensors columns = as_list(ops<"meshgrid">(list, "ij"));
           for (Tensor& t : columns) t = op<"reshape">(t, Sizes{-1});
           stacked(c, "cartesian_prod", columns, 1);
         },
     .samples =
         [](Samples& s) {
           s.add({s.list({s.normal({2}), s.normal({3})})});
         }});
const Op& block_diag =
    add_op({.name = "block_diag",
            .args = "tensors: tensors*",
            .doc = "Matrices set along the diagonal of a larger one, zeros elsewhere.",
            .where = kFunction,
            .see = "diag_embed, cat",
            .rule = "[n1, m1], [n2, m2], .. -> [n1 + n2 + .., m1 + m2 + ..]",
            .example = "torch.block_diag(torch.tensor{{1, 2}}, torch.tensor{{3}}) --> i64 [2, 3]\n"
                       " 1  2  0\n"
                       " 0  0  3",
            .compose =
                [](Call& c) {
                  Tensors list = list_of(c);
                  Promotion type;
                  int64_t cols = 0;
                  for (size_t k = 0; k < list.size(); ++k) {
                    TYCHO_CHECK(Kind::Shape, list[k].rank() <= 2,
                                "block_diag: tensor %d is no matrix, but %s",
                                static_cast<int>(k) + 1, to_string(list[k].shape()).c_str());
                    type.add(list[k].dtype(), true);
                    list[k] = ops<"atleast_2d">(Tensors{list[k]})[0];
                    cols += list[k].size(1);
                  }
                  Tensors bands;
                  int64_t at = 0;
                  for (Tensor& t : list) {
                    if (t.dtype() != type.result()) t = op<"to.dtype">(t, type.result());
                    const int64_t w = t.size(1);
                    bands.push_back(op<"pad_constant">(t, Sizes{at, cols - at - w}, int64_t{0}));
                    at += w;
                  }
                  join(c, "block_diag", bands, 0);
                },
            .samples =
                [](Samples& s) {
                  s.add({s.list({s.normal({2, 3}), s.normal({}), s.normal({2})})});
                }});
BATCH("cat_sized", by_dims);

}  // namespace
}  // namespace tycho
