// Padding: one value, reflections or copies of the edges around a tensor; negative counts crop.
#include <algorithm>
#include <string>
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
             const Tensor from = op<"pad_positions">(n, before, after, mode.c_str(), x.device());
             x = op<"index_select">(x, d, from);
           }
           c.out.push_back(x);
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
