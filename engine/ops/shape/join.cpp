// Tensors joined and repeated: cat, stack and their relatives, repeat, tile, meshgrid, products.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/shape/create.h"
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

Tensor join(const char* name, Tensors list, int64_t dim) {
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
  if (kept.empty()) return filled({0}, 0, to, list[0].device());
  return op<"cat_sized">(kept, d, sizes);
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
            .compose = [](Call& c) { c.out.push_back(join("cat", list_of(c), c.integer(1))); },
            .samples =
                [](Samples& s) {
                  s.add({s.list({s.normal({2, 3}), s.normal({4, 3})})});
                  s.add({s.list({s.normal({2, 3}), s.normal({2, 1}), s.normal({2, 2})}), -1});
                  s.add({s.list({s.normal({2}), s.integers({3}, 0, 9)})});
                  s.add({s.list({s.normal({0}), s.normal({2, 3})}), 1});
                }});
const Op& concat = add_also(cat, "concat");
const Op& concatenate = add_also(cat, "concatenate");

Tensor stacked(const char* name, Tensors list, int64_t dim) {
  const Sizes shape = list[0].shape();
  const int d = wrap_dim(dim, shape.n + 1);
  for (size_t k = 0; k < list.size(); ++k) {
    TYCHO_CHECK(Kind::Value, list[k].shape() == shape,
                "%s: all tensors need one shape, but tensor 1 has %s and tensor %d %s", name,
                to_string(shape).c_str(), static_cast<int>(k) + 1,
                to_string(list[k].shape()).c_str());
    list[k] = op<"unsqueeze">(list[k], d);
  }
  return join(name, std::move(list), d);
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
            .compose = [](Call& c) { c.out.push_back(stacked("stack", list_of(c), c.integer(1))); },
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
                  c.out.push_back(join("hstack", std::move(list), d));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.list({s.normal({2, 3}), s.normal({2, 1})})});
                  s.add({s.list({s.normal({2}), s.normal({})})});
                }});
const Op& vstack = add_op(
    {.name = "vstack",
     .args = "tensors: tensors",
     .doc = "Tensors joined one below the other, along the first dimension.",
     .where = kFunction,
     .amp = Amp::Widest,
     .see = "cat, hstack",
     .rule = "[n1, m], [n2, m] -> [n1 + n2, m]; [m], [m] -> [2, m]",
     .example = "torch.vstack{torch.tensor{1, 2}, torch.tensor{3, 4}} --> i64 [2, 2]\n"
                " 1  2\n"
                " 3  4",
     .compose =
         [](Call& c) { c.out.push_back(join("vstack", as_list(at_least(list_of(c), 2)), 0)); },
     .samples =
         [](Samples& s) {
           s.add({s.list({s.normal({2, 3}), s.normal({3})})});
         }});
const Op& row_stack = add_also(vstack, "row_stack");
const Op& dstack = add_op(
    {.name = "dstack",
     .args = "tensors: tensors",
     .doc = "Tensors joined along the third dimension.",
     .where = kFunction,
     .amp = Amp::Widest,
     .see = "stack, hstack",
     .rule = "[n, m] each -> [n, m, number of tensors]",
     .example = "torch.dstack{torch.tensor{1, 2}, torch.tensor{3, 4}}.shape --> [1, 2, 2]",
     .compose =
         [](Call& c) { c.out.push_back(join("dstack", as_list(at_least(list_of(c), 3)), 2)); },
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
                  c.out.push_back(join("column_stack", std::move(list), 1));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.list({s.normal({2}), s.normal({2, 3})})});
                }});

// Copies a block until it fills a dimension: each copy doubles what is there.
void replicate(const Tensor& block, int d, int64_t size, int64_t total) {
  Sizes shape = block.shape();
  for (int64_t done = size; done < total;) {
    const int64_t n = std::min(done, total - done);
    shape[d] = n;
    copy_raw(alias(block, shape, block.strides(), block->offset + done * block.stride(d)),
             alias(block, shape, block.strides(), block->offset));
    done += n;
  }
}
const Op& repeat = add_op(
    {.name = "repeat",
     .args = "self, repeats: ints*",
     .doc = "The tensor repeated along each dimension; new dimensions may lead. In Lua also "
            "x:tile(...).",
     .where = kMethod,
     .see = "tile, expand, repeat_interleave",
     .rule = "[n, m], repeats r, s -> [r n, s m]",
     .example = "torch.tensor{1, 2}:tile(2) --> i64 [4]  1 2 1 2\n"
                "x = torch.tensor{1, 2}\n"
                "x[\"repeat\"](x, 2, 1) --> i64 [2, 2]\n"
                " 1  2\n"
                " 1  2",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           const Sizes times = c.ints(1);
           const int lead = times.n - x.rank();
           TYCHO_CHECK(Kind::Shape, lead >= 0,
                       "repeat: %d counts for a tensor with %d dimensions (%s)", times.n, x.rank(),
                       to_string(x.shape()).c_str());
           Sizes shape;
           for (int d = 0; d < times.n; ++d) {
             TYCHO_CHECK(Kind::Value, times[d] >= 0, "repeat: a count cannot be %lld",
                         static_cast<long long>(times[d]));
             shape.push_back(product({times[d], d < lead ? 1 : x.size(d - lead)}));
           }
           c.out.push_back(empty(shape, x.dtype(), x.device()));
         },
     .run =
         [](Call& c) {
           const Tensor &x = c.tensor(0), &out = c.out[0];
           if (out.numel() == 0) return;
           Sizes shape = x.shape();
           while (shape.n < out.rank()) shape.insert(0, 1);
           copy_raw(alias(out, shape, out.strides(), 0), x);
           for (int d = out.rank() - 1; d >= 0; --d) {
             const int64_t size = shape[d];
             shape[d] = out.size(d);
             replicate(alias(out, shape, out.strides(), 0), d, size, out.size(d));
           }
         },
     .grad =
         [](Backward& b) {
           const Sizes times = b.ints(1), whole = b.shape(0);
           Sizes have = whole;
           while (have.n < times.n) have.insert(0, 1);
           Tensor g = b.g();
           int64_t before = 1, after = g.numel();
           if (!after) {
             b.set(0, filled(whole, 0, g.dtype(), g.device()));
             return;
           }
           // One dimension after the other: [before, times, have, after] summed over times.
           for (int d = 0; d < times.n; ++d) {
             after /= times[d] * have[d];
             if (times[d] != 1)
               g = op<"sum">(op<"reshape">(g, Sizes{before, times[d], have[d] * after}), Sizes{1});
             before *= have[d];
           }
           b.set(0, op<"reshape">(g, whole));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3}), s.ints({2, 1})});
           s.add({s.normal({2, 3}), s.ints({3, 1, 2})});
           s.add({s.normal({}), s.ints({4})});
           s.add({s.normal({2}), s.ints({0})}, false);
         }});
const Op& tile = add_op({.name = "tile",
                         .args = "self, dims: ints*",
                         .doc = "The tensor repeated along each dimension; missing counts are 1.",
                         .see = "repeat_interleave, expand",
                         .rule = "[n, m], repeats r, s -> [r n, s m]",
                         .example = "torch.tensor{1, 2}:tile(2, 2) --> i64 [2, 4]\n"
                                    " 1  2  1  2\n"
                                    " 1  2  1  2",
                         .compose =
                             [](Call& c) {
                               Sizes times = c.ints(1);
                               while (times.n < c.tensor(0).rank()) times.insert(0, 1);
                               c.out.push_back(op<"repeat">(c.tensor(0), times));
                             },
                         .samples =
                             [](Samples& s) {
                               s.add({s.normal({2, 3}), s.ints({2})});
                               s.add({s.normal({3}), s.ints({2, 2})});
                             }});

const Op& evenly_repeated =
    add_op({.name = "evenly_repeated",
            .args = "n: int, times: int, device: device",
            .doc = "The positions 1 to n, each as often.",
            .where = kHidden,
            .differentiable = false,
            .shape =
                [](Call& c) {
                  c.out.push_back(empty({c.integer(0) * c.integer(1)}, DType::Int64, c.device(2)));
                },
            .samples =
                [](Samples& s) {
                  s.add({3, 2, Device()});
                }});

void check_counts(const Tensor& repeats) {
  TYCHO_CHECK(Kind::DType, repeats.dtype() == DType::Int64 || repeats.dtype() == DType::Int32,
              "repeat_interleave: counts are int64 or int32, not %s", dtype_name(repeats.dtype()));
  TYCHO_CHECK(Kind::Shape, repeats.rank() <= 1,
              "repeat_interleave: counts must be a number or a list, not %s",
              to_string(repeats.shape()).c_str());
}
// Each of n positions (from 1) k times.
Tensor repeated_evenly(int64_t n, int64_t k, const Value& output_size, Device device) {
  if (n) {
    TYCHO_CHECK(Kind::Value, k >= 0, "repeat_interleave: a count cannot be %lld",
                static_cast<long long>(k));
    TYCHO_CHECK(Kind::Shape, k < kMostRepeated && k * n / n == k && k * n < kMostRepeated,
                "repeat_interleave: too many elements");
  }
  const int64_t total = n ? k * n : 0;
  if (!output_size.is_none())
    TYCHO_CHECK(Kind::Value, output_size.i == total,
                "repeat_interleave: output_size is %lld, but the counts sum to %lld",
                static_cast<long long>(output_size.i), static_cast<long long>(total));
  return op<"evenly_repeated">(n, n ? k : 0, device);
}
const Op& repeat_interleave = add_op(
    {.name = "repeat_interleave",
     .args = "self, repeats: operand, dim: dim?, output_size: int?",
     .doc = "Each part along a dimension (each element when none) repeated in place.",
     .see = "tile, repeat",
     .rule = "[.., n, ..] -> [.., sum of repeats, ..]",
     .example = "torch.tensor{1, 2}:repeat_interleave(2) --> i64 [4]  1 1 2 2\n"
                "torch.tensor{1, 2}:repeat_interleave(torch.tensor{3, 1}) --> i64 [4]  1 1 1 2",
     .compose =
         [](Call& c) {
           Tensor x = c.tensor(0), repeats = c.tensor(1);
           TYCHO_CHECK(Kind::DType, repeats || c.arg[1].tag == Tag::Int,
                       "repeat_interleave: the count must be whole, not %g", c.number(1));
           int d = 0;
           if (c.has(2) && x.rank())
             d = wrap_dim(c.integer(2), x.rank());
           else
             x = op<"reshape">(x, Sizes{-1});
           const int64_t n = x.size(d);
           Tensor at;
           if (repeats) {
             check_counts(repeats);
             const bool one = repeats.numel() == 1;
             TYCHO_CHECK(Kind::Shape, one || repeats.numel() == n,
                         "repeat_interleave: %lld counts for %lld elements",
                         static_cast<long long>(repeats.numel()), static_cast<long long>(n));
             if (one) repeats = op<"expand">(op<"reshape">(repeats, Sizes{1}), Sizes{n});
             at = op<"repeat_interleave.counts">(repeats, c.arg[3]);
           } else {
             at = repeated_evenly(n, c.integer(1), c.arg[3], x.device());
           }
           c.out.push_back(op<"index_select">(x, d, at));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3}), 2});
           s.add({s.normal({2, 3}), 3, 1});
           s.add({s.normal({2, 3}), s.of({3}, {1, 0, 2}, DType::Int64), 1});
         }});
const Op& repeat_interleave_counts =
    add_op({.name = "repeat_interleave.counts",
            .args = "repeats, output_size: int?",
            .doc = "Each position as often as its count says.",
            .differentiable = false,
            .see = "tile",
            .rule = "[n] -> [sum of the counts]",
            .example = "torch.repeat_interleave(torch.tensor{3, 1}) --> i64 [4]  1 1 1 2",
            .size_from_values = true,
            .shape =
                [](Call& c) {
                  const Tensor& r = c.tensor(0);
                  TYCHO_CHECK(Kind::Shape, r.rank() == 1,
                              "repeat_interleave: counts must be a list, not %s",
                              to_string(r.shape()).c_str());
                  check_counts(r);
                  if (shapes_only && c.has(1) && c.integer(1) >= 0)
                    c.out.push_back(empty({c.integer(1)}, DType::Int64, r.device()));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.of({3}, {1, 0, 2}, DType::Int64)});
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
           c.out.push_back(stacked("cartesian_prod", columns, 1));
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
                    const int64_t n = t.size(0), w = t.size(1);
                    const auto gap = [&](int64_t width) {
                      return filled({n, width}, 0, t.dtype(), t.device());
                    };
                    bands.push_back(join("block_diag", {gap(at), t, gap(cols - at - w)}, 1));
                    at += w;
                  }
                  c.out.push_back(join("block_diag", bands, 0));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.list({s.normal({2, 3}), s.normal({}), s.normal({2})})});
                }});
const Op& kron = add_op(
    {.name = "kron",
     .args = "self, other",
     .doc = "Kronecker product: each element of the first times the whole second.",
     .see = "outer",
     .rule = "[n, m], [p, q] -> [n p, m q]",
     .example = "torch.kron(torch.tensor{1, 10}, torch.tensor{1, 2}) --> i64 [4]  view  1 2 10 20",
     .compose =
         [](Call& c) {
           Tensor a = c.tensor(0), b = c.tensor(1);
           const int n = std::max(a.rank(), b.rank());
           TYCHO_CHECK(Kind::Shape, 2 * n <= kMaxDims, "kron: at most %d dimensions, not %d",
                       kMaxDims / 2, n);
           Sizes sa, sb, shape;
           for (int d = 0; d < n; ++d) {
             const int64_t x = d < n - a.rank() ? 1 : a.size(d - n + a.rank()),
                           y = d < n - b.rank() ? 1 : b.size(d - n + b.rank());
             sa.push_back(x), sa.push_back(1);
             sb.push_back(1), sb.push_back(y);
             shape.push_back(x * y);
           }
           c.out.push_back(op<"reshape">(op<"reshape">(a, sa) * op<"reshape">(b, sb), shape));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3}), s.normal({2, 2})});
           s.add({s.normal({2}), s.normal({3, 2})});
         }});

}  // namespace
}  // namespace tycho
