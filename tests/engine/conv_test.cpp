// Convolutions against plain loops in float64, in odd parameter combinations; gradients of first
// to third order against differences.
#include "engine/ops/nn/conv.h"

#include "engine/base/parallel.h"
#include "engine/cpu/level.h"
#include "tests/engine/levels.h"
#include "tests/engine/numeric.h"

namespace tycho {
namespace {

using namespace numeric;

struct Case {
  Sizes x, w;
  Sizes stride, pad, dilation;
  int64_t groups = 1;
};

const std::vector<Case> kImages = {
    {{2, 3, 5, 4}, {4, 3, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {{2, 1, 9, 8}, {6, 1, 5, 5}, {1, 1}, {2, 2}, {1, 1}},
    {{1, 6, 9, 10}, {16, 6, 5, 5}, {1, 1}, {0, 0}, {1, 1}},
    {{3, 4, 7, 6}, {6, 2, 2, 3}, {2, 1}, {1, 2}, {1, 2}, 2},
    {{2, 4, 8, 8}, {4, 1, 3, 3}, {2, 2}, {1, 1}, {1, 1}, 4},
    {{3, 37, 6, 7}, {37, 1, 3, 2}, {2, 1}, {1, 1}, {1, 2}, 37},
    {{2, 5, 6, 6}, {7, 5, 1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {{2, 5, 6, 7}, {3, 5, 1, 1}, {2, 3}, {1, 1}, {1, 1}},
    {{1, 40, 6, 5}, {33, 40, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {{1, 2, 3, 3}, {2, 2, 3, 3}, {1, 1}, {3, 4}, {2, 2}},
    {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {{2, 300, 3, 4}, {20, 300, 2, 2}, {1, 1}, {1, 0}, {1, 1}},
    // Taps in the padding, at both ends, at one, with steps and dilation; one that sees a pixel.
    {{1, 3, 5, 4}, {4, 3, 14, 3}, {1, 1}, {8, 1}, {1, 1}},
    {{2, 3, 3, 5}, {4, 3, 5, 7}, {2, 3}, {7, 6}, {3, 2}},
    {{1, 2, 1, 1}, {3, 2, 7, 9}, {1, 1}, {3, 4}, {1, 1}},
    // Pixels that single taps step over, in one dimension and in both.
    {{2, 5, 7, 8}, {3, 5, 1, 1}, {2, 3}, {0, 0}, {1, 4}},
    {{2, 4, 7, 8}, {6, 2, 1, 3}, {3, 2}, {0, 1}, {1, 1}, 2},
    {{2, 6, 9, 7}, {6, 1, 3, 1}, {1, 4}, {1, 0}, {1, 1}, 6},
    // Lines, upright and not, of few channels and of many.
    {{2, 3, 40, 1}, {20, 3, 20, 1}, {2, 1}, {5, 0}, {1, 1}},
    {{1, 70, 30, 1}, {9, 70, 17, 1}, {1, 1}, {3, 0}, {1, 1}},
    {{1, 64, 1, 31}, {16, 64, 1, 18}, {1, 2}, {0, 4}, {1, 1}},
    // Few outputs of many channels, whose images are cut, with padding at the ends and steps.
    {{1, 37, 1, 9001}, {1, 37, 1, 3}, {1, 3}, {0, 2}, {1, 2}},
    {{2, 60, 1, 5000}, {2, 30, 1, 5}, {1, 1}, {0, 2}, {1, 1}, 2},
    {{1, 20, 131, 140}, {2, 20, 3, 2}, {2, 1}, {5, 1}, {1, 1}},
    // Many outputs of few numbers: results wider than caches, gradients with few columns.
    {{2, 1, 9, 20}, {67, 1, 1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {{1, 2, 61, 64}, {113, 2, 1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {{2, 1, 11, 30}, {400, 1, 1, 3}, {1, 1}, {0, 1}, {1, 1}},
    {{2, 6, 9, 11}, {78, 3, 2, 2}, {2, 1}, {1, 0}, {1, 1}, 2},
    {{1, 2, 23, 27}, {355, 2, 3, 3}, {1, 1}, {1, 0}, {1, 2}},
    // Single taps with few outputs, whose weight's gradient is a product of planes.
    {{3, 45, 1, 130}, {3, 45, 1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {{2, 20, 33, 33}, {8, 20, 1, 1}, {1, 1}, {0, 0}, {1, 1}},
    {{2, 9, 21, 9}, {2, 9, 1, 1}, {2, 1}, {0, 0}, {1, 1}},
};

Tensor slow_conv2d(const Tensor& xt, const Tensor& wt, const Case& c) {
  const auto x = values(xt), w = values(wt);
  const auto& [N, C, H, W] = std::array{c.x[0], c.x[1], c.x[2], c.x[3]};
  const auto& [O, I, KH, KW] = std::array{c.w[0], c.w[1], c.w[2], c.w[3]};
  const int64_t OH = (H + 2 * c.pad[0] - c.dilation[0] * (KH - 1) - 1) / c.stride[0] + 1;
  const int64_t OW = (W + 2 * c.pad[1] - c.dilation[1] * (KW - 1) - 1) / c.stride[1] + 1;
  Tensor y = filled({N, O, OH, OW}, 0, DType::Float64);
  for (int64_t n = 0; n < N; ++n)
    for (int64_t o = 0; o < O; ++o)
      for (int64_t i = 0; i < I; ++i)
        for (int64_t oh = 0; oh < OH; ++oh)
          for (int64_t ow = 0; ow < OW; ++ow)
            for (int64_t kh = 0; kh < KH; ++kh)
              for (int64_t kw = 0; kw < KW; ++kw) {
                const int64_t h = oh * c.stride[0] - c.pad[0] + kh * c.dilation[0];
                const int64_t v = ow * c.stride[1] - c.pad[1] + kw * c.dilation[1];
                if (h < 0 || h >= H || v < 0 || v >= W) continue;
                const int64_t ic = o / (O / c.groups) * I + i;
                y.host<double>()[((n * O + o) * OH + oh) * OW + ow] +=
                    x[((n * C + ic) * H + h) * W + v] * w[((o * I + i) * KH + kh) * KW + kw];
              }
  return y;
}

Tensor conv2d(const Tensor& x, const Tensor& w, const Tensor& b, const Case& c) {
  return op<"conv2d">(x, w, b, c.stride, c.pad, c.dilation, c.groups);
}

// <conv(x, w), g> is linear in x and in w: both gradients follow from it exactly.
void check_case(const Case& c, DType dtype, double tolerance) {
  Source s;
  const std::string what = to_string(c.x) + " " + to_string(c.w) + " " + dtype_name(dtype);
  const Tensor x = random(s, c.x, dtype), w = random(s, c.w, dtype);
  const Tensor want = slow_conv2d(x, w, c);
  const Tensor have = conv2d(x, w, Tensor(), c);
  expect_near(have, want, tolerance, what);
  EXPECT_TRUE(is_channels_last(have));
  const Tensor bias = random(s, {c.w[0]}, dtype);
  expect_near(conv2d(x, w, bias, c),
              want + op<"reshape">(op<"to.dtype">(bias, DType::Float64), Sizes{c.w[0], 1, 1}),
              tolerance, what + " bias");
  if (!is_floating(dtype)) return;
  // Other layouts of the same values.
  Tensor turned = op<"transpose">(packed(op<"transpose">(x, 1, 3)), 1, 3);
  Tensor w_turned = op<"transpose">(packed(op<"transpose">(w, 0, 2)), 0, 2);
  expect_near(conv2d(turned, w_turned, Tensor(), c), want, tolerance, what + " turned");
  const Tensor g = random(s, want.shape(), dtype);
  const Tensor lx = as_leaf(x), lw = as_leaf(w);
  const auto grads = grad::gradients({conv2d(lx, lw, Tensor(), c)}, {lx, lw}, {g}, {});
  // Unit vectors through the slow convolution, a few of them.
  for (int which = 0; which < 2; ++which) {
    const Tensor& of = which ? w : x;
    const auto have_g = values(grads[which]);
    for (int64_t i = 0; i < of.numel(); i += 1 + of.numel() / 5) {
      Tensor unit = filled(of.shape(), 0, DType::Float64);
      unit.host<double>()[i] = 1;
      const auto y = values(which ? slow_conv2d(x, unit, c) : slow_conv2d(unit, w, c));
      const auto gv = values(g);
      double dot = 0;
      for (size_t k = 0; k < y.size(); ++k) dot += y[k] * gv[k];
      ASSERT_NEAR(have_g[i], dot, tolerance * std::max(1.0, std::abs(dot)))
          << what << " gradient " << which << " element " << i;
    }
  }
}

TEST(Conv, AgreesWithTheDefinitionInOddShapes) {
  for (const Case& c : kImages) {
    check_case(c, DType::Float64, 1e-12);
    check_case(c, DType::Float32, 1e-4);
    check_case(c, DType::BFloat16, 5e-2);
    check_case(c, DType::Int64, 0);
  }
}

TEST(Conv, AgreesAtEveryLevelAndOnThreads) {
  const cpu::Level best = cpu::level();
  const int before = get_num_threads();
  for (cpu::Level l : {cpu::Level::x86_64, cpu::Level::v3, cpu::Level::v4}) {
    if (l > best) break;
    cpu::force_level(l);
    set_num_threads(1 + static_cast<int>(l));
    for (const Case& c : kImages) check_case(c, DType::Float32, 1e-4);
    check_case({{5, 12, 14, 14}, {24, 12, 3, 3}, {1, 1}, {1, 1}, {1, 1}}, DType::Float32, 1e-3);
  }
  cpu::force_level(best);
  set_num_threads(before);
}

// A few microseconds of work, which threads share, too: the same bits, forward and in the input's gradient.
TEST(Conv, OfFewNumbersIsTheSameOnAnyThreads) {
  at_each_level([] {
    const int before = get_num_threads();
    for (const Case& c :
         std::vector<Case>{{{8, 1, 10, 37}, {347, 1, 1, 1}, {2, 2}, {0, 0}, {1, 1}},
                           {{4, 3, 32, 32}, {16, 3, 3, 3}, {1, 1}, {0, 0}, {1, 1}},
                           {{4, 3, 32, 32}, {64, 3, 2, 2}, {2, 2}, {0, 0}, {1, 1}},
                           {{1, 16, 14, 14}, {32, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}},
                           {{2, 8, 20, 20}, {8, 8, 3, 3}, {1, 1}, {0, 0}, {1, 1}},
                           {{8, 1, 28, 28}, {6, 1, 5, 5}, {1, 1}, {0, 0}, {1, 1}},
                           {{16, 2, 1, 504}, {20, 2, 1, 1}, {1, 1}, {0, 0}, {1, 1}},
                           {{16, 2, 1, 504}, {20, 2, 1, 5}, {1, 1}, {0, 0}, {1, 1}}})
      for (const DType t : {DType::Float32, DType::Float64, DType::BFloat16}) {
        Source s;
        const Tensor x = as_leaf(random(s, c.x, t)), w = as_leaf(random(s, c.w, t));
        std::vector<Tensor> first;
        for (const int threads : {1, 2, 3, 7}) {
          set_num_threads(threads);
          const Tensor y = conv2d(x, w, Tensor(), c);
          std::vector<Tensor> all = grad::gradients({y}, {x}, {op<"ones_like">(y)}, {});
          all.push_back(y);
          if (threads == 1) first = all;
          for (size_t k = 0; k < all.size(); ++k)
            EXPECT_EQ(values(all[k]), values(first[k]))
                << to_string(c.w) << dtype_name(t) << threads << " " << k;
        }
        set_num_threads(before);
      }
  });
}

// Every kernel there is, by chance: few channels and many, long lines and short ones, steps, dilation
// and padding wider than the image.
TEST(Conv, OfRandomShapesAgreesWithTheDefinitionAtEveryLevel) {
  const cpu::Level best = cpu::level();
  const int before = get_num_threads();
  Source s;
  const auto any = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>((s.next() + 1) / 2 * static_cast<double>(high - low + 1));
  };
  const auto few = [&](int64_t most) { return any(1, any(0, 2) ? 9 : most); };
  for (int i = 0; i < 60; ++i) {
    Case c{{any(1, 2), 0, few(20), few(60)}, {0, few(40), any(1, 5), any(1, 5)}, {}, {}, {}};
    c.groups = any(0, 3) ? 1 : any(2, 9);
    if (c.groups > 1) c.w[1] = any(1, 4);
    c.x[1] = c.groups * c.w[1], c.w[0] = c.groups * (c.groups > 1 ? any(1, 5) : few(70));
    for (int d = 0; d < 2; ++d) {
      c.stride.push_back(any(1, 3)), c.dilation.push_back(any(1, 2)), c.pad.push_back(any(0, 4));
      const int64_t reach = c.dilation[d] * (c.w[d + 2] - 1) + 1;
      if (c.x[d + 2] + 2 * c.pad[d] < reach) c.pad[d] = reach;
    }
    cpu::force_level(std::min(best, static_cast<cpu::Level>(any(0, 2))));
    set_num_threads(static_cast<int>(any(1, 3)));
    if (any(0, 1))
      check_case(c, DType::Float32, 1e-3);
    else
      check_case(c, DType::Float64, 1e-11);
  }
  cpu::force_level(best);
  set_num_threads(before);
}

TEST(Conv, InOneAndThreeDimensionsIsTheSameAsInTwo) {
  Source s;
  Tensor x = random(s, {2, 4, 9}), w = random(s, {6, 2, 3}), b = random(s, {6});
  Tensor one = op<"conv1d">(x, w, b, Sizes{2}, Sizes{1}, Sizes{2}, 2);
  Tensor two =
      op<"conv2d">(op<"reshape">(x, Sizes{2, 4, 1, 9}), op<"reshape">(w, Sizes{6, 2, 1, 3}), b,
                   Sizes{1, 2}, Sizes{0, 1}, Sizes{1, 2}, 2);
  expect_near(one, op<"reshape">(two, one.shape()), 0);
  // A volume's convolution is a sum of images' convolutions over the kernel's depth.
  Tensor v = random(s, {1, 2, 4, 5, 6}), k = random(s, {3, 2, 2, 3, 3});
  Tensor have = op<"conv3d">(v, k);
  ASSERT_EQ(to_string(have.shape()), "[1, 3, 3, 3, 4]");
  for (int64_t d = 0; d < 3; ++d) {
    Tensor sum = op<"conv2d">(op<"select">(v, 2, d), op<"select">(k, 2, 0)) +
                 op<"conv2d">(op<"select">(v, 2, d + 1), op<"select">(k, 2, 1));
    expect_near(op<"select">(have, 2, d), sum, 1e-13);
  }
}

TEST(Conv, SamePaddingKeepsTheSizeAndAloneImagesNeedNoBatch) {
  Source s;
  Tensor x = random(s, {1, 2, 5, 4}), w = random(s, {3, 2, 4, 3});
  Tensor y = op<"conv2d.mode">(x, w, Value(), Sizes{1}, "same");
  ASSERT_EQ(to_string(y.shape()), "[1, 3, 5, 4]");
  // The odd one goes behind: the same as symmetric padding 2 without the first row.
  Tensor wide = op<"conv2d">(x, w, Value(), Sizes{1}, Sizes{2, 1});
  Tensor part = alias(wide, {1, 3, 5, 4}, wide.strides(), wide->offset + wide.stride(2));
  expect_near(y, part, 1e-14);
  Tensor alone = op<"conv2d">(op<"reshape">(x, Sizes{2, 5, 4}), w);
  expect_near(alone, op<"reshape">(op<"conv2d">(x, w), alone.shape()), 0);
}

TEST(Conv, TransposedIsTheGradientOfTheInput) {
  Source s;
  Tensor x = random(s, {2, 4, 3, 5}), w = random(s, {4, 3, 3, 2}), b = random(s, {6});
  Tensor y = op<"conv_transpose2d">(x, w, b, Sizes{2, 3}, Sizes{1, 0}, Sizes{1, 2}, 2, Sizes{1, 2});
  ASSERT_EQ(to_string(y.shape()), "[2, 6, 6, 17]");
  Tensor lx = as_leaf(random(s, y.shape()));
  Tensor f = op<"conv2d">(lx, w, Value(), Sizes{2, 3}, Sizes{1, 0}, Sizes{1, 2}, 2);
  ASSERT_EQ(to_string(f.shape()), to_string(x.shape()));
  Tensor g = grad::gradients({f}, {lx}, {x}, {})[0];
  expect_near(y, g + op<"reshape">(b, Sizes{6, 1, 1}), 1e-13);
}

TEST(Conv, GradientsOfSecondAndThirdOrder) {
  Source s;
  check_gradient(
      [](const std::vector<Tensor>& v) {
        return op<"conv2d">(v[0], v[1], v[2], Sizes{2, 1}, Sizes{1, 0}, Sizes{1, 2}, 2);
      },
      {random(s, {1, 2, 3, 4}), random(s, {2, 1, 2, 2}), random(s, {2})}, "conv2d", 3);
  check_gradient(
      [](const std::vector<Tensor>& v) {
        return op<"conv_transpose2d">(v[0], v[1], v[2], Sizes{2}, Sizes{1}, Sizes{1});
      },
      {random(s, {1, 2, 2, 2}), random(s, {2, 2, 3, 3}), random(s, {2})}, "conv_transpose2d");
  check_gradient([](const std::vector<Tensor>& v) { return op<"conv1d">(v[0], v[1]); },
                 {random(s, {2, 4}), random(s, {3, 2, 2})}, "conv1d");
}

TEST(Conv, ErrorsNameWhatDoesNotFit) {
  Source s;
  Tensor x = random(s, {2, 3, 8, 8}), w = random(s, {4, 2, 3, 3});
  try {
    op<"conv2d">(x, w);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, Kind::Shape);
    EXPECT_NE(e.text.find("3 channels (dimension 2 of [2, 3, 8, 8]), the weight expects 2"),
              std::string::npos)
        << e.text;
  }
  w = random(s, {4, 3, 3, 3});
  EXPECT_THROW(op<"conv2d">(x, random(s, {4, 3, 9, 3})), Error);
  EXPECT_THROW(op<"conv2d">(x, w, random(s, {3})), Error);
  EXPECT_THROW(op<"conv2d">(x, w, Value(), Sizes{0}), Error);
  EXPECT_THROW(op<"conv2d">(x, w, Value(), Sizes{1}, Sizes{-1}), Error);
  EXPECT_THROW(op<"conv2d">(x, w, Value(), Sizes{1}, Sizes{1, 1, 1}), Error);
  EXPECT_THROW(op<"conv2d">(x, w, Value(), Sizes{1}, Sizes{0}, Sizes{1}, 2), Error);
  EXPECT_THROW(op<"conv2d">(x, random(s, {4, 3, 3, 3}, DType::Float32)), Error);
  EXPECT_THROW(op<"conv2d">(random(s, {8, 8}), w), Error);
  EXPECT_THROW(op<"conv2d.mode">(x, w, Value(), Sizes{2}, "same"), Error);
  Tensor none = op<"conv2d">(random(s, {0, 3, 8, 8}), w);
  EXPECT_EQ(to_string(none.shape()), "[0, 4, 6, 6]");
}

}  // namespace
}  // namespace tycho
