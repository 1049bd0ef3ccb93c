// Linear algebra where samples do not go: batches of small and of larger matrices, wide and tall ones,
// matrices without a full rank or with nan, and triangles of every kind.
#include "engine/ops/elementwise/elementwise.h"
#include "tests/cuda/emulated/same.h"

namespace tycho {
namespace {

Tensor matrices(const Sizes& shape) { return mixed_numbers(shape, DType::Float64, 937); }

TEST(CudaMatrices, SingularValuesOfSmallBatchesAndOfLargerMatricesMultiplyBack) {
  for (const Sizes& shape :
       {Sizes{5, 4, 7}, Sizes{3, 7, 4}, Sizes{2, 40, 35}, Sizes{33, 50}, Sizes{1, 6, 6}})
    for (const bool full : {false, true})
      same_on_both(
          matrices(shape),
          [&](const Tensor& x) {
            const auto y = ops<"svd">(x, full);
            const int64_t k = y[1].size(-1);
            const Tensor u = op<"narrow">(y[0], -1, 0, k), vh = op<"narrow">(y[2], -2, 0, k);
            const Tensor back = op<"matmul">(u * op<"unsqueeze">(y[1], -2), vh);
            EXPECT_LT(item(op<"amax">(fn::abs(back - x))), 1e-11);
            return std::vector<Tensor>{y[1], op<"svdvals">(x)};
          },
          1e-11);
}

TEST(CudaMatrices, LeastSquaresWithoutAFullRankHaveTheLeastNorm) {
  const Tensor a = op<"matmul">(matrices({2, 6, 2}), matrices({2, 2, 4}));
  const Tensor b = matrices({2, 6, 3});
  same_made(
      [&](Device d) {
        const auto there = [&](const Tensor& x) { return d.is_cpu() ? x : sent(x, d); };
        const auto y = ops<"least_squares">(there(a), there(b), 1e-10);
        return std::vector<Tensor>{y[0], y[1]};
      },
      1e-10);
}

TEST(CudaMatrices, TrianglesOfEveryKindAreSolved) {
  for (const int64_t n : {9, 64, 70})
    for (int kind = 0; kind < 8; ++kind) {
      const Tensor a = matrices({3, n, n}) + op<"eye">(n, Value(), DType::Float64) * (4.0 + n);
      same_made(
          [&](Device d) {
            const auto there = [&](const Tensor& x) { return d.is_cpu() ? x : sent(x, d); };
            const bool upper = kind & 1, left = kind & 2, unit = kind & 4;
            const Tensor b = matrices(left ? Sizes{3, n, 20} : Sizes{3, 20, n});
            return std::vector<Tensor>{
                op<"solve_triangular">(there(a), there(b), upper, left, unit)};
          },
          1e-10);
    }
}

TEST(CudaMatrices, SystemsOfFewAndOfManyRowsAreSolvedFromBothSides) {
  for (const int64_t n : {1, 2, 33, 64, 67})
    for (const DType t : {DType::Float64, DType::Float32})
      for (const bool left : {true, false})
        for (const int64_t sides : {1, 16, 21}) {
          const Tensor eye = op<"eye">(n, Value(), DType::Float64);
          const Tensor a =
              op<"to.dtype">(matrices({2, n, n}) + op<"roll">(eye, Sizes{1}, Sizes{0}) * 5.0, t);
          const Tensor b =
              op<"to.dtype">(matrices(left ? Sizes{2, n, sides} : Sizes{2, sides, n}), t);
          same_made(
              [&](Device d) {
                const auto there = [&](const Tensor& x) { return d.is_cpu() ? x : sent(x, d); };
                // As it lies, and as a transposed view.
                std::vector<Tensor> r{
                    op<"solve">(there(a), there(b), left),
                    op<"solve">(op<"transpose">(there(a), -2, -1), there(b), left)};
                if (left && sides == 1)
                  r.insert(r.end(), {op<"inv">(there(a)), op<"det">(there(a))});
                return r;
              },
              t == DType::Float64 ? 1e-9 : 1e-2);
        }
}

TEST(CudaMatrices, ASingularMatrixIsNamed) {
  cuda::emulated::start();
  cuda::start();
  for (const int64_t n : {3, 66}) {
    const Tensor a =
        op<"clone">(op<"expand">(op<"eye">(n, Value(), DType::Float32), Sizes{4, n, n}));
    copy_raw(op<"select">(op<"select">(a, 0, 2), 0, 1), op<"zeros">(Sizes{n}, DType::Float32));
    try {
      op<"inv">(sent(a, Device{0}));
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, Kind::Linalg);
      EXPECT_NE(e.text.find("pivot 2 is zero) (matrix 3 of the batch)"), std::string::npos)
          << e.text;
    }
  }
}

TEST(CudaMatrices, DeterminantsOfSingularMatricesAreZeroAndRowsThatChangeTurnTheSign) {
  const Tensor moved = op<"roll">(op<"eye">(5, Value(), DType::Float64), Sizes{1}, Sizes{0});
  const Tensor a = op<"clone">(matrices({4, 5, 5}) + moved * 3.0);
  copy_raw(op<"select">(op<"select">(a, 0, 1), 0, 2), op<"zeros">(Sizes{5}, DType::Float64));
  same_on_both(
      a,
      [](const Tensor& x) {
        const auto y = ops<"slogdet">(x);
        const Tensor part = op<"narrow">(op<"narrow">(op<"flip">(x, Sizes{1}), 1, 0, 2), 2, 0, 2);
        return std::vector<Tensor>{op<"det">(x), y[0], y[1], op<"det">(part),
                                   op<"det">(op<"narrow">(x, 0, 0, 0))};
      },
      1e-11);
}

TEST(CudaMatrices, NanIsAnError) {
  cuda::emulated::start();
  cuda::start();
  const Tensor a = op<"clone">(matrices({3, 3}));
  a.data<double>()[4] = std::nan("");
  EXPECT_THROW(op<"svdvals">(sent(a, Device{0})), Error);
  EXPECT_THROW(ops<"least_squares">(sent(a, Device{0}), sent(a, Device{0}), 1e-6), Error);
}

}  // namespace
}  // namespace tycho
