// Pooling against plain loops, in both layouts and odd parameter combinations; gradients against
// differences.
#include <array>
#include <cmath>

#include "engine/base/parallel.h"
#include "engine/cpu/level.h"
#include "engine/ops/nn/conv.h"
#include "engine/tensor/read.h"
#include "tests/engine/numeric.h"

namespace tycho {
namespace {

using namespace numeric;

struct Case {
  Sizes x, kernel, stride, pad, dilation;
  bool ceil = false;
};

const std::vector<Case> kCases = {
    {{2, 3, 6, 8}, {2, 2}, {2, 2}, {0, 0}, {1, 1}},
    {{2, 3, 7, 9}, {3, 3}, {2, 2}, {1, 1}, {1, 1}},
    {{1, 2, 7, 6}, {3, 2}, {2, 1}, {1, 1}, {1, 1}, true},
    {{1, 20, 9, 9}, {2, 2}, {3, 3}, {0, 0}, {2, 1}},
    {{2, 2, 5, 70}, {3, 3}, {1, 1}, {1, 1}, {1, 1}},
    {{2, 2, 6, 71}, {2, 3}, {2, 2}, {1, 1}, {1, 1}, true},
    {{1, 17, 10, 10}, {1, 4}, {1, 3}, {0, 2}, {1, 1}, true},
    {{1, 1, 20, 20}, {18, 18}, {1, 1}, {0, 0}, {1, 1}},
    // Lines upright and flat, which windows cover, or leave something of.
    {{3, 5, 14, 1}, {2, 1}, {2, 1}, {0, 0}, {1, 1}},
    {{2, 7, 1, 15}, {1, 3}, {1, 5}, {0, 0}, {1, 1}},
    {{2, 3, 12, 1}, {2, 1}, {4, 1}, {0, 0}, {3, 1}},
    {{2, 3, 12, 1}, {2, 1}, {3, 1}, {0, 0}, {3, 1}},
    {{3, 5, 15, 1}, {2, 1}, {2, 1}, {0, 0}, {1, 1}},
    {{3, 5, 14, 1}, {2, 1}, {2, 3}, {1, 0}, {1, 2}},
    {{331, 3, 1, 4}, {1, 4}, {1, 4}, {0, 0}, {1, 1}},
};

struct Slow {
  Tensor max, positions, mean_padded, mean_inside;
};

int64_t pooled(int64_t in, int64_t k, int64_t s, int64_t p, int64_t d, bool ceil) {
  int64_t n = (in + 2 * p - d * (k - 1) - 1 + (ceil ? s - 1 : 0)) / s + 1;
  if (ceil && (n - 1) * s >= in + p) --n;
  return n;
}

Slow slow_pool(const Tensor& xt, const Case& c) {
  const auto x = values(xt);
  const int64_t H = c.x[2], W = c.x[3];
  const int64_t OH = pooled(H, c.kernel[0], c.stride[0], c.pad[0], c.dilation[0], c.ceil);
  const int64_t OW = pooled(W, c.kernel[1], c.stride[1], c.pad[1], c.dilation[1], c.ceil);
  const Sizes shape{c.x[0], c.x[1], OH, OW};
  Slow r{filled(shape, 0, DType::Float64), filled(shape, 0, DType::Float64),
         filled(shape, 0, DType::Float64), filled(shape, 0, DType::Float64)};
  for (int64_t plane = 0; plane < c.x[0] * c.x[1]; ++plane)
    for (int64_t oh = 0; oh < OH; ++oh)
      for (int64_t ow = 0; ow < OW; ++ow) {
        double best = 0, sum = 0;
        int64_t at = -1, inside = 0;
        for (int64_t kh = 0; kh < c.kernel[0]; ++kh)
          for (int64_t kw = 0; kw < c.kernel[1]; ++kw) {
            const int64_t h = oh * c.stride[0] - c.pad[0] + kh * c.dilation[0];
            const int64_t w = ow * c.stride[1] - c.pad[1] + kw * c.dilation[1];
            if (h < 0 || h >= H || w < 0 || w >= W) continue;
            const double v = x[(plane * H + h) * W + w];
            if (at < 0 || v > best || v != v) best = v, at = h * W + w;
            sum += v;
            ++inside;
          }
        const int64_t i = (plane * OH + oh) * OW + ow;
        const int64_t h0 = oh * c.stride[0] - c.pad[0], w0 = ow * c.stride[1] - c.pad[1];
        const int64_t padded = (std::min(h0 + c.kernel[0], H + c.pad[0]) - h0) *
                               (std::min(w0 + c.kernel[1], W + c.pad[1]) - w0);
        r.max.host<double>()[i] = best;
        r.positions.host<double>()[i] = static_cast<double>(at + 1);
        r.mean_padded.host<double>()[i] = sum / static_cast<double>(padded);
        r.mean_inside.host<double>()[i] = sum / static_cast<double>(inside);
      }
  return r;
}

Tensor channels_last(const Tensor& x) {
  Tensor to = empty_channels_last(x.shape(), x.dtype(), {});
  copy_raw(to, x);
  return to;
}

void check_case(const Case& c, const Tensor& x, double tolerance) {
  const std::string what = to_string(c.x) + to_string(c.kernel) + dtype_name(x.dtype());
  const Slow want = slow_pool(x, c);
  const bool plain = c.dilation == Sizes{1, 1};
  for (const Tensor& in : {x, channels_last(x)}) {
    const auto both = ops<"max_pool2d">(in, c.kernel, c.stride, c.pad, c.dilation, c.ceil, true);
    expect_near(both[0], want.max, 0, what);
    expect_near(both[1], want.positions, 0, what + " positions");
    expect_near(op<"max_pool2d">(in, c.kernel, c.stride, c.pad, c.dilation, c.ceil), want.max, 0);
    if (plain && is_floating(x.dtype())) {
      expect_near(op<"avg_pool2d">(in, c.kernel, c.stride, c.pad, c.ceil, true), want.mean_padded,
                  tolerance, what + " mean");
      expect_near(op<"avg_pool2d">(in, c.kernel, c.stride, c.pad, c.ceil, false), want.mean_inside,
                  tolerance, what + " mean inside");
    }
    if (!is_floating(x.dtype())) continue;
    // Scattering by positions is what the gradient must do.
    Source s{3};
    const Tensor leaf = as_leaf(in), g = random(s, want.max.shape(), x.dtype());
    const Tensor y = op<"max_pool2d">(leaf, c.kernel, c.stride, c.pad, c.dilation, c.ceil);
    const Tensor have = grad::gradients({y}, {leaf}, {g}, {})[0];
    Tensor sum = filled(c.x, 0, DType::Float64);
    const auto gv = values(g), at = values(want.positions);
    const int64_t each = y.size(2) * y.size(3);
    for (int64_t i = 0; i < y.numel(); ++i)
      sum.host<double>()[i / each * c.x[2] * c.x[3] + static_cast<int64_t>(at[i]) - 1] += gv[i];
    expect_near(have, sum, tolerance, what + " gradient");
  }
}

TEST(Pooling, AgreesWithTheDefinitionInBothLayouts) {
  const cpu::Level best = cpu::level();
  for (cpu::Level l : {cpu::Level::x86_64, cpu::Level::v3, cpu::Level::v4}) {
    if (l > best) break;
    cpu::force_level(l);
    Source s;
    for (const Case& c : kCases) {
      check_case(c, random(s, c.x, DType::Float32), 1e-5);
      check_case(c, random(s, c.x, DType::Float64), 1e-13);
      check_case(c, random(s, c.x, DType::Int32), 0);
      check_case(c, random(s, c.x, DType::BFloat16), 3e-2);
    }
  }
  cpu::force_level(best);
}

TEST(Pooling, TakesTheFirstOfEqualsAndTheLastNan) {
  Source s;
  for (const Case& c : kCases) {
    Tensor x = random(s, c.x, DType::Float32);
    for (int64_t i = 0; i < x.numel(); ++i)
      x.host<float>()[i] = x.host<float>()[i] > 0 ? 1.f : -INFINITY;
    const Slow want = slow_pool(x, c);
    for (const Tensor& in : {x, channels_last(x)}) {
      const auto both = ops<"max_pool2d">(in, c.kernel, c.stride, c.pad, c.dilation, c.ceil, true);
      expect_near(both[1], want.positions, 0, to_string(c.x));
    }
    for (int64_t i = 0; i < x.numel(); i += 3) x.host<float>()[i] = NAN;
    const Slow nan = slow_pool(x, c);
    for (const Tensor& in : {x, channels_last(x)}) {
      const auto both = ops<"max_pool2d">(in, c.kernel, c.stride, c.pad, c.dilation, c.ceil, true);
      expect_near(both[1], nan.positions, 0, to_string(c.x) + " nan");
    }
  }
}

TEST(Pooling, AdaptiveWindowsCoverTheInput) {
  Source s;
  Tensor x = random(s, {2, 3, 7, 5});
  for (const Tensor& in : {x, channels_last(x)}) {
    expect_near(op<"adaptive_avg_pool2d">(in, Sizes{1}),
                op<"reshape">(op<"sum">(x, Sizes{2, 3}) / 35, Sizes{2, 3, 1, 1}), 1e-13);
    expect_near(op<"adaptive_avg_pool2d">(in, Sizes{7, 5}), x, 0);
    const auto both = ops<"adaptive_max_pool2d">(in, Sizes{3, 2}, true);
    // Windows along 7: [0, 3), [2, 5), [4, 7); along 5: [0, 3), [2, 5).
    const auto v = values(x), have = values(both[0]), at = values(both[1]);
    for (int64_t p = 0; p < 6; ++p)
      for (int64_t i = 0; i < 3; ++i)
        for (int64_t j = 0; j < 2; ++j) {
          double best = -2;
          for (int64_t h = 2 * i; h < 2 * i + 3; ++h)
            for (int64_t w = 2 * j; w < 2 * j + 3; ++w)
              best = std::max(best, v[(p * 7 + h) * 5 + w]);
          const int64_t k = (p * 3 + i) * 2 + j;
          EXPECT_EQ(have[k], best);
          EXPECT_EQ(v[p * 35 + static_cast<int64_t>(at[k]) - 1], best);
        }
  }
}

// Windows of any width, narrower than lanes and wider, fewer and more than there are pixels.
TEST(Pooling, AdaptiveMeansOfEverySizeAgreeWithTheDefinition) {
  Source s;
  for (int64_t in : {1, 5, 28, 67})
    for (int64_t out : {1, 3, 9, 28, 29, 56, 66}) {
      const Tensor x = random(s, {2, 2, 6, in});
      const auto v = values(x);
      const auto have = values(op<"adaptive_avg_pool2d">(x, Sizes{4, out}));
      for (const Tensor& other : {channels_last(x), op<"to.dtype">(x, DType::Float32)})
        expect_near(op<"to.dtype">(op<"adaptive_avg_pool2d">(other, Sizes{4, out}), DType::Float64),
                    op<"adaptive_avg_pool2d">(x, Sizes{4, out}), 1e-6);
      size_t at = 0;
      for (int64_t plane = 0; plane < 4; ++plane)
        for (int64_t i = 0; i < 4; ++i)
          for (int64_t j = 0; j < out; ++j) {
            double sum = 0;
            int64_t count = 0;
            for (int64_t h = i * 6 / 4; h < ((i + 1) * 6 + 3) / 4; ++h)
              for (int64_t w = j * in / out; w < ((j + 1) * in + out - 1) / out; ++w, ++count)
                sum += v[static_cast<size_t>((plane * 6 + h) * in + w)];
            ASSERT_NEAR(have[at++], sum / static_cast<double>(count), 1e-13) << in << " " << out;
          }
    }
}

TEST(Pooling, GradientsOfSecondOrder) {
  Source s;
  for (const Case& c : {kCases[0], kCases[2]}) {
    Sizes shape = c.x;
    shape[0] = 1, shape[1] = 2, shape[2] = 5, shape[3] = 4;
    for (bool last : {false, true}) {
      Tensor x = random(s, shape);
      if (last) x = channels_last(x);
      check_gradient(
          [&](const std::vector<Tensor>& v) {
            return op<"max_pool2d">(v[0], c.kernel, c.stride, c.pad, c.dilation, c.ceil);
          },
          {packed(x)}, "max_pool2d");
      check_gradient(
          [&](const std::vector<Tensor>& v) {
            return op<"avg_pool2d">(v[0], c.kernel, c.stride, c.pad, c.ceil, false);
          },
          {packed(x)}, "avg_pool2d");
    }
  }
  check_gradient(
      [](const std::vector<Tensor>& v) {
        return op<"adaptive_max_pool2d">(v[0], Sizes{2, 3});
      },
      {random(s, {2, 5, 4})}, "adaptive_max_pool2d");
  check_gradient(
      [](const std::vector<Tensor>& v) { return op<"adaptive_avg_pool1d">(v[0], Sizes{3}); },
      {random(s, {2, 2, 7})}, "adaptive_avg_pool1d");
}

// Lines of few windows are read where they lie, and so many of them go to all threads.
TEST(Pooling, OfManyShortLinesAgreesWithTheDefinitionOnAnyThreads) {
  Source s;
  const int before = get_num_threads();
  for (const DType type : {DType::Float64, DType::Float32, DType::Int64})
    for (const auto [n, kernel, stride, pad] : {std::array<int64_t, 4>{8, 3, 2, 0},
                                                {8, 3, 2, 1},
                                                {5, 4, 1, 2},
                                                {9, 5, 3, 1},
                                                {7, 7, 2, 3}}) {
      Tensor wide = op<"to.dtype">(op<"to.dtype">(random(s, {31, 40, n}) * 100, DType::Int64),
                                   DType::Float64);
      if (type == DType::Int64) wide = wide * 60;  // quotients of whole numbers
      const Tensor x = op<"to.dtype">(wide, type);
      set_num_threads(1);
      const Tensor y = op<"avg_pool1d">(x, Sizes{kernel}, Sizes{stride}, Sizes{pad}, false, true);
      set_num_threads(3);
      expect_near(op<"avg_pool1d">(x, Sizes{kernel}, Sizes{stride}, Sizes{pad}, false, true), y, 0);
      const int64_t out = (n + 2 * pad - kernel) / stride + 1;
      const auto v = values(wide), have = values(op<"to.dtype">(y, DType::Float64));
      ASSERT_EQ(static_cast<int64_t>(have.size()), 31 * 40 * out);
      for (int64_t line = 0; line < 31 * 40; ++line)
        for (int64_t o = 0; o < out; ++o) {
          double sum = 0;
          for (int64_t i = o * stride - pad; i < o * stride - pad + kernel; ++i)
            if (i >= 0 && i < n) sum += v[line * n + i];
          const double mean = sum / static_cast<double>(kernel);
          ASSERT_NEAR(have[line * out + o], type == DType::Int64 ? std::trunc(mean) : mean,
                      std::abs(mean) * 1e-6);
        }
    }
  set_num_threads(before);
}

TEST(Pooling, InThreeDimensionsAndOne) {
  Source s;
  Tensor v = random(s, {1, 2, 4, 4, 4});
  Tensor flat = op<"max_pool2d">(op<"reshape">(v, Sizes{2, 4, 4, 4}), Sizes{2});
  Tensor deep = op<"max_pool1d">(
      op<"reshape">(op<"transpose">(op<"reshape">(flat, Sizes{2, 4, 4}), 1, 2), Sizes{2, 4, 4}),
      Sizes{2});
  Tensor want = op<"transpose">(deep, 1, 2);
  expect_near(op<"reshape">(op<"max_pool3d">(v, Sizes{2}), want.shape()), want, 0);
}

// Maxima alone are found by other means than those whose positions are asked for.
TEST(Pooling, MaximaOfLinesAreTheSameWithAndWithoutPositions) {
  Source s;
  for (const DType type : {DType::Float32, DType::Float64, DType::BFloat16})
    for (int64_t kernel = 1; kernel <= 70; kernel += 1 + kernel / 4)
      for (const int64_t step : {1, 2, 3, 5, 17})
        for (const int64_t apart : {1, 3}) {
          const Tensor many = random(s, {2, 3, 230}, DType::Float32);
          for (int64_t i = 0; i < many.numel(); ++i) {
            float& v = many.host<float>()[i];
            if (i % 7 == 0) v = i % 2 ? 0.f : -0.f;
            if (i % 5 == 0 && v < 0) v = -INFINITY;
            if (i / 230 == 1 && i % 90 == 0) v = NAN;
          }
          const Tensor x = op<"to.dtype">(many, type);
          const auto pooled = [&](bool positions) {
            return ops<"max_pool1d">(x, Sizes{kernel}, Sizes{step}, Sizes{kernel / 2}, Sizes{apart},
                                     step % 2 == 0, positions)[0];
          };
          const Tensor have = pooled(false), want = pooled(true);
          const auto a = values(have), b = values(want);
          for (size_t i = 0; i < a.size(); ++i)
            ASSERT_TRUE(std::isnan(b[i]) ? std::isnan(a[i])
                                         : a[i] == b[i] && std::signbit(a[i]) == std::signbit(b[i]))
                << kernel << " " << step << " " << apart << " at " << i;
        }
}

TEST(Pooling, TheGradientOfMeansIsTheTransposeInEveryShape) {
  Source s;
  for (int64_t spatial = 1; spatial <= 3; ++spatial)
    for (int64_t last : {5, 16, 37})
      for (int64_t k : {1, 2, 3, 5})
        for (int64_t stride : {1, 2, 3, 5})
          for (bool ceil : {false, true})
            for (bool padded : {false, true}) {
              const Sizes kernel{k}, step{stride}, pad{k / 2};
              Tensor x = random(s, spatial == 1   ? Sizes{2, 2, last}
                                   : spatial == 2 ? Sizes{2, 2, 7, last}
                                                  : Sizes{1, 2, 6, 5, last});
              x->requires_grad = true;
              const Tensor y = spatial == 1 ? op<"avg_pool1d">(x, kernel, step, pad, ceil, padded)
                               : spatial == 2
                                   ? op<"avg_pool2d">(x, kernel, step, pad, ceil, padded)
                                   : op<"avg_pool3d">(x, kernel, step, pad, ceil, padded);
              const Tensor g = random(s, y.shape());
              const Tensor dx = grad::gradients({y}, {x}, {g}, {})[0];
              const double want = item(op<"sum">(op<"mul">(y, g))),
                           got = item(op<"sum">(op<"mul">(x, dx)));
              EXPECT_NEAR(got, want, 1e-3) << spatial << " " << last << " " << k << " " << stride;
            }
}

TEST(Pooling, ErrorsNameWhatDoesNotFit) {
  Source s;
  Tensor x = random(s, {1, 1, 4, 4});
  EXPECT_THROW(op<"max_pool2d">(x, Sizes{5}), Error);
  EXPECT_THROW(op<"max_pool2d">(x, Sizes{2}, Sizes{0}), Error);
  EXPECT_THROW(op<"max_pool2d">(x, Sizes{2}, Sizes{2}, Sizes{2}), Error);
  EXPECT_THROW(op<"max_pool2d">(x, Sizes{2, 2, 2}), Error);
  EXPECT_THROW(op<"max_pool2d">(random(s, {4, 4}), Sizes{2}), Error);
  EXPECT_THROW(op<"avg_pool2d">(x, Sizes{2}, Value(), Sizes{0}, false, true, 0), Error);
  EXPECT_THROW(op<"avg_pool2d">(random(s, {1, 1, 4, 4}, DType::Int32), Sizes{2}), Error);
  EXPECT_THROW(op<"adaptive_avg_pool2d">(x, Sizes{-1}), Error);
}

}  // namespace
}  // namespace tycho
