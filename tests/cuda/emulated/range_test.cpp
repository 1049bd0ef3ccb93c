// Ranges, positions and weights of resizing that are made on the device.
#include "tests/cuda/emulated/same.h"

namespace tycho {
namespace {

TEST(CudaRange, NumbersFollowFromTheirPositions) {
  same_made([](Device d) {
    return std::vector<Tensor>{
        op<"arange">(1000, DType::Int64, d),         op<"arange">(300, DType::BFloat16, d),
        op<"arange.start">(5, -700, -3, Value(), d), op<"arange.start">(0.5, 90.0, 0.1, Value(), d),
        op<"linspace">(-1.0, 2.0, 301, Value(), d),  op<"linspace">(0, 10, 7, DType::Int32, d),
        op<"linspace">(3.0, 4.0, 1, Value(), d)};
  });
  same_made(
      [](Device d) { return std::vector<Tensor>{op<"logspace">(-2.0, 2.0, 50, 10.0, Value(), d)}; },
      1e-6);
}

TEST(CudaRange, PositionsOfPaddingAndResizing) {
  for (const char* mode : {"reflect", "replicate", "circular"})
    same_made(
        [&](Device d) {
          return std::vector<Tensor>{op<"pad_positions">(9, 4, 7, mode, d),
                                     op<"pad_positions">(9, -2, 5, mode, d),
                                     op<"pad_positions">(9, 3, -4, mode, d)};
        },
        0, mode);
  same_made([](Device d) {
    return std::vector<Tensor>{op<"nearest_positions">(7, 300, 7.0 / 300, 0.5, d),
                               op<"nearest_positions">(300, 7, 300.0 / 7, 0.0, d)};
  });
}

TEST(CudaRange, WeightsOfResizing) {
  for (int kind = 0; kind < 8; ++kind)
    for (const int64_t n : {3, 300})
      same_made(
          [&](Device d) {
            const auto taps =
                ops<"resample_taps">(40, n, 40.0 / static_cast<double>(n), bool(kind & 1),
                                     bool(kind & 2), bool(kind & 4), DType::Float64, d);
            return std::vector<Tensor>(taps.begin(), taps.end());
          },
          1e-14);
}

TEST(CudaRange, Triangles) {
  for (const DType t : {DType::Bool, DType::BFloat16, DType::Float32, DType::Float64})
    for (const int64_t diagonal : {-20, -3, 0, 2, 20})
      same_on_both(mixed_numbers({3, 7, 11}, t), [&](const Tensor& x) {
        return std::vector<Tensor>{op<"tril">(x, diagonal), op<"triu">(x, diagonal)};
      });
  same_made([](Device d) {
    return std::vector<Tensor>{op<"tril_indices">(5, 9, 1, Value(), d),
                               op<"triu_indices">(9, 5, -1, Value(), d)};
  });
}

}  // namespace
}  // namespace tycho
