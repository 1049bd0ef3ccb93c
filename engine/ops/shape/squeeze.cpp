// Views that join, part and drop dimensions: squeeze, unsqueeze, flatten, ravel, unflatten.
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/shape/view.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

void restrided(Call& c, const Sizes& shape, const Sizes& stride) {
  c.out.push_back(alias(c.tensor(0), shape, stride, c.tensor(0)->offset));
}
const Op& squeeze =
    add_op({.name = "squeeze",
            .args = "self, dim: dims?",
            .doc = "A view without the dimensions of size 1 (of those named, or of all).",
            .inplace = Inplace::Copy,
            .view = true,
            .see = "unsqueeze, flatten",
            .rule = "[n, 1, m] -> [n, m]",
            .example = "torch.zeros(2, 1, 3):squeeze(2).shape --> [2, 3]\n"
                       "torch.zeros(1, 3, 1):squeeze().shape --> [3]",
            .shape =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  uint32_t bits = 0;
                  if (!c.has(1)) bits = ~0u;
                  for (int k = 0; c.has(1) && k < c.count(1); ++k)
                    bits |= 1u << wrap_dim(c.arg[1].ints[k], x.rank());
                  Sizes shape, stride;
                  for (int d = 0; d < x.rank(); ++d)
                    if (x.size(d) != 1 || !(bits >> d & 1)) {
                      shape.push_back(x.size(d));
                      stride.push_back(x.stride(d));
                    }
                  restrided(c, shape, stride);
                },
            .grad = reshape_back,
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 1, 3, 1})});
                  s.add({s.normal({2, 1, 3, 1}), s.ints({1})});
                  s.add({s.normal({2, 1, 3, 1}), s.ints({-1, 0})});
                }});
const Op& unsqueeze = add_op({.name = "unsqueeze",
                              .args = "self, dim: dim",
                              .doc = "A view with a new dimension of size 1 at the given place.",
                              .inplace = Inplace::Copy,
                              .view = true,
                              .see = "squeeze, view, indexing",
                              .rule = "[n, m], dim 2 -> [n, 1, m]",
                              .example = "torch.tensor{1, 2}:unsqueeze(1).shape --> [1, 2]\n"
                                         "torch.tensor{1, 2}:unsqueeze(2) --> i64 [2, 1]  view\n"
                                         " 1\n"
                                         " 2",
                              .shape =
                                  [](Call& c) {
                                    const Tensor& x = c.tensor(0);
                                    const int d = wrap_dim(c.integer(1), x.rank() + 1);
                                    Sizes shape = x.shape(), stride = x.strides();
                                    stride.insert(d, d < x.rank() ? stride[d] * shape[d] : 1);
                                    shape.insert(d, 1);
                                    restrided(c, shape, stride);
                                  },
                              .grad = reshape_back,
                              .samples =
                                  [](Samples& s) {
                                    s.add({s.normal({2, 3}), 0});
                                    s.add({s.normal({2, 3}), -1});
                                    s.add({s.normal({}), 0});
                                  }});
const Op& flatten =
    add_op({.name = "flatten",
            .args = "self, start_dim: dim = 0, end_dim: dim = -1",
            .doc = "The dimensions from start_dim to end_dim made into one.",
            .see = "view, ravel, unflatten",
            .rule = "[a, b, c] -> [a * b * c]; from 2 on [a, b * c]",
            .example = "torch.zeros(2, 3, 4):flatten(2).shape --> [2, 12]\n"
                       "torch.tensor{{1, 2}, {3, 4}}:flatten() --> i64 [4]  view  1 2 3 4",
            .compose =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  const int first = wrap_dim(c.integer(1), x.rank()),
                            last = wrap_dim(c.integer(2), x.rank());
                  TYCHO_CHECK(Kind::Dim, first <= last,
                              "flatten: start_dim %d comes after end_dim %d", first + 1, last + 1);
                  Sizes shape;
                  int64_t n = 1;
                  for (int d = 0; d < x.rank(); ++d) {
                    if (d >= first && d <= last) n *= x.size(d);
                    if (d == last) shape.push_back(n);
                    if (d < first || d > last) shape.push_back(x.size(d));
                  }
                  if (x.rank() == 0) shape.push_back(1);
                  if (first == last && x.rank())
                    c.out.push_back(x);
                  else
                    c.out.push_back(op<"reshape">(x, shape));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3, 4})});
                  s.add({s.normal({2, 3, 4}), 1});
                  s.add({s.normal({})});
                }});
const Op& ravel =
    add_op({.name = "ravel",
            .args = "self",
            .doc = "All elements in one dimension.",
            .see = "flatten, view",
            .rule = "any shape -> [number of elements]",
            .example = "torch.tensor{{1, 2}, {3, 4}}:ravel() --> i64 [4]  view  1 2 3 4",
            .compose = [](Call& c) { c.out.push_back(op<"reshape">(c.tensor(0), Sizes{-1})); },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3})});
                }});
const Op& unflatten = add_op(
    {.name = "unflatten",
     .args = "self, dim: dim, sizes: ints",
     .doc = "One dimension divided into several; one size may be -1.",
     .see = "view, flatten",
     .rule = "[.., a * b, ..] -> [.., a, b, ..]",
     .example = "torch.arange(6):unflatten(1, {2, 3}) --> i64 [2, 3]  view\n"
                " 0  1  2\n"
                " 3  4  5",
     .compose =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           TYCHO_CHECK(Kind::Shape, x.rank() > 0 && c.count(2) > 0,
                       "unflatten: a dimension and its new sizes must be given");
           const int d = wrap_dim(c.integer(1), x.rank());
           int64_t known = 1;
           int unknown = 0;
           for (int64_t n : c.ints(2)) n == -1 ? void(++unknown) : void(known *= n);
           const bool fits = unknown == 0 ? known == x.size(d)
                                          : unknown == 1 && known > 0 && x.size(d) % known == 0;
           TYCHO_CHECK(Kind::Shape, fits,
                       "unflatten: sizes %s do not multiply to %lld, the size of dimension %d",
                       to_string(c.ints(2)).c_str(), static_cast<long long>(x.size(d)), d + 1);
           Sizes shape;
           for (int k = 0; k < x.rank(); ++k) {
             if (k != d) shape.push_back(x.size(k));
             if (k == d)
               for (int64_t n : c.ints(2)) shape.push_back(n == -1 ? x.size(d) / known : n);
           }
           c.out.push_back(op<"view">(x, shape));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 6}), 1, s.ints({3, -1})});
           s.add({s.normal({4, 3}), 0, s.ints({2, 2})});
         }});

// No graph, but the same storage: a change in one is seen, and counted, in the other. It is no view
// to the graph, which would join it again after such a change.

BATCH("squeeze", [](Spread& s) -> BatchResults {
  const Tensor& x = s.one.tensor(0);
  Sizes dims;
  if (s.one.has(1)) {
    for (int64_t d : s.one.ints(1)) dims.push_back(wrap_dim(d, x.rank()) + 1);
  } else {
    for (int d = 0; d < x.rank(); ++d)
      if (x.size(d) == 1) dims.push_back(d + 1);
  }
  if (dims.n == 0) return {op<"alias">(s.tensor(0))};
  return {op<"squeeze">(s.tensor(0), dims)};
});
BATCH("unsqueeze", [](Spread& s) -> BatchResults {
  return {op<"unsqueeze">(s.tensor(0), wrap_dim(s.one.integer(1), s.rank(0) + 1) + 1)};
});

}  // namespace
}  // namespace tycho
