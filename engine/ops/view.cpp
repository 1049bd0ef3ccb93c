// Views: the same storage read with another shape.
#include "engine/grad/node.h"
#include "engine/ops/apply.h"
#include "engine/ops/elementwise.h"
#include "engine/ops/samples.h"

namespace tycho {
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
      known *= want[d];
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

void reshape_back(Backward& b) { b.set(0, op<"reshape">(b.g(), b.shape(0))); }

const Op& view = add_op(
    {.name = "view",
     .args = "self, size: ints*",
     .doc = "The same storage with another shape; one size may be -1.",
     .where = kMethod,
     .view = true,
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
            .args = "self, size: ints*",
            .doc = "The tensor with another shape: a view when its layout allows, else a copy.",
            .compose =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  const Sizes want = infer_shape("reshape", x, c.ints(1));
                  Sizes stride;
                  c.out.push_back(view_strides(x, want, &stride)
                                      ? op<"view">(x, want)
                                      : op<"view">(op<"contiguous.copy">(x), want));
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

const Op& transpose = add_op(
    {.name = "transpose",
     .args = "self, dim0: dim, dim1: dim",
     .doc = "A view with two dimensions exchanged.",
     .view = true,
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

const Op& select =
    add_op({.name = "select",
            .args = "self, dim: dim, index: position",
            .doc = "A view of one position along a dimension, which disappears.",
            .view = true,
            .shape =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  TYCHO_CHECK(Kind::Index, x.rank() > 0,
                              "select: a 0-d tensor has no positions; use x:item()");
                  const int d = wrap_dim(c.integer(1), x.rank());
                  int64_t i = c.integer(2);
                  const int64_t n = x.size(d);
                  if (i < -n || i >= n)
                    fail(Kind::Index,
                         format("index %lld is out of range for dimension %d with size %lld%s",
                                static_cast<long long>(i < 0 ? i : i + 1), d + 1,
                                static_cast<long long>(n),
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
     .shape =
         [](Call& c) {
           c.out.push_back(filled(c.ints(1), 0, c.tensor(0).dtype(), c.tensor(0).device()));
         },
     .kernel =
         [](Call& c) { copy_raw(op<"select">(c.out[0], c.integer(2), c.integer(3)), c.tensor(0)); },
     .grad = [](Backward& b) { b.set(0, op<"select">(b.g(), b.integer(2), b.integer(3))); }});

}  // namespace
}  // namespace tycho
