// Splitting a tensor into views: split, chunk, tensor_split and its forms, unbind. The gradient of
// the parts is joined again.
#include <algorithm>
#include <vector>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/shape/slice.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/read.h"

namespace tycho {
namespace {

// Splits: the sizes along a dimension decide; the gradient joins what comes back.
void split_views(Call& c, int d, const std::vector<int64_t>& sizes) {
  const Tensor& x = c.tensor(0);
  int64_t at = 0;
  Sizes shape = x.shape();
  for (int64_t n : sizes) {
    shape[d] = n;
    c.out.push_back(alias(x, shape, x.strides(), x->offset + (n ? at * x.stride(d) : 0)));
    at += n;
  }
}
void split_grad(Backward& b, int64_t dim) {
  std::vector<Tensor> parts;
  for (int i = 0; i < b.grads.size(); ++i) parts.push_back(b.g(i));
  b.set(0, op<"cat">(parts, dim));
}
int split_dim(Call& c, int arg) {
  const int rank = c.tensor(0).rank();
  TYCHO_CHECK(Kind::Shape, rank > 0, "%s: a 0-d tensor cannot be split", c.op->name);
  const int d = wrap_dim(c.integer(arg), rank);
  c.arg[arg] = Value(static_cast<int64_t>(d));
  return d;
}
// Parts of `size` each, the last maybe smaller.
std::vector<int64_t> even_sizes(int64_t n, int64_t size) {
  std::vector<int64_t> sizes;
  for (int64_t at = 0; at < n; at += size) sizes.push_back(std::min(size, n - at));
  if (sizes.empty()) sizes.push_back(0);
  return sizes;
}

const Op& split =
    add_op({.name = "split",
            .args = "tensor, split_size_or_sections: int, dim: dim = 0",
            .doc = "Views of parts of one size along a dimension; the last may be smaller.",
            .view = true,
            .see = "chunk, tensor_split, cat",
            .rule = "[.., n, ..] -> parts [.., split_size, ..]",
            .example = "a, b = torch.arange(5):split(3)\n"
                       "a --> i64 [3]  view  0 1 2\n"
                       "b --> i64 [2]  view  3 4",
            .shape =
                [](Call& c) {
                  const int d = split_dim(c, 2);
                  const int64_t size = c.integer(1), n = c.tensor(0).size(d);
                  TYCHO_CHECK(Kind::Value, size > 0 || (size == 0 && n == 0),
                              "split: parts of size %lld cannot be", static_cast<long long>(size));
                  split_views(c, d, even_sizes(n, size));
                },
            .grad = [](Backward& b) { split_grad(b, b.integer(2)); },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({5, 3}), 2});
                  s.add({s.normal({2, 6}), 3, 1});
                }});
const Op& split_sizes = add_op(
    {.name = "split.sizes",
     .args = "tensor, split_size_or_sections: ints, dim: dim = 0",
     .doc = "Views of parts of given sizes along a dimension.",
     .view = true,
     .see = "chunk, cat",
     .rule = "[.., n, ..] -> parts [.., size, ..]",
     .example = "a, b = torch.arange(5):split{1, 4}\n"
                "b --> i64 [4]  view  1 2 3 4",
     .shape =
         [](Call& c) {
           const int d = split_dim(c, 2);
           const int64_t n = c.tensor(0).size(d);
           int64_t sum = 0;
           std::vector<int64_t> sizes(c.arg[1].ints, c.arg[1].ints + c.arg[1].n);
           for (int64_t size : sizes) {
             TYCHO_CHECK(Kind::Value, size >= 0 && size <= n,
                         "split: a part of size %lld does not fit into dimension %d with size %lld",
                         static_cast<long long>(size), d + 1, static_cast<long long>(n));
             sum += size;
           }
           TYCHO_CHECK(Kind::Value, sum == n,
                       "split: the sizes sum to %lld, dimension %d has size %lld",
                       static_cast<long long>(sum), d + 1, static_cast<long long>(n));
           split_views(c, d, sizes);
         },
     .grad = [](Backward& b) { split_grad(b, b.integer(2)); },
     .samples =
         [](Samples& s) {
           s.add({s.normal({5, 3}), s.ints({1, 4})});
           s.add({s.normal({2, 6}), s.ints({3, 0, 3}), -1});
         }});
const Op& split_with_sizes =
    add_also(split_sizes, "split_with_sizes", "self, split_sizes: ints, dim: dim = 0");
const Op& chunk = add_op(
    {.name = "chunk",
     .args = "self, chunks: int, dim: dim = 0",
     .doc =
         "Views of at most `chunks` parts of one size along a dimension; the last may be smaller.",
     .view = true,
     .see = "split, tensor_split",
     .rule = "[.., n, ..] -> `chunks` times [.., about n / chunks, ..]",
     .example = "a, b = torch.arange(5):chunk(2)\n"
                "a --> i64 [3]  view  0 1 2\n"
                "b --> i64 [2]  view  3 4",
     .shape =
         [](Call& c) {
           const int d = split_dim(c, 2);
           const int64_t chunks = c.integer(1), n = c.tensor(0).size(d);
           TYCHO_CHECK(Kind::Value, chunks > 0, "chunk: a tensor cannot be cut into %lld parts",
                       static_cast<long long>(chunks));
           TYCHO_CHECK(Kind::Value, n || chunks <= (1 << 20), "chunk: %lld parts are too many",
                       static_cast<long long>(chunks));
           split_views(c, d,
                       n ? even_sizes(n, (n - 1) / chunks + 1)
                         : std::vector<int64_t>(static_cast<size_t>(chunks), 0));
         },
     .grad = [](Backward& b) { split_grad(b, b.integer(2)); },
     .samples =
         [](Samples& s) {
           s.add({s.normal({5, 3}), 2});
           s.add({s.normal({2, 7}), 3, 1});
         }});

const Op& tensor_split =
    add_op({.name = "tensor_split",
            .args = "self, indices_or_sections: int, dim: dim = 0",
            .doc = "Views of exactly so many parts along a dimension, as equal as can be.",
            .view = true,
            .see = "split, chunk",
            .rule = "[.., n, ..] -> parts of about n / sections",
            .example = "a, b = torch.arange(5):tensor_split(2)\n"
                       "a --> i64 [3]  view  0 1 2\n"
                       "b --> i64 [2]  view  3 4",
            .shape =
                [](Call& c) {
                  const int d = split_dim(c, 2);
                  const int64_t parts = c.integer(1), n = c.tensor(0).size(d);
                  TYCHO_CHECK(Kind::Value, parts > 0 && parts <= (1 << 24),
                              "tensor_split: a tensor cannot be cut into %lld parts",
                              static_cast<long long>(parts));
                  std::vector<int64_t> sizes;
                  for (int64_t i = 0; i < parts; ++i) sizes.push_back(n / parts + (i < n % parts));
                  split_views(c, d, sizes);
                },
            .grad = [](Backward& b) { split_grad(b, b.integer(2)); },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({5, 3}), 3});
                }});
const Op& tensor_split_at =
    add_op({.name = "tensor_split.indices",
            .args = "self, indices_or_sections: ints, dim: dim = 0",
            .doc = "Views cut at given counts of elements along a dimension, as Python's slices.",
            .view = true,
            .see = "split",
            .rule = "[.., n, ..] -> parts cut after the given counts",
            .example = "a, b, c = torch.arange(5):tensor_split{1, 3}\n"
                       "b --> i64 [2]  view  1 2",
            .shape =
                [](Call& c) {
                  // As Python's slices: points are clamped, and may go back. Parts are views by
                  // offset.
                  const Tensor& x = c.tensor(0);
                  const int d = split_dim(c, 2);
                  const int64_t n = x.size(d);
                  int64_t start = 0;
                  for (uint32_t k = 0; k <= c.arg[1].n; ++k) {
                    int64_t stop = k < c.arg[1].n ? c.arg[1].ints[k] : n;
                    if (stop < 0) stop += n;
                    stop = std::clamp<int64_t>(stop, 0, n);
                    slice_view(c, d, start, std::max(start, stop), 1);
                    start = stop;
                  }
                },
            .grad =
                [](Backward& b) {
                  // The parts may overlap or leave gaps: each gradient goes to its own place.
                  const Sizes shape = b.shape(0);
                  const int d = static_cast<int>(b.integer(2));
                  Tensor sum;
                  int64_t start = 0;
                  for (int i = 0; i < b.grads.size(); ++i) {
                    int64_t stop = i < b.count(1) ? b.arg(1).ints[i] : shape[d];
                    if (stop < 0) stop += shape[d];
                    stop = std::clamp<int64_t>(stop, 0, shape[d]);
                    if (b.has_g(i) && stop > start) {
                      const Tensor part = op<"slice_backward">(b.g(i), shape, d, start, stop, 1);
                      sum = sum ? sum + part : part;
                    }
                    start = stop;
                  }
                  if (sum) b.set(0, sum);
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({5, 3}), s.ints({1, 3})});
                  s.add({s.normal({2, 6}), s.ints({4, 2}), -1});
                }});

const Op& tensor_split_tensor = add_op(
    {.name = "tensor_split.tensor",
     .args = "self, tensor_indices_or_sections, dim: dim = 0",
     .doc = "Views of as many parts as a 0-d tensor says, or cut at the counts in a list.",
     .any_device = true,
     .see = "split",
     .rule = "[.., n, ..] -> parts",
     .example = "a, b = torch.arange(5):tensor_split(torch.tensor(2))\n"
                "b --> i64 [2]  view  3 4",
     .compose =
         [](Call& c) {
           const Tensor& at = c.tensor(1);
           TYCHO_CHECK(Kind::DType, at.dtype() == DType::Int64,
                       "tensor_split: the points must be int64, not %s", dtype_name(at.dtype()));
           TYCHO_CHECK(Kind::Shape, at.rank() <= 1,
                       "tensor_split: the points must be a number or a list, not %s",
                       to_string(at.shape()).c_str());
           need_values(c.op->name, at);
           c.out = at.rank() == 0
                       ? ops<"tensor_split">(c.tensor(0), item<int64_t>(at), c.integer(2))
                       : ops<"tensor_split.indices">(c.tensor(0), items<int64_t>(at), c.integer(2));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({5, 3}), s.of({2}, {1, 3}, DType::Int64)});
           s.add({s.normal({5, 3}), s.of({}, {2}, DType::Int64)});
         }});

// hsplit, vsplit, dsplit: tensor_split along dimension 2 (or the only one), 1, 3.
template <int Dim>
void split_along(Call& c) {
  const int rank = c.tensor(0).rank(), d = Dim == 1 && rank == 1 ? 0 : Dim;
  const int least = Dim == 1 ? 1 : Dim == 0 ? 2 : 3;
  TYCHO_CHECK(Kind::Shape, rank >= least, "%s: at least %d dimension%s needed, not %d",
              std::string(c.op->name).substr(0, 6).c_str(), least, least > 1 ? "s are" : " is",
              rank);
  if (c.arg[1].tag == Tag::Int) {
    const int64_t n = c.tensor(0).size(d), parts = c.integer(1);
    TYCHO_CHECK(Kind::Value, parts > 0 && n % parts == 0,
                "%s: dimension %d with size %lld does not divide into %lld parts",
                std::string(c.op->name).substr(0, 6).c_str(), d + 1, static_cast<long long>(n),
                static_cast<long long>(parts));
    c.out = ops<"tensor_split">(c.tensor(0), parts, d);
  } else {
    c.out = ops<"tensor_split.indices">(c.tensor(0), c.arg[1], d);
  }
}
const Op& hsplit =
    add_op({.name = "hsplit",
            .args = "self, indices_or_sections: int",
            .doc = "Views of equal parts along the second dimension (the only one of a row).",
            .see = "tensor_split, vsplit",
            .rule = "[n, m, ..] -> parts [n, m / parts, ..]",
            .example = "a, b = torch.arange(4):hsplit(2)\n"
                       "b --> i64 [2]  view  2 3",
            .compose = split_along<1>,
            .samples = [](Samples& s) {
              s.add({s.normal({2, 6}), 3});
            }});
const Op& hsplit_at =
    add_op({.name = "hsplit.indices",
            .args = "self, indices_or_sections: ints",
            .doc = "Views cut at given counts along the second dimension (the only one of a row).",
            .see = "tensor_split",
            .rule = "[n, m, ..] -> parts along dimension 2",
            .example = "a, b = torch.arange(4):hsplit{1}\n"
                       "b --> i64 [3]  view  1 2 3",
            .compose = split_along<1>,
            .samples = [](Samples& s) {
              s.add({s.normal({6}), s.ints({1, 3})});
            }});
const Op& vsplit = add_op({.name = "vsplit",
                           .args = "self, indices_or_sections: int",
                           .doc = "Views of equal parts along the first dimension.",
                           .see = "tensor_split, hsplit",
                           .rule = "[n, m, ..] -> parts [n / parts, m, ..]",
                           .example = "a, b = torch.tensor{{1, 2}, {3, 4}}:vsplit(2)\n"
                                      "b --> i64 [1, 2]  view\n"
                                      " 3  4",
                           .compose = split_along<0>,
                           .samples = [](Samples& s) {
                             s.add({s.normal({6, 2}), 3});
                           }});
const Op& vsplit_at = add_op({.name = "vsplit.indices",
                              .args = "self, indices_or_sections: ints",
                              .doc = "Views cut at given counts along the first dimension.",
                              .see = "tensor_split",
                              .rule = "[n, m, ..] -> parts along dimension 1",
                              .example = "a, b = torch.tensor{{1, 2}, {3, 4}, {5, 6}}:vsplit{1}\n"
                                         "b --> i64 [2, 2]  view\n"
                                         " 3  4\n"
                                         " 5  6",
                              .compose = split_along<0>,
                              .samples = [](Samples& s) {
                                s.add({s.normal({6, 2}), s.ints({1, 3})});
                              }});
const Op& dsplit = add_op({.name = "dsplit",
                           .args = "self, indices_or_sections: int",
                           .doc = "Views of equal parts along the third dimension.",
                           .see = "tensor_split, hsplit, vsplit",
                           .rule = "[n, m, k, ..] -> parts [n, m, k / parts, ..]",
                           .example = "a, b = torch.ones(1, 1, 4):dsplit(2)\n"
                                      "a.shape --> [1, 1, 2]",
                           .compose = split_along<2>,
                           .samples = [](Samples& s) {
                             s.add({s.normal({2, 2, 6}), 3});
                           }});
const Op& dsplit_at = add_op({.name = "dsplit.indices",
                              .args = "self, indices_or_sections: ints",
                              .doc = "Views cut at given counts along the third dimension.",
                              .see = "tensor_split",
                              .rule = "[n, m, k, ..] -> parts along dimension 3",
                              .example = "a, b = torch.ones(1, 1, 4):dsplit{1}\n"
                                         "b.shape --> [1, 1, 3]",
                              .compose = split_along<2>,
                              .samples = [](Samples& s) {
                                s.add({s.normal({2, 2, 6}), s.ints({1, 3})});
                              }});

const Op& unbind =
    add_op({.name = "unbind",
            .args = "self, dim: dim = 0",
            .doc = "Views of all positions along a dimension, which disappears.",
            .view = true,
            .see = "stack, split",
            .rule = "[.., n, ..] -> n tensors [.., ..]",
            .example = "a, b = torch.tensor{{1, 2}, {3, 4}}:unbind()\n"
                       "b --> i64 [2]  view  3 4",
            .shape =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  TYCHO_CHECK(Kind::Dim, x.rank() > 0, "unbind: a 0-d tensor has no dimensions");
                  const int d = split_dim(c, 1);
                  Sizes shape = x.shape(), stride = x.strides();
                  shape.erase(d);
                  stride.erase(d);
                  for (int64_t i = 0; i < x.size(d); ++i)
                    c.out.push_back(alias(x, shape, stride, x->offset + i * x.stride(d)));
                },
            .grad =
                [](Backward& b) {
                  std::vector<Tensor> parts;
                  for (int i = 0; i < b.grads.size(); ++i) parts.push_back(b.g(i));
                  b.set(0, op<"stack">(parts, b.integer(1)));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({3, 2})});
                  s.add({s.normal({2, 3, 2}), -2});
                }});

BATCH("split", by_dims);
BATCH("split.sizes", by_dims);
BATCH("chunk", by_dims);
BATCH("unbind", by_dims);

}  // namespace
}  // namespace tycho
