// Layouts inside layouts on a device: windows that overlap and their gradients, places that repeat, and
// a base with gaps.
#include "engine/grad/backward.h"
#include "tests/cuda/emulated/same.h"

namespace tycho {
namespace {

// `f`'s result and the gradient of its weighted sum.
template <class F>
void same_with_gradient(const Sizes& shape, F&& f) {
  same_made(
      [&](Device d) {
        const Tensor host = mixed_numbers(shape, DType::Float32);
        const Tensor x = d.is_cpu() ? op<"clone">(host) : sent(host, d);
        x->requires_grad = true;
        const Tensor y = f(x);
        const Tensor weights = mixed_numbers(y.shape(), DType::Float32, 97);
        const auto g = grad::gradients({y}, {x}, {d.is_cpu() ? weights : sent(weights, d)}, {});
        return std::vector<Tensor>{op<"clone">(y), g[0]};
      },
      1e-5);
}

TEST(CudaStrided, GradientsOfWindowsAreAddedUp) {
  for (const int64_t step : {1, 2, 3, 5})
    same_with_gradient({3, 17, 4},
                       [&](const Tensor& x) { return op<"unfold">(x, 1, int64_t{4}, step); });
  same_with_gradient({300},
                     [](const Tensor& x) { return op<"unfold">(x, 0, int64_t{100}, int64_t{1}); });
}

TEST(CudaStrided, PlacesThatRepeatAndBasesWithGaps) {
  same_with_gradient({4, 6}, [](const Tensor& x) {
    return op<"as_strided">(x, Sizes{3, 2, 5}, Sizes{1, 0, 2}, int64_t{3});
  });
  same_with_gradient({4, 6}, [](const Tensor& x) {
    return op<"as_strided">(op<"narrow">(x, 1, 1, 3), Sizes{3, 4}, Sizes{6, 1}, int64_t{0});
  });
  same_with_gradient({4, 6}, [](const Tensor& x) {
    return op<"as_strided">(op<"transpose">(x, 0, 1), Sizes{80}, Sizes{0}, int64_t{2});
  });
}

}  // namespace
}  // namespace tycho
