// Reductions and scans on special values, odd layouts and sizes that take every way
// through the kernels; equal results for every number of threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/base/parallel.h"
#include "engine/cpu/level.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/layout.h"
#include "engine/tensor/read.h"
#include "tests/engine/tensors.h"

namespace tycho {
namespace {

struct AtLevel {  // runs a test at a lower instruction-set level
  cpu::Level before = cpu::level();
  explicit AtLevel(cpu::Level l) {
    if (l < before) cpu::force_level(l);
  }
  ~AtLevel() { cpu::force_level(before); }
};
constexpr cpu::Level kLevels[] = {cpu::Level::x86_64, cpu::Level::v3, cpu::Level::v4};

TEST(Sums, AreExactToTheLastPlacesOverMillions) {
  Tensor x = of({3000001}, {0.1});
  for (cpu::Level l : kLevels) {
    const AtLevel at(l);
    const double exact = 3000001.0 * static_cast<double>(0.1f);
    EXPECT_NEAR(one(op<"sum">(x)), exact, exact * 1.8e-7);
    EXPECT_NEAR(one(op<"mean">(x)), 0.1, 2e-8);
  }
}

TEST(Sums, AgreeForEveryLayoutSizeAndLevel) {
  for (cpu::Level l : kLevels) {
    const AtLevel at(l);
    for (const Sizes& shape : {Sizes{3, 5, 7}, Sizes{40, 1, 33}, Sizes{2, 700, 3}, Sizes{1, 1, 1},
                               Sizes{1500, 2, 9}, Sizes{5, 3, 1300}}) {
      const Tensor base = noise(shape, DType::Float64);
      for (int a = 0; a < 3; ++a)
        for (int b = 0; b < 3; ++b) {
          const Tensor x = op<"transpose">(base, a, b);
          for (uint32_t bits = 1; bits < 8; ++bits) {
            Sizes dims;
            for (int d = 0; d < 3; ++d)
              if (bits >> d & 1) dims.push_back(d);
            const Tensor y = op<"sum">(x, dims, true);
            Tensor slow = filled(y.shape(), 0, DType::Float64);
            for (int64_t i = 0; i < x.size(0); ++i)
              for (int64_t j = 0; j < x.size(1); ++j)
                for (int64_t k = 0; k < x.size(2); ++k) {
                  const int64_t p = (bits & 1 ? 0 : i) * y.stride(0) +
                                    (bits & 2 ? 0 : j) * y.stride(1) +
                                    (bits & 4 ? 0 : k) * y.stride(2);
                  slow.host<double>()[p] +=
                      x.host<double>()[i * x.stride(0) + j * x.stride(1) + k * x.stride(2)];
                }
            const V have = values(y), want = values(slow);
            for (size_t i = 0; i < want.size(); ++i) ASSERT_NEAR(have[i], want[i], 1e-11);
          }
        }
    }
  }
}

TEST(Sums, OfNothingAreZeroAndOfIntegersWrapInInt64) {
  EXPECT_EQ(one(op<"sum">(noise({0}))), 0);
  EXPECT_EQ(values(op<"sum">(noise({0, 3}), Sizes{0})), (V{0, 0, 0}));
  EXPECT_EQ(one(op<"prod">(noise({0}))), 1);
  EXPECT_TRUE(std::isnan(one(op<"mean">(noise({0})))));
  const Tensor ints = of({70000}, {1, 2, -3, 7}, DType::Int8);
  const Tensor sum = op<"sum">(ints);
  EXPECT_EQ(sum.dtype(), DType::Int64);
  EXPECT_EQ(one(sum), 70000 / 4 * 7);
}

TEST(Sums, OfMasksCountThem) {
  const Tensor m = of({300, 301}, {1, 0, 0, 1, 1}, DType::Bool);
  EXPECT_EQ(one(op<"sum">(m)), 300 * 301 / 5 * 3);
  EXPECT_EQ(one(op<"count_nonzero">(m)), 300 * 301 / 5 * 3);
  EXPECT_EQ(values(op<"sum">(op<"transpose">(m, 0, 1), Sizes{0})), values(op<"sum">(m, Sizes{1})));
  EXPECT_EQ(one(op<"any">(m)), 1);
  EXPECT_EQ(one(op<"all">(m)), 0);
  EXPECT_EQ(one(op<"all">(of({0}, {1}, DType::Bool))), 1);
}

TEST(Sums, DoNotDependOnTheNumberOfThreads) {
  const int before = get_num_threads();
  for (const Sizes& shape :
       {Sizes{1000003}, Sizes{700, 999}, Sizes{300000, 3}, Sizes{1418, 180}, Sizes{300, 200},
        Sizes{20, 2000}, Sizes{50, 700, 9}, Sizes{257, 105, 6}}) {
    const Tensor x = noise(shape);
    std::vector<V> runs;
    for (int threads : {1, 2, 3}) {
      set_num_threads(threads);
      V v;
      for (const char* name : {"sum", "var", "mean"}) {
        for (int d = -1; d < static_cast<int>(x.rank()); ++d) {
          Call c(get_op(name));
          c.arg[0] = Value(x);
          const Sizes dims{d};
          if (d >= 0) c.arg[1] = Value(dims);
          c.n = 2;
          fill_defaults(c);
          apply(c);
          for (double y : values(c.out[0])) v.push_back(y);
        }
      }
      runs.push_back(v);
    }
    set_num_threads(before);
    EXPECT_EQ(runs[0], runs[1]);
    EXPECT_EQ(runs[0], runs[2]);
  }
}

// Every way through short blocks, few rows, single elements and repeated ones: as of a copy in doubles
// whose elements lie side by side.
TEST(Reductions, OfShortBlocksAndFewRowsAgreeInEveryLayoutTypeAndLevel) {
  struct Case {
    Sizes shape;
    int64_t dim;
  };
  const Case cases[] = {{{70, 3, 5}, 1},  {{36, 10, 76, 2}, 1}, {{61, 31, 2}, 1}, {{40, 130, 3}, 1},
                        {{33, 3, 16}, 1}, {{7, 50, 24}, 0},     {{3, 337, 9}, 0}, {{13, 5000}, 0},
                        {{129, 40}, 0},   {{6, 2100}, 0},       {{9, 1, 40}, 1},  {{5, 20, 7}, 2}};
  const auto check = [](const Tensor& have, const Tensor& want, bool exact, double size) {
    const V a = values(have), b = values(want);
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      if (std::isnan(b[i])) {
        ASSERT_TRUE(std::isnan(a[i])) << i;
        continue;
      }
      ASSERT_NEAR(a[i], b[i], exact ? 0 : size * std::max(1.0, std::fabs(b[i]))) << i;
    }
  };
  for (cpu::Level l : kLevels) {
    const AtLevel at(l);
    for (DType t : {DType::Float32, DType::Float64, DType::BFloat16, DType::Int32, DType::UInt8})
      for (const Case& c : cases)
        for (int layout = 0; layout < 6; ++layout) {
          const int rank = static_cast<int>(c.shape.n);
          Sizes made = c.shape;
          if (layout == 1) std::reverse(&made[0], &made[0] + rank);
          if (layout >= 2 && layout <= 3) made[rank - 1] = 2 * made[rank - 1] + 3;
          if (layout == 4) made[static_cast<int>(c.dim) ? 0 : rank - 1] = 1;
          if (layout == 5) made = {c.shape[0] + c.shape[1] + c.shape[rank - 1]};
          Tensor x = noise(made, DType::Float64);
          if (!is_floating(t)) x = op<"abs">(x) * 100;
          if (is_floating(t) && x.numel() > 50) x.host<double>()[x.numel() / 3] = kNan;
          Tensor typed = empty(made, t);
          copy_raw(typed, x);
          x = typed;
          if (layout == 1)
            for (int d = 0; d < rank / 2; ++d) x = op<"transpose">(x, d, rank - 1 - d);
          if (layout >= 2 && layout <= 3) x = op<"narrow">(x, rank - 1, 1, 2 * c.shape[rank - 1]);
          if (layout == 2) x = op<"narrow">(x, rank - 1, 1, c.shape[rank - 1]);
          if (layout == 3) {
            Sizes stride = x.strides();
            stride[rank - 1] *= 2;
            x = alias(x, c.shape, stride, x->offset);
          }
          if (layout == 4) x = op<"expand">(x, c.shape);
          if (layout == 5) {  // windows over one line
            Sizes stride = c.shape;
            for (int64_t& step : stride) step = 1;
            if (rank > 3) continue;
            x = alias(x, c.shape, stride, x->offset);
          }
          Tensor wide = empty(x.shape(), DType::Float64);
          copy_raw(wide, x);
          wide = op<"contiguous">(op<"movedim">(wide, Sizes{c.dim}, Sizes{-1}));
          SCOPED_TRACE(to_string(c.shape) + " " + std::to_string(layout) + " " +
                       std::to_string(static_cast<int>(t)));
          const Sizes dim{c.dim}, last{-1};
          const double size = t == DType::BFloat16 ? 0x1p-7 : t == DType::Float64 ? 1e-12 : 1e-5;
          check(op<"amax">(x, dim), op<"amax">(wide, last), true, 0);
          check(op<"amin">(x, dim), op<"amin">(wide, last), true, 0);
          check(op<"any">(x, dim), op<"any">(wide, last), true, 0);
          check(op<"count_nonzero">(x, dim), op<"count_nonzero">(wide, last), true, 0);
          check(ops<"max.dim">(x, c.dim)[0], op<"amax">(wide, last), true, 0);
          check(ops<"max.dim">(x, c.dim)[1], ops<"max.dim">(wide, -1)[1], true, 0);
          check(op<"sum">(x, dim), op<"sum">(wide, last), !is_floating(t), size * 10);
          check(op<"sum">(x), op<"sum">(wide), !is_floating(t), size * 1000);
          if (!is_floating(t)) continue;
          check(op<"mean">(x, dim), op<"mean">(wide, last), false, size);
          check(op<"nansum">(x, dim), op<"nansum">(wide, last), false, size * 10);
          check(op<"prod">(x, dim), op<"prod">(wide, last), false, size);
          check(op<"var">(x, dim), op<"var">(wide, last), false, size * 10);
          check(op<"vector_norm">(x, 2.0, dim), op<"vector_norm">(wide, 2.0, last), false,
                size * 10);
        }
  }
}

// Long lines go in parts, others whole; zeros, rests of parts, views and any number of threads.
TEST(Products, OfAllOthersAgreeWithTheDefinitionInPartsToo) {
  const int before = get_num_threads();
  for (const DType type : {DType::Float64, DType::Float32, DType::BFloat16})
    for (const Sizes& shape : {Sizes{1, 32768}, Sizes{3, 40001}, Sizes{20, 33000}, Sizes{2, 511},
                               Sizes{1, 8}, Sizes{5, 1}})
      for (int zeros = 0; zeros < 3; ++zeros)
        for (const bool turned : {false, true}) {
          const int64_t rows = shape[0], n = shape[1];
          Tensor wide = empty(shape, DType::Float64);
          double* const v = wide.host<double>();
          for (int64_t i = 0; i < rows * n; ++i)
            v[i] = (i * 7919 % 13 < 6 ? -1 : 1) * (i % 3 ? 1 : i % 2 ? 2 : 0.5);
          for (int k = 0; k < zeros; ++k) v[(k + 1) * n / 3] = 0;
          Tensor x = empty(shape, type);
          copy_raw(x, wide);
          if (turned)  // the same numbers, column after column
            x = op<"transpose">(packed(op<"transpose">(x, 0, 1)), 0, 1);
          set_num_threads(1);
          const V one_thread = values(op<"prod_of_others">(x, 1));
          set_num_threads(3);
          ASSERT_EQ(one_thread, values(op<"prod_of_others">(x, 1)));
          for (int64_t r = 0; r < rows; ++r) {
            std::vector<double> want(static_cast<size_t>(n), 1.0);
            double product = 1;
            for (int64_t i = 0; i < n; ++i) want[i] = product, product *= v[r * n + i];
            product = 1;
            for (int64_t i = n - 1; i >= 0; --i) want[i] *= product, product *= v[r * n + i];
            for (int64_t i = 0; i < n; ++i)
              ASSERT_EQ(one_thread[r * n + i], want[i]) << r << " " << i;
          }
        }
  set_num_threads(before);
}

TEST(Extremes, LetNanWinAndGiveTheFirstPosition) {
  for (cpu::Level l : kLevels) {
    const AtLevel at(l);
    for (int64_t n : {3, 16, 17, 100, 5000}) {
      Tensor x = of({n}, {1});
      x.host<float>()[n / 2] = static_cast<float>(kNan);
      x.host<float>()[n - 1] = static_cast<float>(kNan);
      EXPECT_TRUE(std::isnan(one(op<"max">(x)))) << n;
      EXPECT_TRUE(std::isnan(one(op<"amin">(x)))) << n;
      EXPECT_EQ(one(op<"argmax">(x)), n / 2 + 1) << n;
      EXPECT_EQ(one(op<"argmin">(x)), n / 2 + 1) << n;
      const Tensor column = op<"reshape">(x, Sizes{n, 1});
      const Tensor wide = op<"contiguous">(op<"expand">(column, Sizes{n, 37}));
      const auto r = ops<"max.dim">(wide, 0);
      for (int j = 0; j < 37; ++j) {
        EXPECT_TRUE(std::isnan(values(r[0])[j]));
        EXPECT_EQ(values(r[1])[j], n / 2 + 1);
      }
      Tensor ties = of({n}, {2});
      EXPECT_EQ(one(op<"argmax">(ties)), 1);
      EXPECT_EQ(one(op<"argmin">(of({n}, {-kInf}))), 1);
      EXPECT_EQ(one(op<"argmax">(of({n}, {-kInf}))), 1);
    }
  }
}

TEST(Extremes, OfEmptyDimensionsAreErrors) {
  const Tensor x = noise({2, 0});
  EXPECT_THROW(op<"max">(x), Error);
  EXPECT_THROW(op<"argmax">(x), Error);
  EXPECT_THROW(op<"amax">(x, Sizes{1}), Error);
  EXPECT_THROW(ops<"min.dim">(x, 1), Error);
  EXPECT_EQ(op<"amax">(x, Sizes{0}).numel(), 0);
  EXPECT_EQ(one(op<"argmax">(noise({}))), 1);
}

TEST(Extremes, OfLargeIntegersAreExact) {
  Tensor x = filled({1000}, 0, DType::Int64);
  const int64_t big = (int64_t{1} << 62) + 1;
  x.host<int64_t>()[700] = big;
  x.host<int64_t>()[701] = big - 1;
  const Tensor m = op<"max">(x);
  EXPECT_EQ(item<int64_t>(m), big);
  EXPECT_EQ(one(op<"argmax">(x)), 701);
}

TEST(Moments, StayExactFarFromZero) {
  for (cpu::Level l : kLevels) {
    const AtLevel at(l);
    Tensor x = of({10000, 8}, {10000.0, 10001.0, 10002.0});
    const double n = 80000;
    for (double v : values(op<"var">(x, Sizes{0}))) EXPECT_NEAR(v, 2.0 / 3, 1e-3);
    EXPECT_NEAR(one(op<"var">(x, Value(), false)), 2.0 / 3, 1e-4);
    EXPECT_NEAR(one(op<"std">(x)), std::sqrt(2.0 / 3 * n / (n - 1)), 1e-4);
  }
  EXPECT_TRUE(std::isnan(one(op<"var">(of({1}, {3})))));
  EXPECT_EQ(one(op<"var">(of({1}, {3}), Value(), false)), 0);
}

TEST(Norms, NeitherOverflowNorVanish) {
  EXPECT_FLOAT_EQ(one(op<"norm">(of({2}, {3e30, 4e30}))), 5e30);
  EXPECT_FLOAT_EQ(one(op<"norm">(of({2}, {3e-30, 4e-30}))), 5e-30);
  EXPECT_EQ(one(op<"norm">(of({3}, {-7, 2, 3}), kInf)), 7);
  EXPECT_EQ(one(op<"norm">(of({3}, {-7, 2, 3}), -kInf)), 2);
  EXPECT_EQ(one(op<"norm">(of({3}, {-7, 0, 3}), 0)), 2);
}

TEST(Softmax, AddsUpToOneAndKeepsMaskedElementsAtZero) {
  for (cpu::Level l : kLevels) {
    const AtLevel at(l);
    for (int64_t n : {1, 7, 16, 33, 1000, 5000}) {
      const Tensor x = op<"mul">(noise({3, n}), 50);
      for (double s : values(op<"sum">(op<"softmax">(x, 1), Sizes{1}))) EXPECT_NEAR(s, 1, 1e-5);
      const Tensor t = op<"contiguous">(op<"transpose">(x, 0, 1));
      const V a = values(op<"log_softmax">(x, 1)),
              b = values(op<"transpose">(op<"log_softmax">(t, 0), 0, 1));
      for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], 2e-5);
    }
    const V masked = values(op<"softmax">(of({4}, {1, -kInf, 1, -kInf}), 0));
    EXPECT_EQ(masked[1], 0);
    EXPECT_NEAR(masked[0], 0.5, 1e-6);
    EXPECT_TRUE(std::isnan(values(op<"softmax">(of({2}, {-kInf, -kInf}), 0))[0]));
    EXPECT_NEAR(values(op<"softmax">(of({2}, {1e30, 1e30}), 0))[0], 0.5, 1e-6);
  }
}

TEST(Scans, CarryInDoubleAndKeepInfinities) {
  for (cpu::Level l : kLevels) {
    const AtLevel at(l);
    const Tensor x = of({1000003}, {0.1});
    const double exact = 1000003.0 * static_cast<double>(0.1f);
    EXPECT_NEAR(values(op<"cumsum">(x, 0)).back(), exact, exact * 1.3e-7);
    const V v = values(op<"cumsum">(of({40}, {1, 3e38, 3e38, -3e38, -3e38}), 0));
    EXPECT_TRUE(std::isinf(v[2]) || v[2] > 3e38);
    const V inf = values(op<"cumsum">(of({3}, {1, kInf, 2}), 0));
    EXPECT_EQ(inf[0], 1);
    EXPECT_EQ(inf[2], kInf);
    const V wide = values(op<"cumsum">(op<"transpose">(noise({50, 70}, DType::Int32), 0, 1), 1));
    EXPECT_EQ(wide.size(), 3500u);
  }
  const auto r = ops<"cummax">(of({6}, {1, 3, 3, kNan, 9, 2}), 0);
  EXPECT_EQ(values(r[1]), (V{1, 2, 3, 4, 4, 4}));
  EXPECT_TRUE(std::isnan(values(r[0])[5]));
}

// The carry of each column by itself, in double or in the integers' own type.
TEST(Scans, OfColumnsAddDownEachAlone) {
  for (cpu::Level l : kLevels) {
    const AtLevel at(l);
    for (DType t : {DType::Float32, DType::Float64, DType::Int64, DType::BFloat16})
      for (const int64_t cols : {2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 33, 40, 41, 70})
        for (const int64_t n : {1, 2, 13}) {
          const int64_t outer = 3;
          const Tensor x = op<"to.dtype">(
              op<"mul">(noise({outer, n, cols}, DType::Float64), t == DType::Int64 ? 9.0 : 1.3), t);
          const V v = values(x);
          for (int what = 0; what < 3; ++what) {
            const Tensor y = what == 0   ? op<"cumsum">(x, 1)
                             : what == 1 ? op<"cumprod">(x, 1)
                                         : op<"cumsum_from_end">(x, 1);
            V want(v.size());
            for (int64_t o = 0; o < outer; ++o)
              for (int64_t j = 0; j < cols; ++j) {
                double carry = what == 1;
                for (int64_t k = 0; k < n; ++k) {
                  const int64_t row = what == 2 ? n - 1 - k : k;
                  const auto place = static_cast<size_t>((o * n + row) * cols + j);
                  carry = what == 1 ? carry * v[place] : carry + v[place];
                  want[place] = t == DType::Float32 ? static_cast<float>(carry) : carry;
                }
              }
            if (t == DType::BFloat16) {  // by way of float32
              Tensor exact = empty(x.shape(), DType::Float64);
              std::copy(want.begin(), want.end(), exact.host<double>());
              want = values(op<"to.dtype">(op<"to.dtype">(exact, DType::Float32), t));
            }
            ASSERT_EQ(values(y), want) << dtype_name(t) << " " << n << " x " << cols << " " << what;
          }
        }
  }
}

}  // namespace
}  // namespace tycho
