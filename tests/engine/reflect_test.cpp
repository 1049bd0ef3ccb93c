// QR by own reflections, and least squares and singular values of long matrices by it, against
// LAPACK's, which numbers far from 1 go to.
#include "tests/engine/levels.h"
#include "tests/engine/numeric.h"

namespace tycho {
namespace {

using namespace numeric;

Tensor t(const Tensor& x) { return op<"transpose">(x, -2, -1); }

void check(const Tensor& a, const char* mode, const std::string& what) {
  const bool wide = a.dtype() == DType::Float64;
  const double near = wide ? 1e-12 : 2e-4, far = std::ldexp(1.0, wide ? 600 : 60);
  const auto own = ops<"qr">(a, mode), other = ops<"qr">(a * far, mode);
  expect_near(own[1], other[1] * (1 / far), near, what + ": R");
  if (mode[0] == 'r' && mode[1] == '\0') return;
  expect_near(op<"matmul">(own[0], own[1]), a, near, what + ": Q R");
  const Tensor square = op<"matmul">(t(own[0]), own[0]);
  expect_near(square, op<"expand">(op<"eye">(square.size(-1)), square.shape()), near,
              what + ": Q' Q");
}

TEST(Qr, IsLapacksInEveryLayoutAndMode) {
  at_each_level([] {
    Source s;
    for (const DType type : {DType::Float32, DType::Float64})
      for (const auto& [m, n] : std::vector<std::array<int64_t, 2>>{{1, 1},
                                                                    {1, 5},
                                                                    {5, 1},
                                                                    {7, 7},
                                                                    {17, 16},
                                                                    {16, 17},
                                                                    {33, 32},
                                                                    {40, 64},
                                                                    {64, 64},
                                                                    {64, 65},
                                                                    {70, 3},
                                                                    {130, 20},
                                                                    {9, 90},
                                                                    {120, 121},
                                                                    {150, 50},
                                                                    {50, 150}})
        for (const char* mode : {"reduced", "complete", "r"}) {
          const std::string what = std::string(dtype_name(type)) + " " + std::to_string(m) + "x" +
                                   std::to_string(n) + " " + mode;
          check(random(s, {m, n}, type), mode, what);
          check(random(s, {3, m, n}, type), mode, what + " of a batch");
          check(t(random(s, {n, m}, type)), mode, what + " turned");
          check(alias(random(s, {m, 2 * n + 1}, type), {m, n}, {2 * n + 1, 2}, 1), mode,
                what + " stepped");
        }
  });
}

TEST(Qr, OfDependentAndVanishingColumnsStaysOrthogonal) {
  at_each_level([] {
    Source s;
    for (const DType type : {DType::Float32, DType::Float64}) {
      const double near = type == DType::Float64 ? 1e-12 : 2e-5;
      const Tensor thin = random(s, {40, 3}, type), mix = random(s, {3, 20}, type);
      const Tensor zeros = op<"zeros_like">(random(s, {40, 20}, type));
      const double tiny = type == DType::Float64 ? 0x1p-560 : 0x1p-72;
      const Tensor faint = random(s, {40, 20}, type) * tiny;
      const Tensor first = op<"narrow">(faint, 1, 0, 1), rest = op<"narrow">(faint, 1, 1, 19);
      const std::vector<Tensor> uneven = {first * (1 / tiny), rest};
      for (const Tensor& a :
           {Tensor(op<"mm">(thin, mix)), zeros, faint, Tensor(op<"cat">(uneven, 1))}) {
        const auto qr = ops<"qr">(a, "reduced");
        expect_near(op<"mm">(qr[0], qr[1]), a, near);
        expect_near(op<"mm">(t(qr[0]), qr[0]), op<"eye">(20), near);
      }
      Tensor bad = random(s, {20, 5}, type);
      copy_raw(op<"narrow">(op<"narrow">(bad, 0, 3, 1), 1, 2, 1), filled({1, 1}, NAN, type));
      const auto qr = ops<"qr">(bad, "reduced");
      EXPECT_TRUE(std::isnan(values(op<"sum">(qr[1]))[0]));
    }
  });
}

TEST(LeastSquares, OfFullRankAreLapacksAndOthersGoThere) {
  at_each_level([] {
    Source s;
    for (const DType type : {DType::Float32, DType::Float64})
      for (const auto& [m, n, sides] : std::vector<std::array<int64_t, 3>>{{1, 1, 1},
                                                                           {5, 1, 2},
                                                                           {1, 5, 3},
                                                                           {50, 7, 1},
                                                                           {40, 19, 2},
                                                                           {60, 33, 5},
                                                                           {33, 60, 5},
                                                                           {130, 60, 1}}) {
        const bool wide = type == DType::Float64;
        const double far = std::ldexp(1.0, wide ? 600 : 60);
        const std::string what =
            std::string(dtype_name(type)) + " " + std::to_string(m) + "x" + std::to_string(n);
        for (const bool batch : {false, true}) {
          const Tensor a = batch ? random(s, {3, m, n}, type) : t(random(s, {n, m}, type));
          const Tensor b = batch ? random(s, {3, m, sides}, type) : random(s, {m, sides}, type);
          const auto own = ops<"lstsq">(a, b), other = ops<"lstsq">(a * far, b);
          expect_near(own[0], other[0] * far, wide ? 1e-10 : 2e-3, what);
          for (const double rank : values(own[2])) EXPECT_EQ(rank, std::min(m, n)) << what;
        }
        const Tensor thin = random(s, {m, 1}, type), a = op<"mm">(thin, random(s, {1, n}, type));
        const Tensor b = random(s, {m, sides}, type);
        const auto found = ops<"lstsq">(a, b);
        EXPECT_EQ(values(found[2])[0], 1) << what;
        expect_near(found[0], op<"mm">(op<"pinv">(a), b), wide ? 1e-10 : 2e-3, what + ": rank 1");
      }
  });
}

TEST(Svd, OfLongAndWideMatricesIsLapacksInEveryLayout) {
  at_each_level([] {
    Source s;
    for (const DType type : {DType::Float32, DType::Float64})
      for (const auto& [m, n] : std::vector<std::array<int64_t, 2>>{
               {2, 1}, {1, 9}, {9, 4}, {4, 9}, {70, 33}, {33, 70}, {300, 7}, {7, 300}, {40, 20}}) {
        const bool wide = type == DType::Float64;
        const double near = wide ? 1e-12 : 1e-4, far = std::ldexp(1.0, wide ? 600 : 60);
        const auto check = [&](const Tensor& a, const std::string& how) {
          const std::string what = std::string(dtype_name(type)) + " " + std::to_string(m) + "x" +
                                   std::to_string(n) + how;
          const auto own = ops<"svd">(a, false);
          const Tensor values = op<"svdvals">(a * far) * (1 / far);
          expect_near(own[1], values, near, what + ": values");
          expect_near(op<"svdvals">(a), values, near, what + ": values alone");
          const Tensor scaled = op<"unsqueeze">(own[1], -2) * own[0];
          expect_near(op<"matmul">(scaled, own[2]), a, near, what + ": U S V");
          for (const Tensor& q : {own[0], t(own[2])}) {
            const Tensor square = op<"matmul">(t(q), q);
            expect_near(square, op<"expand">(op<"eye">(square.size(-1)), square.shape()), near,
                        what + ": vectors");
          }
        };
        check(random(s, {m, n}, type), "");
        check(random(s, {5, m, n}, type), " of a batch");
        check(t(random(s, {n, m}, type)), " turned");
        check(alias(random(s, {m, 2 * n + 1}, type), {m, n}, {2 * n + 1, 2}, 1), " stepped");
        check(op<"mm">(random(s, {m, 1}, type), random(s, {1, n}, type)), " of rank 1");
        check(op<"zeros_like">(random(s, {2, m, n}, type)), " of zeros");
      }
    Tensor bad = random(s, {2, 50, 5});
    bad.host<double>()[333] = NAN;
    EXPECT_THROW(ops<"svd">(bad, false), Error);
    EXPECT_THROW(op<"svdvals">(bad), Error);
  });
}

}  // namespace
}  // namespace tycho
