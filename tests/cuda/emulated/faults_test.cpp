// Positions out of range on a device: an error that says which, nothing half written, and the device
// goes on.
#include <gtest/gtest.h>

#include "engine/base/check.h"
#include "engine/cuda/start.h"
#include "engine/ops/table/op.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/read.h"
#include "tests/cuda/emulated/driver.h"

namespace tycho {
namespace {

constexpr Device kDevice{0};

std::string error_of(const std::function<void()>& f) {
  try {
    f();
    backend_of(kDevice).synchronize(kDevice);
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Kind::Index) << e.what();
    return e.what();
  }
  return "";
}

TEST(CudaFaults, ABadPositionIsNamedNothingIsWrittenAndTheDeviceGoesOn) {
  cuda::emulated::start();
  cuda::start();
  const auto there = [](const Sizes& shape, const std::vector<double>& x, DType t) {
    const Tensor y = empty(shape, t, kDevice);
    backend_of(kDevice).copy(y, tensor_of(shape, x));
    return y;
  };
  const Tensor x = there({4}, {1, 2, 3, 4}, DType::Float32);
  const Tensor bad = there({3}, {2, 9, 1}, DType::Int64), zero = there({1}, {0}, DType::Int64);
  const Tensor values = there({3}, {5, 6, 7}, DType::Float32);
  EXPECT_NE(error_of([&] {
              op<"gather">(x, 0, bad);
            }).find("index 9 at position 2 is out of range (1 to 4)"),
            std::string::npos);
  EXPECT_NE(error_of([&] { op<"index_select">(x, 0, zero); }).find("index 0 at position 1"),
            std::string::npos);
  EXPECT_NE(error_of([&] { op_<"index_add">(x, 0, bad, values); }).find("index_add"),
            std::string::npos);
  EXPECT_NE(error_of([&] { op_<"scatter_source">(x, 0, bad, values); }).find("scatter"),
            std::string::npos);
  EXPECT_NE(error_of([&] {
              op<"embedding">(bad, there({2, 1}, {1, 2}, DType::Float32));
            }).find("embedding"),
            std::string::npos);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(number_at(x, i), i + 1);
  // What was asked for is named, not a part of it, nor the call that hears of it.
  const Tensor scores = there({2, 3}, {1, 2, 3, 4, 5, 6}, DType::Float32);
  const Tensor labels = there({2}, {2, 4}, DType::Int64);
  const std::string said = error_of([&] { op<"cross_entropy">(scores, labels); });
  EXPECT_TRUE(said.starts_with("cross_entropy: index 4 at position 2 is out of range (1 to 3); "))
      << said;
  op<"index_select">(x, 0, bad);
  try {
    backend_of(kDevice).finish_all();
    FAIL() << "nobody has heard of it";
  } catch (const Error& e) {
    EXPECT_EQ(e.op, "index_select");
  }
  EXPECT_EQ(error_of([&] { op_<"index_fill">(x, 0, there({1}, {4}, DType::Int64), 8); }), "");
  EXPECT_EQ(number_at(x, 3), 8);
}

}  // namespace
}  // namespace tycho
