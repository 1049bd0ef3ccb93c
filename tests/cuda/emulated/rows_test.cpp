// Rows, copies and fills on the emulated device against the CPU, bit for bit where both compute in
// the same lanes.
#include <gtest/gtest.h>

#include "engine/cuda/start.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/read.h"
#include "tests/cuda/emulated/driver.h"

namespace tycho {
namespace {

constexpr Device kFirst{0}, kSecond{1};

struct CudaBackend : testing::Test {
  CudaBackend() {
    cuda::emulated::start();
    cuda::start();
  }
};

void expect_equal(const Tensor& a, const Tensor& b, const std::string& what, double off = 0) {
  ASSERT_EQ(a.numel(), b.numel()) << what;
  const Tensor x = fetch(a), y = fetch(b);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const double p = number_at(x, i), q = number_at(y, i);
    if (p == q || (p != p && q != q)) continue;
    EXPECT_LE(std::abs(p - q), off * std::max(1.0, std::abs(q))) << what << " at " << i;
  }
}

Tensor numbers(DType dtype) {
  const Tensor x = empty({4, 6}, DType::Float64);
  for (int i = 0; i < 24; ++i) x.data<double>()[i] = is_floating(dtype) ? 0.3 * i - 2.7 : i + 1;
  const Tensor y = empty({4, 6}, dtype);
  backend_of(Device{}).copy(y, x);
  return y;
}

TEST_F(CudaBackend, CopiesInEveryTypeAndLayoutAsTheCpuDoes) {
  for (int from = 0; from < kDTypes; ++from)
    for (int to = 0; to < kDTypes; ++to) {
      const std::string what =
          std::string(dtype_name(DType(from))) + " to " + dtype_name(DType(to));
      const Tensor x = numbers(DType(from)), device = sent(x, kFirst);
      const Tensor expected = empty({6, 4}, DType(to)), got = empty({6, 4}, DType(to), kFirst);
      const auto turned = [](const Tensor& t) { return alias(t, {6, 4}, {1, 6}, 0); };
      backend_of(Device{}).copy(expected, turned(x));
      backend_of(kFirst).copy(got, turned(device));
      expect_equal(got, expected, what);
      backend_of(kFirst).copy(turned(device), got);  // back into the strided one
      if (cuda_device_count() < 2) continue;
      const Tensor second = sent(device, kSecond);
      expect_equal(second, device, what + " on the other device");
    }
}

TEST_F(CudaBackend, FillsAnyLayoutAndLeavesTheRest) {
  const Tensor x = filled({4, 6}, 2, DType::Float32, kFirst);
  const float seven = 7;
  backend_of(kFirst).fill(alias(x, {4, 3}, {6, 2}, 1), &seven);
  for (int i = 0; i < 24; ++i) EXPECT_EQ(number_at(x, i), i % 2 ? 7 : 2);
}

// A test for each type: on a GPU every row is compiled.
struct CudaBackendRows : CudaBackend, testing::WithParamInterface<DType> {};
TEST_P(CudaBackendRows, RunAsTheCpuDoes) {
  const DType t = GetParam();
  int tried = 0;
  for (int row = 0; row < kRows; ++row) {
    const RowType type = row_info[row].type;
    if (is_floating(t) ? type == RowType::Bits || type == RowType::Ints
                       : type == RowType::Float || type == RowType::Real)
      continue;
    const DType result = type == RowType::Test ? DType::Bool : t;
    const int n = row_info[row].operands;
    const Tensor host = numbers(t), device = sent(host, kFirst);
    const auto turned = [](const Tensor& x) { return alias(x, {6, 4}, {1, 6}, 0); };
    const Tensor a = turned(host), b = turned(device);
    Value host_args[kOperands], device_args[kOperands];
    for (int k = 0; k < n; ++k) {
      host_args[k] = k == 0 ? Value(a) : Value(2);
      device_args[k] = k == 0 ? Value(b) : Value(2);
    }
    const Tensor expected = empty({6, 4}, result), got = empty({6, 4}, result, kFirst);
    backend_of(Device{}).run_row(row, t, host_args, n, expected.get());
    backend_of(kFirst).run_row(row, t, device_args, n, got.get());
    expect_equal(got, expected, std::string(row_op(Row(row)).name) + " " + dtype_name(t),
                 t == DType::BFloat16  ? 1e-2
                 : t == DType::Float64 ? 1e-13
                                       : 2e-6);
    ++tried;
  }
  EXPECT_GT(tried, 60);
}
INSTANTIATE_TEST_SUITE_P(Types, CudaBackendRows,
                         testing::Values(DType::Float32, DType::Float64, DType::BFloat16,
                                         DType::Int32),
                         [](const auto& info) { return std::string(dtype_name(info.param)); });

TEST_F(CudaBackend, RunsRowsOfNeighboursAsTheCpuDoesFromAnyPlaceAndOfAnyLength) {
  const DType types[] = {DType::Float32, DType::BFloat16, DType::Int32, DType::Float64};
  const auto part = [](const Tensor& t, int64_t n, int64_t offset) {
    return alias(t, {n}, {1}, offset);
  };
  for (const DType t : types)
    for (const int64_t n : {1, 2, 3, 7, 16})
      for (const int64_t offset : {0, 1, 4}) {
        const Tensor host = numbers(t), device = sent(host, kFirst);
        const Tensor first = alias(device, {1}, {1}, 5), host_first = alias(host, {1}, {1}, 5);
        const auto run = [&](const Tensor& a, const Tensor& b, const Tensor& one) {
          const Tensor y = filled({20}, 0, t, a.device()), all = part(y, n, offset);
          const Tensor from = part(a, n, offset), less = part(b, n, 0);
          Value both[] = {Value(from), Value(less)};
          backend_of(a.device()).run_row(static_cast<int>(Row::sub), t, both, 2, all.get());
          Value with_one[] = {Value(all), Value(one)};
          backend_of(a.device()).run_row(static_cast<int>(Row::mul), t, with_one, 2, all.get());
          return y;
        };
        expect_equal(run(device, device, first), run(host, host, host_first),
                     std::string(dtype_name(t)) + " " + std::to_string(n) + " from " +
                         std::to_string(offset));
      }
}

TEST_F(CudaBackend, GivesNoMemoryToAStreamThatAnotherOneStillUses) {
  for (uint64_t seed = 1; seed < 40; ++seed) {
    cuda::emulated::Options lazy;
    lazy.seed = seed;
    lazy.eager_percent = 0;
    cuda::emulated::start(lazy);
    Backend& backend = backend_of(kFirst);
    const Tensor kept = empty({1000}, DType::Float32, kFirst);
    const auto one_then_dropped = [&] {
      const Tensor x = filled({1000}, 1, DType::Float32, kFirst);
      backend.copy(kept, x);
    };
    one_then_dropped();
    const StreamId stream = backend.new_stream(kFirst);
    const auto nine_on_the_stream = [&] {
      set_current_stream(kFirst, stream);
      const Tensor y = filled({1000}, 9, DType::Float32, kFirst);
      set_current_stream(kFirst, 0);
    };
    nine_on_the_stream();
    one_then_dropped();
    nine_on_the_stream();
    backend.synchronize(kFirst);
    EXPECT_EQ(number_at(kept, 500), 1) << "seed " << seed;
    backend.release_stream(kFirst, stream);
  }
}

TEST_F(CudaBackend, RaisesWhenADeviceIsFullAndGoesOn) {
  cuda::emulated::Options small;
  small.memory = 8 << 20;
  cuda::emulated::start(small);
  EXPECT_THROW(empty({16 << 20}, DType::Float32, kFirst), Error);
  expect_equal(filled({3}, 1, DType::Float32, kFirst), filled({3}, 1, DType::Float32), "after");
}

}  // namespace
}  // namespace tycho
