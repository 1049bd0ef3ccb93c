// Random numbers on a device: those of the counters, by kernels and where the CPU draws for it.
#include "engine/ops/random/random.h"

#include <gtest/gtest.h>

#include "engine/base/check.h"
#include "engine/cpu/random/counted.h"
#include "engine/cuda/start.h"
#include "engine/ops/table/op.h"
#include "engine/tensor/read.h"
#include "tests/cuda/emulated/driver.h"

namespace tycho {
namespace {

namespace counted = cpu::counted;
constexpr Device kDevice{0};
constexpr int64_t kCount = 1003;

struct CudaRandom : testing::Test {
  CudaRandom() {
    cuda::emulated::start();
    cuda::start();
    seed_all(7);
  }
  PhiloxStream stream{7};

  template <class Draw, class Make>
  void expect(DType t, const char* what, Make&& make, Draw&& draw) {
    for (int round = 0; round < 2; ++round) {  // the second goes on in the stream
      const Tensor want = empty({kCount}, t), got = fetch(make());
      draw(want.data<void>());
      for (int64_t i = 0; i < kCount; ++i)
        ASSERT_NEAR(number_at(got, i), number_at(want, i),
                    1e-5 * std::max(1.0, std::abs(number_at(want, i))))
            << what << " " << dtype_name(t) << " " << i;
    }
  }
};

TEST_F(CudaRandom, NumbersAreThoseOfTheCounters) {
  const Sizes n{kCount};
  for (const DType t : {DType::Float32, DType::Float64, DType::BFloat16}) {
    const auto x = [&] { return empty(n, t, kDevice); };
    expect(
        t, "uniform",
        [&] {
          Tensor y = x();
          op_<"uniform">(y, -2.0, 5.0);
          return y;
        },
        [&](void* y) { cpu::random_uniform(stream, y, t, kCount, -2, 5); });
    if (t == DType::BFloat16) continue;  // a logarithm's last bit may round to the other neighbour
    expect(
        t, "normal",
        [&] {
          Tensor y = x();
          op_<"normal.fill">(y, 1.0, 3.0);
          return y;
        },
        [&](void* y) { counted::normal(stream, y, t, kCount, 1, 3); });
    expect(
        t, "exponential",
        [&] {
          Tensor y = x();
          op_<"exponential">(y, 2.0);
          return y;
        },
        [&](void* y) { counted::exponential(stream, y, t, kCount, 2); });
    expect(
        t, "geometric",
        [&] {
          Tensor y = x();
          op_<"geometric">(y, 0.2);
          return y;
        },
        [&](void* y) { counted::geometric(stream, y, t, kCount, 0.2); });
    expect(
        t, "log_normal",
        [&] {
          Tensor y = x();
          op_<"log_normal">(y, 1.0, 0.5);
          return y;
        },
        [&](void* y) { counted::log_normal(stream, y, t, kCount, 1, 0.5); });
    if (t == DType::Float32) continue;  // pi times a float near its end is not the CPU's
    expect(
        t, "cauchy",
        [&] {
          Tensor y = x();
          op_<"cauchy">(y, 1.0, 2.0);
          return y;
        },
        [&](void* y) { counted::cauchy(stream, y, t, kCount, 1, 2); });
  }
  const auto integers = [&](int64_t from, int64_t to) {
    return op<"randint">(from, to, n, Value(), DType::Int64, kDevice);
  };
  expect(
      DType::Int64, "few", [&] { return integers(-3, 9); },
      [&](void* y) {
        counted::integers(stream, y, DType::Int64, kCount, {-3, 12});
      });
  expect(
      DType::Int64, "many", [&] { return integers(0, int64_t{1} << 40); },
      [&](void* y) {
        counted::integers(stream, y, DType::Int64, kCount, {0, uint64_t{1} << 40});
      });
  expect(
      DType::Int64, "randperm",
      [&] { return op<"randperm">(kCount, Value(), DType::Int64, kDevice); },
      [&](void* y) { counted::permutation(stream, static_cast<int64_t*>(y), kCount, 1); });
  const Tensor rates = empty(n, DType::Float64);
  for (int64_t i = 0; i < kCount; ++i) rates.data<double>()[i] = static_cast<double>(i % 40) * 0.7;
  expect(
      DType::Float64, "poisson", [&] { return op<"poisson">(sent(rates, kDevice)); },
      [&](void* y) { cpu::random_poisson(stream, y, rates.data<void>(), DType::Float64, kCount); });
  const Tensor chances = empty(n, DType::Float32);
  for (int64_t i = 0; i < kCount; ++i) chances.data<float>()[i] = static_cast<float>(i % 11) / 10;
  expect(
      DType::Float32, "bernoulli", [&] { return op<"bernoulli">(sent(chances, kDevice)); },
      [&](void* y) {
        counted::bernoulli(stream, y, DType::Float32, kCount, chances.data<void>(), DType::Float32);
      });
  expect(
      DType::Bool, "dropout_mask",
      [&] { return op<"dropout_mask">(empty(n, DType::Float32, kDevice), 0.3); },
      [&](void* y) { counted::bernoulli(stream, y, DType::Bool, kCount, 0.3); });
}

TEST_F(CudaRandom, DropoutKeepsScaledElementsInAnyLayout) {
  const Tensor x = filled({30, 20}, 2, DType::Float32, kDevice);
  for (const Tensor& t : {x, alias(x, {20, 30}, {1, 20}, 0), alias(x, {15, 10}, {40, 2}, 0)}) {
    const Tensor y = fetch(op<"dropout">(t, 0.25, true));
    int kept = 0;
    for (int64_t i = 0; i < y.numel(); ++i) {
      const double v = number_at(y, i);
      EXPECT_TRUE(v == 0 || std::abs(v - 2 / 0.75) < 1e-6);
      kept += v != 0;
    }
    EXPECT_NEAR(double(kept) / double(y.numel()), 0.75, 0.12);
  }
}

TEST_F(CudaRandom, ShortFloatsNeverReachTheEndOfARange) {
  const Tensor x = empty({20000}, DType::BFloat16, kDevice);
  op_<"uniform">(x, 1.0, 2.0);
  const Tensor y = fetch(x);
  for (int64_t i = 0; i < y.numel(); ++i) ASSERT_LT(number_at(y, i), 2) << i;
}

TEST_F(CudaRandom, CountsAreDrawnInAnyLayout) {
  const Tensor rates = filled({30, 20}, 4, DType::Float32, kDevice);
  const auto drawn = [](const Tensor& t) {
    seed_all(7);
    return op<"poisson">(t);
  };
  const Tensor a = drawn(rates), b = drawn(alias(rates, {20, 30}, {1, 20}, 0));
  double sum = 0;
  for (int64_t i = 0; i < 600; ++i) {
    EXPECT_EQ(number_at(a, i), number_at(b, i));  // one after the other, as the results lie
    sum += number_at(a, i);
  }
  EXPECT_NEAR(sum / 600, 4, 0.5);
  EXPECT_EQ(op<"poisson">(empty({0, 3}, DType::Float32, kDevice)).numel(), 0);
}

TEST_F(CudaRandom, CategoriesComeByTheirWeights) {
  const Tensor w = empty({2, 4}, DType::Float32);
  const float weights[] = {0, 1, 3, 0, 2, 0, 0, 0};
  std::copy(weights, weights + 8, w.data<float>());
  const Tensor there = sent(w, kDevice), many = fetch(op<"multinomial">(there, 900, true));
  int twos = 0;
  for (int64_t i = 0; i < 900; ++i) {
    const int64_t k = integer_at(many, i);
    ASSERT_TRUE(k == 2 || k == 3) << k;
    twos += k == 2;
    EXPECT_EQ(integer_at(many, 900 + i), 1);
  }
  EXPECT_NEAR(twos / 900.0, 0.25, 0.06);
  const Tensor two = fetch(op<"multinomial">(op<"select">(there, 0, 0), 2));
  EXPECT_EQ(integer_at(two, 0) + integer_at(two, 1), 5);  // none twice
  EXPECT_THROW(op<"multinomial">(op<"neg">(there), 1), Error);
  EXPECT_THROW(op<"multinomial">(op<"zeros_like">(there), 1), Error);
}

TEST_F(CudaRandom, WrongParametersRaiseAndDrawNothing) {
  const Tensor x = filled({4}, 1, DType::Float32, kDevice);
  EXPECT_THROW(op_<"uniform">(x, 2.0, 1.0), Error);
  EXPECT_THROW(op_<"normal.fill">(x, 0.0, -1.0), Error);
  EXPECT_THROW(op_<"exponential">(x, 0.0), Error);
  EXPECT_THROW(op_<"geometric">(x, 1.0), Error);
  EXPECT_THROW(op_<"cauchy">(x, 0.0, 0.0), Error);
  EXPECT_THROW(op_<"log_normal">(x, 0.0, 0.0), Error);
  EXPECT_THROW(op<"bernoulli">(op<"mul">(x, 2)), Error);
  EXPECT_THROW(op<"normal">(x, op<"neg">(x)), Error);
  EXPECT_THROW(op<"poisson">(op<"neg">(x)), Error);
  EXPECT_THROW(op<"poisson">(op<"div">(x, 0)), Error);
  EXPECT_EQ(number_at(x, 0), 1);
}

}  // namespace
}  // namespace tycho
