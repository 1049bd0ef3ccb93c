// Views of other shapes: view, reshape, expand, atleast_1d and its kin, detach.
#include "engine/ops/shape/view.h"

#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/batch.h"
#include "engine/ops/table/samples.h"

namespace tycho {

void reshape_back(Backward& b) { b.set(0, op<"reshape">(b.g(), b.shape(0))); }

namespace {

// Fills in a -1 in a wanted shape; raises when the counts differ.
Sizes infer_shape(const char* name, const Tensor& x, Sizes want) {
  int unknown = -1;
  int64_t known = 1;
  for (int d = 0; d < want.n; ++d) {
    if (want[d] == -1) {
      TYCHO_CHECK(Kind::Shape, unknown < 0, "%s: only one size can be -1, not dimensions %d and %d",
                  name, unknown + 1, d + 1);
      unknown = d;
    } else {
      TYCHO_CHECK(Kind::Shape, want[d] >= 0, "%s: a size cannot be %lld", name,
                  static_cast<long long>(want[d]));
      if (__builtin_mul_overflow(known, want[d], &known))
        fail(Kind::Shape,
             format("%s: %s has too many elements, %s has %lld", name, to_string(want).c_str(),
                    to_string(x.shape()).c_str(), static_cast<long long>(x.numel())));
    }
  }
  if (unknown >= 0) {
    TYCHO_CHECK(Kind::Shape, known > 0 && x.numel() % known == 0,
                "%s: %lld elements (%s) do not divide into %s", name,
                static_cast<long long>(x.numel()), to_string(x.shape()).c_str(),
                to_string(want).c_str());
    want[unknown] = x.numel() / known;
  }
  TYCHO_CHECK(Kind::Shape, product(want) == x.numel(), "%s: %s has %lld elements, %s has %lld",
              name, to_string(want).c_str(), static_cast<long long>(product(want)),
              to_string(x.shape()).c_str(), static_cast<long long>(x.numel()));
  return want;
}

// Strides that show x with another shape, if there are any (as PyTorch's computeStride).
bool view_strides(const Tensor& x, const Sizes& want, Sizes* out) {
  if (x.contiguous() || x.numel() == 0) {
    *out = row_major(want);
    return true;
  }
  out->n = want.n;
  int d = want.n - 1;
  int64_t base = x.stride(-1), chunk = 1, taken = 1;
  for (int k = x.rank() - 1; k >= 0; --k) {
    chunk *= x.size(k);
    const bool ends = k == 0 || (x.size(k - 1) != 1 && x.stride(k - 1) != chunk * base);
    if (!ends) continue;
    while (d >= 0 && (taken < chunk || want[d] == 1)) {
      (*out)[d] = taken * base;
      taken *= want[d];
      --d;
    }
    if (taken != chunk) return false;
    if (k > 0) {
      base = x.stride(k - 1);
      chunk = taken = 1;
    }
  }
  return d == -1;
}

const Op& view = add_op(
    {.name = "view",
     .args = "self, size: ints*",
     .doc = "The same storage with another shape; one size may be -1.",
     .where = kMethod,
     .view = true,
     .see = "reshape, flatten, unsqueeze",
     .rule = "any shape -> a shape of as many elements",
     .example = "torch.arange(6):view(2, 3) --> i64 [2, 3]  view\n"
                " 0  1  2\n"
                " 3  4  5\n"
                "torch.arange(6):view(-1, 2).shape --> [3, 2]",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           const Sizes want = infer_shape("view", x, c.ints(1));
           Sizes stride;
           if (!view_strides(x, want, &stride))
             fail(Kind::Shape,
                  format("view: the elements of this tensor (%s, strides %s) do not lie in an "
                         "order that "
                         "%s can show without a copy",
                         to_string(x.shape()).c_str(), to_string(x.strides()).c_str(),
                         to_string(want).c_str()),
                  "x:reshape(" + to_string(want).substr(1, to_string(want).size() - 2) + ")");
           c.out.push_back(alias(x, want, stride, x->offset));
         },
     .grad = reshape_back,
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 6}), s.ints({3, -1})});
         }});

const Op& reshape =
    add_op({.name = "reshape",
            .args = "self, shape: ints*",
            .doc = "The tensor with another shape: a view when its layout allows, else a copy.",
            .see = "view, flatten",
            .rule = "any shape -> a shape of as many elements",
            .example = "torch.arange(6):reshape(2, 3) --> i64 [2, 3]  view\n"
                       " 0  1  2\n"
                       " 3  4  5\n"
                       "torch.arange(6):reshape(3, -1).shape --> [3, 2]",
            .compose =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  const Sizes want = infer_shape("reshape", x, c.ints(1));
                  straighten(x);
                  Sizes stride;
                  c.out.push_back(view_strides(x, want, &stride)
                                      ? op<"view">(x, want)
                                      : op<"view">(op<"clone">(x, "contiguous_format"), want));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 6}), s.ints({3, -1})});
                }});

const Op& expand = add_op(
    {.name = "expand",
     .args = "self, size: ints*",
     .doc = "A view with dimensions of size 1 stretched (-1 keeps a size); new ones may lead.",
     .where = kMethod,
     .view = true,
     .see = "broadcast_to, repeat",
     .rule = "[.., 1, ..] -> [.., n, ..]",
     .example = "torch.tensor{{1}, {2}}:expand(2, 3) --> i64 [2, 3]  view  non-contiguous\n"
                " 1  1  1\n"
                " 2  2  2",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           Sizes want = c.ints(1), stride;
           const int lead = want.n - x.rank();
           TYCHO_CHECK(Kind::Broadcast, lead >= 0,
                       "expand: %s has fewer dimensions than the tensor's %s",
                       to_string(want).c_str(), to_string(x.shape()).c_str());
           stride.n = want.n;
           for (int d = 0; d < want.n; ++d) {
             const int64_t have = d < lead ? 1 : x.size(d - lead);
             if (want[d] == -1 && d >= lead) want[d] = have;
             TYCHO_CHECK(Kind::Broadcast, want[d] >= 0 && (have == want[d] || have == 1),
                         "expand: %s cannot stretch to %s: dimension %d is %lld against %lld",
                         to_string(x.shape()).c_str(), to_string(want).c_str(), d + 1,
                         static_cast<long long>(have), static_cast<long long>(want[d]));
             stride[d] = d < lead || (have == 1 && want[d] != 1) ? 0 : x.stride(d - lead);
           }
           product(want);
           c.out.push_back(alias(x, want, stride, x->offset));
         },
     .grad = [](Backward& b) { b.set(0, op<"sum_to_size">(b.g(), b.shape(0))); },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 1}), s.ints({2, 3, 4})});
         }});

const Op& broadcast_to = []() -> const Op& {
  Op also = expand;
  also.where = kFunction | kMethod;
  return add_also(also, "broadcast_to");
}();

// The shape of another tensor.
template <OpName Name>
void as_other(Call& c) {
  c.out.push_back(op<Name>(c.tensor(0), c.tensor(1).shape()));
}
void two_shapes(Samples& s) { s.add({s.normal({2, 6}), s.normal({3, 4})}); }
const Op& view_as =
    add_op({.name = "view_as",
            .args = "self, other",
            .doc = "The same storage with the shape of another tensor.",
            .where = kMethod,
            .any_device = true,
            .see = "view",
            .rule = "any shape -> the shape of other",
            .example = "torch.arange(4):view_as(torch.zeros(2, 2)) --> i64 [2, 2]  view\n"
                       " 0  1\n"
                       " 2  3",
            .compose = as_other<"view">,
            .samples = two_shapes});
const Op& reshape_as =
    add_op({.name = "reshape_as",
            .args = "self, other",
            .doc = "The tensor with the shape of another tensor.",
            .where = kMethod,
            .any_device = true,
            .see = "reshape",
            .rule = "any shape -> the shape of other",
            .example = "torch.arange(4):reshape_as(torch.zeros(2, 2)) --> i64 [2, 2]  view\n"
                       " 0  1\n"
                       " 2  3",
            .compose = as_other<"reshape">,
            .samples = two_shapes});
const Op& expand_as = add_op({.name = "expand_as",
                              .args = "self, other",
                              .doc = "A view stretched to the shape of another tensor.",
                              .where = kMethod,
                              .any_device = true,
                              .see = "expand",
                              .rule = "a shape that broadcasts -> the shape of other",
                              .example = "torch.tensor{{1}, {2}}:expand_as(torch.zeros(2, 3)) --> "
                                         "i64 [2, 3]  view  non-contiguous\n"
                                         " 1  1  1\n"
                                         " 2  2  2",
                              .compose = as_other<"expand">,
                              .samples = [](Samples& s) {
                                s.add({s.normal({3, 1}), s.normal({2, 3, 4})});
                              }});

const Op& view_dtype = add_op(
    {.name = "view.dtype",
     .args = "self, dtype: dtype",
     .doc = "The same bytes read as another element type.",
     .where = kMethod,
     .differentiable = false,
     .see = "to",
     .rule = "[.., n] -> [.., n * old size / new size]",
     .example = "torch.tensor{1.0}:view(\"int32\") --> i32 [1]  1065353216",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           straighten(x);
           const DType to = c.arg[1].dtype;
           const int have = dtype_size(x.dtype()), want = dtype_size(to);
           Sizes shape = x.shape(), stride = x.strides();
           int64_t offset = x->offset;
           if (have != want) {
             TYCHO_CHECK(Kind::Shape, x.rank() > 0,
                         "view: a 0-d %s cannot be read as %s, which has another size",
                         dtype_name(x.dtype()), dtype_name(to));
             const int last = x.rank() - 1, ratio = have > want ? have / want : want / have;
             TYCHO_CHECK(Kind::Shape, stride[last] == 1 || shape[last] == 1 || x.numel() == 0,
                         "view: the last dimension must be contiguous to read %s as %s",
                         dtype_name(x.dtype()), dtype_name(to));
             if (have > want) {
               for (int d = 0; d < last; ++d) stride[d] *= ratio;
               shape[last] *= ratio;
               offset *= ratio;
             } else {
               bool fits = shape[last] % ratio == 0 && offset % ratio == 0;
               for (int d = 0; d < last; ++d)
                 fits = fits && (shape[d] <= 1 || stride[d] % ratio == 0);
               TYCHO_CHECK(Kind::Shape, fits, "view: %s %s (strides %s) does not divide into %s",
                           dtype_name(x.dtype()), to_string(shape).c_str(),
                           to_string(x.strides()).c_str(), dtype_name(to));
               for (int d = 0; d < last; ++d) stride[d] /= ratio;
               shape[last] /= ratio;
               offset /= ratio;
             }
             stride[last] = 1;
           }
           c.out.push_back(alias(x, shape, stride, offset));
           c.out[0]->dtype = to;
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3}), DType::Int32});
           s.add({s.integers({2, 4}, 0, 9), DType::Int16});
         }});

const Op& detach = add_op({.name = "detach",
                           .args = "self",
                           .doc = "The same values outside of the graph; storage is shared.",
                           .differentiable = false,
                           .see = "no_grad, requires_grad_",
                           .rule = "any shape -> the same shape",
                           .example = "w = torch.tensor({2.0}, {requires_grad=true})\n"
                                      "(w * 3):detach() --> f32 [1]  6",
                           .shape =
                               [](Call& c) {
                                 c.out.push_back(alias(c.tensor(0)));
                                 c.out[0]->is_number = false;
                               },
                           .samples =
                               [](Samples& s) {
                                 s.add({s.normal({2, 3})});
                               }});
const Op& alias_op = add_op({.name = "alias",
                             .args = "self",
                             .doc = "A view of the whole tensor.",
                             .where = kHidden,
                             .view = true,
                             .shape = [](Call& c) { c.out.push_back(alias(c.tensor(0))); },
                             .grad = [](Backward& b) { b.set(0, b.g()); },
                             .samples =
                                 [](Samples& s) {
                                   s.add({s.normal({2, 3})});
                                 }});

// Lists of tensors: each with leading or trailing dimensions, or all in one shape.
template <class F>
void for_each(Call& c, F&& f) {
  for (int k = 0; k < c.count(0); ++k) c.out.push_back(f(c.tensor(0, k)));
}
const Op& atleast_1d = add_op({.name = "atleast_1d",
                               .args = "tensors: tensors*",
                               .doc = "0-d tensors become one element in one dimension.",
                               .where = kFunction,
                               .see = "atleast_2d, unsqueeze",
                               .rule = "[] -> [1]; other shapes stay",
                               .example = "torch.atleast_1d(torch.tensor(5)) --> i64 [1]  view  5",
                               .compose =
                                   [](Call& c) {
                                     for_each(c, [](const Tensor& x) {
                                       return x.rank() >= 1 ? x : op<"reshape">(x, Sizes{1});
                                     });
                                   },
                               .samples =
                                   [](Samples& s) {
                                     s.add({s.list({s.normal({}), s.normal({2, 3})})});
                                   }});
const Op& atleast_2d =
    add_op({.name = "atleast_2d",
            .args = "tensors: tensors*",
            .doc = "Tensors of fewer than two dimensions become rows.",
            .where = kFunction,
            .see = "atleast_1d, atleast_3d",
            .rule = "[] -> [1, 1], [n] -> [1, n]; other shapes stay",
            .example = "torch.atleast_2d(torch.tensor{1, 2}) --> i64 [1, 2]  view\n"
                       " 1  2",
            .compose =
                [](Call& c) {
                  for_each(c, [](const Tensor& x) {
                    return x.rank() >= 2   ? x
                           : x.rank() == 1 ? op<"unsqueeze">(x, 0)
                                           : op<"reshape">(x, Sizes{1, 1});
                  });
                },
            .samples =
                [](Samples& s) {
                  s.add({s.list({s.normal({}), s.normal({3})})});
                }});
const Op& atleast_3d =
    add_op({.name = "atleast_3d",
            .args = "tensors: tensors*",
            .doc = "Tensors of fewer than three dimensions get dimensions of size 1 around theirs.",
            .where = kFunction,
            .see = "atleast_2d",
            .rule = "[n] -> [1, n, 1], [n, m] -> [n, m, 1]; larger shapes stay",
            .example = "torch.atleast_3d(torch.tensor{1, 2}).shape --> [1, 2, 1]",
            .compose =
                [](Call& c) {
                  for_each(c, [](const Tensor& x) {
                    return x.rank() >= 3   ? x
                           : x.rank() == 2 ? op<"unsqueeze">(x, 2)
                           : x.rank() == 1 ? op<"unsqueeze">(op<"unsqueeze">(x, 0), 2)
                                           : op<"reshape">(x, Sizes{1, 1, 1});
                  });
                },
            .samples =
                [](Samples& s) {
                  s.add({s.list({s.normal({}), s.normal({3}), s.normal({2, 3})})});
                }});
const Op& broadcast_tensors = add_op(
    {.name = "broadcast_tensors",
     .args = "tensors: tensors*",
     .doc = "Views of all tensors in their common shape.",
     .where = kFunction,
     .see = "expand, broadcast_to",
     .rule = "shapes that broadcast -> their common shape, for each",
     .example = "a, b = torch.broadcast_tensors(torch.tensor{1, 2, 3}, torch.tensor{{10}, {20}})\n"
                "b --> i64 [2, 3]  view  non-contiguous\n"
                " 10  10  10\n"
                " 20  20  20",
     .compose =
         [](Call& c) {
           Sizes shape;
           for (int k = 0; k < c.count(0); ++k) shape = broadcast(shape, c.tensor(0, k).shape());
           for_each(c, [&](const Tensor& x) { return op<"expand">(x, shape); });
         },
     .samples =
         [](Samples& s) {
           s.add({s.list({s.normal({3, 1}), s.normal({4})})});
         }});

BATCH("view", [](Spread& s) -> BatchResults {
  Sizes size = s.one.ints(1);
  size.insert(0, s.examples);
  return {op<"reshape">(s.tensor(0), size)};
});
BATCH("expand", by_sizes);
BATCH("detach", by_leading);
BATCH("alias", by_leading);

}  // namespace
}  // namespace tycho
