// Convolutions where samples do not go: many channels, groups of few and of many, paddings that differ,
// windows written piece by piece, layouts, types, places that no window covers.
#include "engine/cuda/conv.h"

#include <random>

#include "engine/ops/nn/conv.h"
#include "tests/cuda/emulated/same.h"

namespace tycho {
namespace {

struct Case {
  Sizes x, w, stride, padding, dilation;
  int64_t groups, extra;
};

class CudaConv : public testing::TestWithParam<bool> {
 protected:
  CudaConv() {
    convolution_settings.enabled = GetParam();
    convolution_settings.allow_tf32 = false;
  }
  ~CudaConv() override {
    convolution_settings.enabled = true;
    convolution_settings.allow_tf32 = tf32_;
    cuda::most_conv_windows = 256 << 20;
  }
  const bool tf32_ = convolution_settings.allow_tf32;

  // All three products with a bias; `laid` changes the layout of what they read.
  template <class F>
  static void try_case(const Case& k, DType type, double tolerance, const char* what, F&& laid) {
    const auto run = [&](Device d) {
      const auto made = [&](const Sizes& shape, int64_t different) {
        const Tensor t = mixed_numbers(shape, type, different);
        return laid(d.is_cpu() ? t : sent(t, d));
      };
      const Tensor x = made(k.x, 1000), w = made(k.w, 700);
      const Tensor bias = made({k.w[0]}, 300);
      const Tensor y = op<"convolution">(x, w, bias, k.stride, k.padding, k.dilation, k.groups);
      Sizes spatial = Sizes(k.x.v + 2, k.x.n - 2), kernel = Sizes(k.w.v + 2, k.w.n - 2);
      const Tensor g = made(y.shape(), 900);
      const Tensor gw =
          op<"convolution_weight">(g, x, kernel, k.stride, k.padding, k.dilation, k.groups);
      for (int d2 = 0; d2 < spatial.n; ++d2) spatial[d2] += k.extra;
      const Tensor gx =
          op<"convolution_input">(g, w, spatial, k.stride, k.padding, k.dilation, k.groups);
      return std::vector<Tensor>{y, gx, gw};
    };
    same_made(run, tolerance, what);
  }
};

std::string text_of(const Case& k) {
  return to_string(k.x) + to_string(k.w) + " stride " + to_string(k.stride) + " padding " +
         to_string(k.padding) + " dilation " + to_string(k.dilation) + " groups " +
         std::to_string(k.groups) + " extra " + std::to_string(k.extra);
}

Tensor as_it_is(const Tensor& t) { return t; }

TEST_P(CudaConv, GroupsStridesPaddingsAndDilationsGiveTheCpusNumbers) {
  std::mt19937 random(11);
  const auto from = [&](int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random() % static_cast<uint64_t>(most - least + 1));
  };
  for (int i = 0; i < 60; ++i) {
    Case k{};
    const int spatial = static_cast<int>(from(1, 3));
    constexpr int64_t kGroups[] = {1, 1, 2, 3, 8};
    k.groups = kGroups[from(0, 4)];
    const int64_t in = from(1, 9), out = from(1, 9);
    k.x = {from(1, 3), in * k.groups}, k.w = {out * k.groups, in};
    Sizes behind;
    for (int d = 0; d < spatial; ++d) {
      k.w.push_back(from(1, 3));
      k.stride.push_back(from(1, 3));
      k.dilation.push_back(from(1, 2));
      k.padding.push_back(from(0, 2));
      behind.push_back(from(0, 2));
      k.x.push_back((k.w[d + 2] - 1) * k.dilation[d] + 1 + from(0, spatial == 3 ? 3 : 7));
    }
    for (const int64_t b : behind) k.padding.push_back(b);
    cuda::most_conv_windows = i % 3 == 0 ? 3000 : i % 3 == 1 ? 100 : 256 << 20;
    const std::string text = text_of(k);
    try_case(k, DType::Float32, 2e-5, text.c_str(), as_it_is);
    if (HasFatalFailure()) return;
  }
}

TEST_P(CudaConv, EveryTypeIsSummedInItsLanes) {
  const Case dense{{2, 12, 7, 6}, {10, 12, 3, 2}, {2, 1}, {1, 0, 0, 2}, {1, 2}, 1, 0},
      separate{{2, 6, 7, 6}, {12, 1, 3, 3}, {1, 2}, {1, 1, 1, 1}, {1, 1}, 6, 0};
  for (const Case& k : {dense, separate}) {
    try_case(k, DType::Float64, 1e-13, "f64", as_it_is);
    try_case(k, DType::Float16, 2e-3, "f16", as_it_is);
    try_case(k, DType::BFloat16, 1e-2, "bf16", as_it_is);
    cuda::most_conv_windows = 2000;
    try_case(k, DType::BFloat16, 1e-2, "bf16 in pieces", as_it_is);
    try_case(k, DType::Int64, 0, "i64", as_it_is);
    try_case(k, DType::UInt8, 0, "u8", as_it_is);
  }
}

TEST_P(CudaConv, AnyLayoutIsTaken) {
  const Case k{{2, 8, 6, 5}, {6, 8, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1, 0};
  try_case(k, DType::Float32, 2e-5, "every second element", [](const Tensor& t) {
    Sizes shape = t.shape();
    shape[0] *= 2;
    Sizes stride = row_major(shape);
    stride[0] *= 2;
    const Tensor y = alias(empty(shape, t.dtype(), t.device()), t.shape(), stride, 0);
    copy_raw(y, t);
    return y;
  });
  try_case(k, DType::Float32, 2e-5, "channels last behind an offset", [](const Tensor& t) {
    if (t.rank() < 4) return t;
    const Tensor y = alias(empty({t.numel() + 3}, t.dtype(), t.device()), t.shape(),
                           channels_last_strides(t.shape()), 3);
    copy_raw(y, t);
    return y;
  });
}

TEST_P(CudaConv, PixelsThatNoWindowCoversHaveNoGradient) {
  try_case({{1, 9, 8, 8}, {9, 9, 2, 2}, {3, 3}, {0, 0, 0, 0}, {1, 1}, 1, 0}, DType::Float32, 2e-5,
           "steps over pixels", as_it_is);
  try_case({{1, 9, 5, 5}, {9, 9, 2, 2}, {1, 1}, {0, 0, 0, 0}, {3, 3}, 1, 2}, DType::Float32, 2e-5,
           "a transposed one's extra places", as_it_is);
  try_case({{1, 9, 4, 4}, {9, 9, 1, 1}, {1, 1}, {0, 0, 0, 0}, {3, 3}, 1, 2}, DType::Float32, 2e-5,
           "extra places of a kernel of one", as_it_is);
}

TEST_P(CudaConv, NothingInGivesZeros) {
  const auto run = [](Device d) {
    const auto made = [&](const Sizes& shape) { return filled(shape, 1, DType::Float32, d); };
    return std::vector<Tensor>{
        op<"convolution">(made({2, 0, 4}), made({3, 0, 2}), filled({3}, 2, DType::Float32, d),
                          Sizes{1}, Sizes{0, 0}, Sizes{1}, 1),
        op<"convolution_weight">(made({0, 3, 3}), made({0, 2, 4}), Sizes{2}, Sizes{1}, Sizes{0, 0},
                                 Sizes{1}, 1),
        op<"convolution_input">(made({2, 0, 3}), made({0, 2, 2}), Sizes{4}, Sizes{1}, Sizes{0, 0},
                                Sizes{1}, 1)};
  };
  same_made(run);
}

TEST_P(CudaConv, ResultsLieWithTheirChannelsSideBySide) {
  cuda::emulated::start();
  cuda::start();
  const Device d{0};
  const Tensor x = filled({2, 3, 4, 4}, 1, DType::Float32, d),
               w = filled({5, 3, 3, 3}, 1, DType::Float32, d);
  const Tensor y = op<"convolution">(x, w, Value(), Sizes{1, 1}, Sizes{1, 1, 1, 1}, Sizes{1, 1}, 1);
  EXPECT_TRUE(is_channels_last(y));
  EXPECT_EQ(number_at(y, 0), 12);
}

INSTANTIATE_TEST_SUITE_P(Both, CudaConv, testing::Bool(), [](const auto& info) {
  return info.param ? "ByTheLibrary" : "ByProducts";
});

}  // namespace
}  // namespace tycho
