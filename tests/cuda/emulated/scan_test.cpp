// Scans that are cut into parts, in both ways, against the CPU's.
#include <gtest/gtest.h>

#include "engine/cuda/start.h"
#include "engine/ops/table/op.h"
#include "engine/tensor/read.h"
#include "tests/cuda/emulated/driver.h"

namespace tycho {
namespace {

TEST(CudaScan, PartsMeetInOrder) {
  cuda::emulated::start();
  cuda::start();
  const Device d{0};
  for (const Sizes& shape : {Sizes{17000}, Sizes{9000, 2}}) {
    const Tensor x = empty(shape, DType::Float32);
    for (int64_t i = 0; i < x.numel(); ++i)
      x.data<float>()[i] = static_cast<float>((i * 7919) % 1000) / 500 - 1;
    const Tensor y = sent(x, d);
    const auto same = [&](const Tensor& got, const Tensor& want, const char* what) {
      const Tensor a = fetch(got);
      for (int64_t i = 0; i < a.numel(); ++i)
        ASSERT_NEAR(number_at(a, i), number_at(want, i), 1e-4 * (1 + std::abs(number_at(want, i))))
            << what << " " << i;
    };
    same(op<"cumsum">(y, 0), op<"cumsum">(x, 0), "cumsum");
    same(op<"cumsum_from_end">(y, 0), op<"cumsum_from_end">(x, 0), "cumsum_from_end");
    same(op<"logcumsumexp">(y, 0), op<"logcumsumexp">(x, 0), "logcumsumexp");
    const auto got = ops<"cummax">(y, 0), want = ops<"cummax">(x, 0);
    same(got[0], want[0], "cummax");
    same(got[1], want[1], "cummax's positions");
  }
}

}  // namespace
}  // namespace tycho
