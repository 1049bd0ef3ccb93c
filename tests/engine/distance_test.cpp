// Gradients of distances against the definition in float64, for every kind of p, layout and level.
#include "tests/engine/levels.h"
#include "tests/engine/numeric.h"

namespace tycho {
namespace {

using namespace numeric;

// How a distance y between rows that are x apart grows with an element that is x apart.
double slope(double x, double y, double p) {
  if (x == 0 || y == 0 || p == 0) return 0;
  const double sign = x < 0 ? -1 : 1;
  if (std::isinf(p)) return std::abs(x) == y ? sign : 0;
  return sign * std::pow(std::abs(x) / y, p - 1);
}

// The gradient of a's rows, from that of all distances between a and b.
Tensor slow_gradient(const Tensor& g, const Tensor& a, const Tensor& b, double p, const Tensor& y) {
  const int64_t n = a.size(0), m = b.size(0), d = a.size(1);
  const auto gs = values(g), as = values(a), bs = values(b), ys = values(y);
  const Tensor out = filled({n, d}, 0, DType::Float64);
  const auto apart = [&](double x, double z) {  // as it was computed: the largest has to be met
    return a.dtype() == DType::Float32 ? static_cast<float>(x - z) : x - z;
  };
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j)
      for (int64_t k = 0; k < d; ++k)
        out.host<double>()[i * d + k] +=
            gs[i * m + j] * slope(apart(as[i * d + k], bs[j * d + k]), ys[i * m + j], p);
  return out;
}

Tensor t(const Tensor& x) { return op<"transpose">(x, -2, -1); }

TEST(Distances, GradientsOfFewAndManyRowsAreTheDefinitionsInEveryLayout) {
  at_each_level([] {
    Source s;
    for (const DType type : {DType::Float64, DType::Float32})
      for (const double p : {0.0, 1.0, 2.0, 2.5, HUGE_VAL})
        for (const auto& [n, m, d] : std::vector<std::array<int64_t, 3>>{
                 {1, 40, 16}, {1, 3, 35}, {2, 9, 7}, {3, 5, 1}, {16, 17, 3}, {33, 20, 11}}) {
          const Tensor a = random(s, {n, d}, type), b = random(s, {m, d}, type);
          const Tensor y = op<"distances">(a, b, p), g = random(s, {n, m}, type);
          const Tensor want = slow_gradient(g, a, b, p, y);
          const double near = type == DType::Float64 ? 1e-12 : 2e-5;
          const std::string what = std::string(dtype_name(type)) + " p " + std::to_string(p) + " " +
                                   std::to_string(n) + "x" + std::to_string(m) + "x" +
                                   std::to_string(d);
          expect_near(op<"distances_backward">(g, a, b, p, y), want, near, what);
          const Tensor turned = packed(t(g)), wide = random(s, {n, 2 * m + 1}, type);
          expect_near(op<"distances_backward">(t(turned), a, b, p, y), want, near,
                      what + " turned");
          const Tensor stepped = alias(wide, {n, m}, {2 * m + 1, 2}, 1);
          expect_near(op<"distances_backward">(stepped, a, b, p, y),
                      slow_gradient(stepped, a, b, p, y), near, what + " stepped");
          const Tensor one = op<"expand">(random(s, {1, 1}, type), Sizes{n, m});
          expect_near(op<"distances_backward">(one, a, b, p, y), slow_gradient(one, a, b, p, y),
                      near, what + " expanded");
        }
  });
}

TEST(Distances, GradientsOfPairsAreThoseOfAllDistancesOfAMatrixToItself) {
  at_each_level([] {
    Source s;
    for (const DType type : {DType::Float64, DType::Float32})
      for (const double p : {0.0, 1.0, 2.0, 3.0, HUGE_VAL})
        for (const auto& [n, d] : std::vector<std::array<int64_t, 2>>{
                 {2, 1}, {3, 20}, {15, 3}, {16, 2}, {17, 8}, {40, 11}}) {
          const Tensor a = random(s, {n, d}, type), y = op<"pair_distances">(a, p);
          const Tensor g = random(s, y.shape(), type);
          const Tensor all = filled({n, n}, 0, DType::Float64), far = op<"zeros_like">(all);
          const auto gs = values(g), ys = values(y);
          size_t at = 0;
          for (int64_t i = 0; i < n; ++i)
            for (int64_t j = i + 1; j < n; ++j, ++at)
              for (const int64_t place : {i * n + j, j * n + i}) {
                all.host<double>()[place] = gs[at];
                far.host<double>()[place] = ys[at];
              }
          expect_near(op<"pair_distances_backward">(g, a, p, y), slow_gradient(all, a, a, p, far),
                      type == DType::Float64 ? 1e-12 : 3e-5,
                      std::string(dtype_name(type)) + " p " + std::to_string(p) + " " +
                          std::to_string(n) + "x" + std::to_string(d));
        }
  });
}

TEST(Distances, NanAndInfinityOfARowStayInItsGradient) {
  at_each_level([] {
    Source s;
    const Tensor a = random(s, {3, 20}, DType::Float32), b = random(s, {5, 20}, DType::Float32);
    a.host<float>()[20] = NAN;
    const Tensor y = op<"distances">(a, b, 2), g = random(s, {3, 5}, DType::Float32);
    const auto have = values(op<"distances_backward">(g, a, b, 2, y));
    for (size_t i = 0; i < have.size(); ++i) EXPECT_EQ(std::isnan(have[i]), i / 20 == 1) << i;
  });
}

}  // namespace
}  // namespace tycho
