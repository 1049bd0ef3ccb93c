// Integrals of sampled functions by the trapezoid rule.
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

namespace tycho {
namespace {

// Twice the area of each trapezoid along a dimension.
Tensor doubled_areas(const Call& c, const char* name, int* dim, bool spaced) {
  const Tensor& y = c.tensor(0);
  *dim = wrap_dim(c.integer(2), y.rank());
  TYCHO_CHECK(Kind::Dim, y.rank() > 0, "%s: a 0-d tensor has no dimension to integrate over", name);
  const int64_t n = y.size(*dim);
  if (n == 0) return y;
  const Tensor sums = op<"narrow">(y, *dim, 0, n - 1) + op<"narrow">(y, *dim, 1, n - 1);
  if (!spaced) return sums * Operand(c.arg[1]);
  Tensor x = c.tensor(1);
  if (x.rank() == 1 && y.rank() > 1) {
    Sizes shape;
    for (int d = 0; d < y.rank(); ++d) shape.push_back(d == *dim ? x.size(0) : 1);
    x = op<"reshape">(x, shape);
  }
  TYCHO_CHECK(Kind::Value, x.rank() == y.rank() && x.size(*dim) == n,
              "%s: x of shape %s has not one place for each of the %lld samples", name,
              to_string(c.tensor(1).shape()).c_str(), static_cast<long long>(n));
  return sums * (op<"narrow">(x, *dim, 1, n - 1) - op<"narrow">(x, *dim, 0, n - 1));
}

// At equal distances every sample counts once, but the first and the last by half.
void trapezoid_call(Call& c) {
  const Tensor& y = c.tensor(0);
  TYCHO_CHECK(Kind::Dim, y.rank() > 0,
              "trapezoid: a 0-d tensor has no dimension to integrate over");
  const int dim = wrap_dim(c.integer(2), y.rank());
  Tensor sum = op<"sum">(y, Sizes{dim});
  if (y.size(dim) > 0) sum = sum - (op<"select">(y, dim, 0) + op<"select">(y, dim, -1)) * 0.5;
  c.out.push_back(sum * Operand(c.arg[1]));
}
void trapezoid_x_call(Call& c) {
  int dim;
  const Tensor areas = doubled_areas(c, "trapezoid", &dim, true);
  c.out.push_back(op<"sum">(areas, Sizes{dim}) / 2);
}
template <bool spaced>
void cumulative_call(Call& c) {
  int dim;
  const Tensor areas = doubled_areas(c, "cumulative_trapezoid", &dim, spaced);
  c.out.push_back(op<"cumsum">(areas, dim) / 2);
}

const Op& trapezoid = add_op({.name = "trapezoid",
                              .args = "y, dx: number = 1, dim: dim = -1",
                              .doc = "The integral of samples by the trapezoid rule.",
                              .see = "cumulative_trapezoid",
                              .rule = "[.., n] -> [..]",
                              .example = "torch.trapezoid(torch.tensor{1., 2., 3.}) --> f32 []  4",
                              .aliases = "trapz",
                              .compose = trapezoid_call,
                              .samples = [](Samples& s) {
                                s.add({s.normal({5})});
                                s.add({s.normal({3, 4}), 0.5, 0});
                              }});
const Op& trapezoid_x =
    add_op({.name = "trapezoid.x",
            .args = "y, x, dim: dim = -1",
            .doc = "The integral of samples taken at the places x.",
            .see = "cumulative_trapezoid",
            .rule = "[.., n], [n] -> [..]",
            .example = "torch.trapezoid(torch.tensor{1., 2.}, torch.tensor{0., 4.}) --> f32 []  6",
            .aliases = "trapz",
            .compose = trapezoid_x_call,
            .samples = [](Samples& s) {
              s.add({s.normal({5}), s.normal({5})});
              s.add({s.normal({3, 4}), s.normal({3}), 0});
            }});
const Op& cumulative =
    add_op({.name = "cumulative_trapezoid",
            .args = "y, dx: number = 1, dim: dim = -1",
            .doc = "The running integral of samples by the trapezoid rule.",
            .see = "trapezoid",
            .rule = "[.., n] -> [.., n - 1]",
            .example = "torch.cumulative_trapezoid(torch.tensor{1., 2., 3.}) --> f32 [2]   1.5  4",
            .compose = cumulative_call<false>,
            .samples = [](Samples& s) {
              s.add({s.normal({3, 4}), 0.5, 0});
            }});
const Op& cumulative_x = add_op(
    {.name = "cumulative_trapezoid.x",
     .args = "y, x, dim: dim = -1",
     .doc = "The running integral of samples taken at the places x.",
     .see = "trapezoid",
     .rule = "[.., n], [n] -> [.., n - 1]",
     .example =
         "torch.cumulative_trapezoid(torch.tensor{1., 2.}, torch.tensor{0., 4.}) --> f32 [1]  6",
     .compose = cumulative_call<true>,
     .samples = [](Samples& s) {
       s.add({s.normal({3, 4}), s.normal({4})});
     }});

}  // namespace
}  // namespace tycho
