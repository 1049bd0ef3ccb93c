// Padding: one value, reflections or copies of the edges around a tensor; negative counts crop.
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "engine/grad/node.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/samples.h"
#include "engine/tensor/layout.h"

namespace tycho {
namespace {

// Padding: pairs of counts from the last dimension backwards, negative ones crop.
Sizes padded_shape(const Tensor& x, const Value& pad) {
  Sizes shape = x.shape();
  TYCHO_CHECK(Kind::Value, pad.n % 2 == 0, "pad: counts come in pairs (before, after), not %d",
              static_cast<int>(pad.n));
  TYCHO_CHECK(Kind::Shape, pad.n / 2 <= static_cast<uint32_t>(shape.n),
              "pad: %d pairs of counts for %d dimensions", static_cast<int>(pad.n / 2), shape.n);
  for (uint32_t k = 0; k < pad.n / 2; ++k) {
    int64_t& n = shape[shape.n - 1 - static_cast<int>(k)];
    const int64_t have = n;
    const int64_t before = pad.ints[2 * k], after = pad.ints[2 * k + 1], most = int64_t{1} << 48;
    TYCHO_CHECK(Kind::Shape,
                before < most && after < most && before > -most && after > -most &&
                    (n += before + after) >= 0,
                "pad: %lld and %lld do not leave anything of dimension %d with size %lld",
                static_cast<long long>(before), static_cast<long long>(after),
                shape.n - static_cast<int>(k), static_cast<long long>(have));
  }
  return shape;
}
const Op& pad_constant =
    add_op({.name = "pad_constant",
            .args = "input, pad: ints, value: number",
            .doc = "One value added around a tensor; negative counts crop.",
            .where = kHidden,
            .shape =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  check_number("pad", c.arg[2], x.dtype());
                  c.out.push_back(
                      empty_in(preferred(x), padded_shape(x, c.arg[1]), x.dtype(), x.device()));
                },
            .run =
                [](Call& c) {
                  const Tensor& out = c.out[0];
                  fill_raw(out, c.arg[2]);
                  Tensor x = c.tensor(0), hole = out;
                  for (int k = 0; k < c.count(1) / 2; ++k) {
                    const int d = x.rank() - 1 - k;
                    const int64_t before = c.arg[1].ints[2 * k],
                                  from = std::max<int64_t>(0, -before),
                                  to = std::max<int64_t>(0, before);
                    const int64_t n = std::min(x.size(d) - from, out.size(d) - to);
                    if (n <= 0) return;
                    x = op<"narrow">(x, d, from, n);
                    hole = op<"narrow">(hole, d, to, n);
                  }
                  copy_raw(hole, x);
                },
            .grad =
                [](Backward& b) {
                  std::vector<int64_t> back;
                  for (int k = 0; k < b.count(1); ++k) back.push_back(-b.arg(1).ints[k]);
                  b.set(0, op<"pad_constant">(b.g(), back, 0));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3}), s.ints({1, 2}), 1.5});
                  s.add({s.normal({3, 4}), s.ints({-1, 2, 1, -1}), 0});
                }});
// A dimension of a padded tensor, and one side of it: `side` shows what `shown` holds, which is a view
// of the same memory, turned round or one place again and again. Of the dimensions before it, which
// come later, both have only what is no side.
struct Side {
  int d;
  Tensor side, shown;
  bool one;  // all places show one
};
std::vector<Side> sides_of(const Tensor& padded, const Value& pad, std::string_view mode) {
  std::vector<Side> sides;
  Sizes shape = padded.shape();
  const Sizes stride = padded.strides();
  int64_t offset = padded->offset;
  const int last = shape.n - 1, pairs = static_cast<int>(pad.n) / 2;
  for (int k = 0; k < pairs; ++k) {
    shape[last - k] -= pad.ints[2 * k] + pad.ints[2 * k + 1];
    offset += pad.ints[2 * k] * stride[last - k];
  }
  const bool reflect = mode == "reflect", replicate = mode == "replicate";
  for (int k = 0; k < pairs; ++k) {
    const int d = last - k;
    const int64_t before = pad.ints[2 * k], after = pad.ints[2 * k + 1], n = shape[d];
    Sizes walk = stride;
    walk[d] = reflect ? -stride[d] : replicate ? 0 : stride[d];
    const auto add = [&](int64_t at, int64_t count, int64_t from) {
      if (count == 0) return;
      shape[d] = count;
      sides.push_back({d, alias(padded, shape, stride, offset + at * stride[d]),
                       alias(padded, shape, walk, offset + from * stride[d]), replicate});
    };
    add(-before, before, reflect ? before : replicate ? 0 : n - before);
    add(n, after, reflect ? n - 2 : replicate ? n - 1 : 0);
    shape[d] = n + before + after;
    offset -= before * stride[d];
  }
  return sides;
}
Tensor turned(const Tensor& t, int d) {
  Sizes stride = t.strides();
  const int64_t offset = t->offset + (t.size(d) - 1) * stride[d];
  stride[d] = -stride[d];
  return alias(t, t.shape(), stride, offset);
}
// Where the tensor itself lies in its padded form.
Tensor middle(const Tensor& padded, const Value& pad, const Sizes& shape) {
  int64_t offset = padded->offset;
  for (uint32_t k = 0; k < pad.n / 2; ++k)
    offset += pad.ints[2 * k] * padded.stride(shape.n - 1 - static_cast<int>(k));
  return alias(padded, shape, padded.strides(), offset);
}
const Op& pad_around =
    add_op({.name = "pad_around",
            .args = "input, pad: ints, mode: string",
            .doc = "A tensor with some of its own elements around it; nothing is cropped.",
            .where = kHidden,
            .shape =
                [](Call& c) {
                  const Tensor& x = c.tensor(0);
                  c.out.push_back(empty(padded_shape(x, c.arg[1]), x.dtype(), x.device()));
                },
            .run =
                [](Call& c) {
                  const Tensor& out = c.out[0];
                  if (out.numel() == 0) return;
                  copy_raw(middle(out, c.arg[1], c.tensor(0).shape()), c.tensor(0));
                  for (const Side& s : sides_of(out, c.arg[1], c.string(2)))
                    copy_raw(s.side, s.shown);
                },
            .grad =
                [](Backward& b) {
                  b.set(0, op<"pad_around_backward">(b.g(), b.shape(0), b.ints(1), b.string(2)));
                },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 4}), s.ints({2, 1}), "reflect"});
                  s.add({s.normal({2, 3, 3}), s.ints({1, 2, 2, 0}), "replicate"});
                  s.add({s.normal({2, 3, 3}), s.ints({1, 2, 0, 3}), "circular"});
                }});
// What the sides have goes back to what they show, from the last that was filled on.
const Op& pad_around_backward = add_op(
    {.name = "pad_around_backward",
     .args = "grad, shape: ints, pad: ints, mode: string",
     .doc = "Each element's gradient: the sum over the places that show it.",
     .where = kHidden,
     .shape =
         [](Call& c) {
           const Tensor& g = c.tensor(0);
           c.out.push_back(empty(c.ints(1), g.dtype(), g.device()));
         },
     .run =
         [](Call& c) {
           if (c.out[0].numel() == 0) return;
           const Tensor& g = c.tensor(0);
           const Tensor sum = empty(g.shape(), g.dtype(), g.device());
           copy_raw(sum, g);
           const std::vector<Side> sides = sides_of(sum, c.arg[2], c.string(3));
           for (auto s = sides.rbegin(); s != sides.rend(); ++s) {
             if (s->one)
               op_<"add">(op<"narrow">(s->shown, s->d, 0, 1),
                          op<"sum">(s->side, Sizes{s->d}, true));
             else if (s->shown.stride(s->d) < 0)
               op_<"add">(turned(s->shown, s->d), turned(s->side, s->d));
             else
               op_<"add">(s->shown, s->side);
           }
           copy_raw(c.out[0], middle(sum, c.arg[2], c.ints(1)));
         },
     .grad = [](Backward& b) { b.set(0, op<"pad_around">(b.g(), b.ints(2), b.string(3))); },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 7}), s.ints({2, 4}), s.ints({2, 1}), "reflect"});
           s.add({s.normal({2, 5, 6}), s.ints({2, 3, 3}), s.ints({1, 2, 2, 0}), "replicate"});
         }});
const Op& pad_positions = add_op(
    {.name = "pad_positions",
     .args = "size: int, before: int, after: int, mode: string, device: device",
     .doc = "The positions along a dimension that its padded form shows, one after the other.",
     .where = kHidden,
     .differentiable = false,
     .shape =
         [](Call& c) {
           const int64_t n = c.integer(0) + c.integer(1) + c.integer(2);
           c.out.push_back(empty({n}, DType::Int64, c.device(4)));
         },
     .samples =
         [](Samples& s) {
           s.add({4, 2, 3, "reflect", Device()});
           s.add({4, 2, -3, "replicate", Device()});
           s.add({4, -1, 3, "circular", Device()});
         }});
const Op& pad = add_op(
    {.name = "pad",
     .args = "input, pad: ints, mode: string = constant, value: number?",
     .doc = "A tensor with elements added around it: one value, or its own mirrored (reflect), "
            "repeated (replicate) "
            "or from the other side (circular).",
     .where = kFunctional,
     .see = "cat, roll",
     .rule = "the last size grows by the first two numbers, the one before by the next two, ..",
     .example = "F.pad(torch.tensor{1, 2}, {1, 2}) --> i64 [5]  0 1 2 0 0\n"
                "F.pad(torch.tensor{{1.0, 2.0, 3.0}}, {1, 1}, {mode=\"reflect\"}) --> f32 [1, 5]\n"
                " 2  1  2  3  2",
     .compose =
         [](Call& c) {
           Tensor x = c.tensor(0);
           const std::string mode = c.string(2);
           const bool reflect = mode == "reflect", replicate = mode == "replicate",
                      circular = mode == "circular";
           if (mode == "constant") {
             c.out.push_back(
                 op<"pad_constant">(x, c.arg[1], c.has(3) ? c.arg[3] : Value(int64_t{0})));
             return;
           }
           TYCHO_CHECK(
               Kind::Value, reflect || replicate || circular,
               "pad: mode is \"constant\", \"reflect\", \"replicate\" or \"circular\", not \"%s\"",
               mode.c_str());
           TYCHO_CHECK(Kind::Value, !c.has(3) || c.number(3) == 0,
                       "pad: mode \"%s\" takes no value", mode.c_str());
           padded_shape(x, c.arg[1]);
           const int pairs = c.count(1) / 2, rank = x.rank();
           TYCHO_CHECK(Kind::Shape, pairs <= 3 && (rank == pairs + 1 || rank == pairs + 2),
                       "pad: in mode \"%s\" %d pairs of counts need a tensor with %d or %d "
                       "dimensions, not %d",
                       mode.c_str(), pairs, pairs + 1, pairs + 2, rank);
           bool crops = false;
           for (int k = 0; k < 2 * pairs; ++k) crops = crops || c.arg[1].ints[k] < 0;
           for (int k = 0; k < pairs; ++k) {
             const int d = rank - 1 - k;
             const int64_t before = c.arg[1].ints[2 * k], after = c.arg[1].ints[2 * k + 1],
                           n = x.size(d);
             if (before == 0 && after == 0) continue;
             TYCHO_CHECK(
                 Kind::Shape, !reflect || (before < n && after < n),
                 "pad: reflecting %lld and %lld elements needs more than dimension %d has (%lld)",
                 static_cast<long long>(before), static_cast<long long>(after), d + 1,
                 static_cast<long long>(n));
             TYCHO_CHECK(
                 Kind::Shape, !circular || (before <= n && after <= n),
                 "pad: wrapping %lld and %lld elements needs more than dimension %d has (%lld)",
                 static_cast<long long>(before), static_cast<long long>(after), d + 1,
                 static_cast<long long>(n));
             TYCHO_CHECK(Kind::Shape, n > 0, "pad: dimension %d is empty", d + 1);
             TYCHO_CHECK(Kind::Shape,
                         n + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0) > 0 ||
                             n + before + after == 0,
                         "pad: nothing is left of dimension %d", d + 1);
             if (!crops) continue;
             const Tensor from = op<"pad_positions">(n, before, after, mode.c_str(), x.device());
             x = op<"index_select">(x, d, from);
           }
           c.out.push_back(crops ? x : op<"pad_around">(x, c.ints(1), mode.c_str()));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({2, 3}), s.ints({1, 2})});
           s.add({s.normal({1, 2, 4}), s.ints({2, 1}), "reflect"});
           s.add({s.normal({1, 2, 3, 3}), s.ints({1, 2, 0, 1}), "replicate"});
           s.add({s.normal({1, 2, 3}), s.ints({2, 3}), "circular"});
         }});

}  // namespace
}  // namespace tycho
