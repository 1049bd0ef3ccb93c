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
        [&](void* y) { counted::uniform(stream, y, t, kCount, -2, 5); });
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

TEST_F(CudaRandom, WrongParametersRaiseAndDrawNothing) {
  const Tensor x = filled({4}, 1, DType::Float32, kDevice);
  EXPECT_THROW(op_<"uniform">(x, 2.0, 1.0), Error);
  EXPECT_THROW(op_<"normal.fill">(x, 0.0, -1.0), Error);
  EXPECT_EQ(number_at(x, 0), 1);
}

}  // namespace
}  // namespace tycho
