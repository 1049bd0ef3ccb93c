// Pooling where samples do not go: nans, equal maxima, windows that overlap, whole images.
#include "tests/cuda/emulated/same.h"

namespace tycho {
namespace {

TEST(CudaPool, OfEqualMaximaTheFirstAndOfNansTheLastAreTaken) {
  const Tensor x = mixed_numbers({2, 3, 9, 8}, DType::Float32, 3);
  for (int64_t i = 0; i < x.numel(); i += 7) x.data<float>()[i] = std::nanf("");
  same_on_both(x, [](const Tensor& x) {
    const auto y = ops<"max_pool2d">(x, Sizes{3}, Sizes{2}, Sizes{1}, Sizes{2}, true, true);
    return std::vector<Tensor>(y.begin(), y.end());
  });
}

TEST(CudaPool, WindowsThatDifferInSizeMayOverlap) {
  for (const DType t : {DType::Float32, DType::BFloat16, DType::Int64}) {
    const Tensor x = mixed_numbers({2, 3, 11, 7}, t);
    const double near = t == DType::BFloat16 ? 1e-2 : 1e-6;
    same_on_both(
        x,
        [](const Tensor& x) {
          return std::vector<Tensor>{op<"adaptive_avg_pool2d">(x, Sizes{4, 5}),
                                     op<"adaptive_max_pool2d">(x, Sizes{8, 3})};
        },
        near, dtype_name(t));
  }
}

TEST(CudaPool, AWholeImageHasOneMean) {
  same_on_both(
      mixed_numbers({2, 3, 40, 30}, DType::Float32),
      [](const Tensor& x) { return std::vector<Tensor>{op<"adaptive_avg_pool2d">(x, Sizes{1})}; },
      1e-6);
}

TEST(CudaPool, WindowsOfPaddingOnlyAreAnError) {
  const Tensor x = mixed_numbers({1, 1, 3, 3}, DType::Float32);
  cuda::emulated::start();
  cuda::start();
  EXPECT_THROW(ops<"max_pool">(sent(x, Device{0}), Sizes{4, 4}, false, Sizes{1, 1}, Sizes{2, 2},
                               Sizes{2, 2}, Sizes{1, 1}),
               Error);
}

}  // namespace
}  // namespace tycho
