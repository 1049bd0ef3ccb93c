// Products of bfloat16 by tiles: the loops, packing and rounding around them with the instructions done
// by plain code, and the processor's own where it has them.
#include <cstring>
#include <random>
#include <tuple>

#include "engine/base/parallel.h"
#include "engine/cpu/conv/conv_tiles.h"
#include "engine/cpu/matmul/tile_loops.h"
#include "engine/ops/linear/precision.h"
#include "engine/ops/nn/conv.h"
#include "tests/engine/numeric.h"

namespace tycho {
namespace {

using namespace numeric;
using cpu::TileMachine;

// TDPBF16PS and its sisters as the instruction set reference says.
struct PlainTiles {
  static thread_local bool ready;
  static thread_local char tile[8][16][64];

  template <int I>
  static void zero() {
    std::memset(tile[I], 0, sizeof tile[I]);
  }
  template <int I>
  static void load(const void* from, int64_t row) {
    EXPECT_TRUE(ready);
    for (int i = 0; i < 16; ++i)
      std::memcpy(tile[I][i], static_cast<const char*>(from) + i * row, 64);
  }
  template <int I>
  static void store(void* to, int64_t row) {
    for (int i = 0; i < 16; ++i) std::memcpy(static_cast<char*>(to) + i * row, tile[I][i], 64);
  }
  static float number(const char* p, int i) {
    uint16_t b;
    std::memcpy(&b, p + 2 * i, 2);
    const uint32_t wide = uint32_t{b} << 16;
    float f;
    std::memcpy(&f, &wide, sizeof f);
    return f;
  }
  template <int To, int A, int B>
  static void add_product() {
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 16; ++j) {
        float sum;
        std::memcpy(&sum, tile[To][i] + 4 * j, sizeof sum);
        for (int k = 0; k < 32; ++k)
          sum += number(tile[A][i], k) * number(tile[B][k / 2], 2 * j + k % 2);
        std::memcpy(tile[To][i] + 4 * j, &sum, sizeof sum);
      }
  }
};
thread_local bool PlainTiles::ready = false;
thread_local char PlainTiles::tile[8][16][64];

const TileMachine plain{[] { PlainTiles::ready = true; }, cpu::multiply_tiles<PlainTiles>,
                        [] { PlainTiles::ready = false; }};

// The loops with plain code, and with the products of pairs that other processors have.
struct Tiles : testing::TestWithParam<const TileMachine*> {
  void SetUp() override {
    if (cpu::level() != cpu::Level::v4) GTEST_SKIP() << "tiles come with AVX-512";
    if (GetParam() == &cpu::v4::pair_machine && !__builtin_cpu_supports("avx512bf16"))
      GTEST_SKIP() << "this processor has no products of pairs";
    cpu::use_tiles(GetParam());
  }
  void TearDown() override { cpu::use_tiles(nullptr); }
};

// A matrix of small integers, whose products are exact in any order, in one of the layouts.
Tensor laid_out(std::mt19937_64& random, int64_t rows, int64_t cols, int layout) {
  const bool turned = layout % 2;
  const int64_t r = turned ? cols : rows, c = turned ? rows : cols;
  const int64_t step = layout / 2 == 2 ? 2 : 1, more = layout / 2 ? 3 : 0;
  Tensor all = empty({r, c * step + more}, DType::BFloat16);
  for (int64_t i = 0; i < all.numel(); ++i) {
    const float f = static_cast<float>(static_cast<int>(random() % 7) - 3);
    uint32_t b;
    std::memcpy(&b, &f, sizeof b);
    all.host<uint16_t>()[i] = static_cast<uint16_t>(b >> 16);
  }
  Tensor part = op<"slice">(all, 1, more, more + c * step, step);
  return turned ? op<"transpose">(part, 0, 1) : part;
}

TEST_P(Tiles, MultiplyMatricesOfAnySizeAndLayout) {
  std::mt19937_64 random(11);
  const int threads = get_num_threads();
  for (int turn = 0; turn < 60; ++turn) {
    const auto size = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % most); };
    const int64_t m = size(turn % 3 ? 70 : 200), n = size(turn % 2 ? 80 : 560),
                  k = size(turn % 5 ? 90 : 700);
    const int layout_a = static_cast<int>(random() % 6), layout_b = static_cast<int>(random() % 6);
    Tensor a = laid_out(random, m, k, layout_a), b = laid_out(random, k, n, layout_b);
    Tensor bias = laid_out(random, 1, n, 0), c = laid_out(random, m, n, 0);
    const bool add = turn % 4 == 1, biased = turn % 4 == 2;
    std::vector<double> want =
        values(op<"matmul">(op<"to.dtype">(a, DType::Float64), op<"to.dtype">(b, DType::Float64)));
    const auto old = values(c), more = values(bias);
    for (int64_t i = 0; i < m * n; ++i) want[i] += (add ? old[i] : 0) + (biased ? more[i % n] : 0);
    cpu::Product p{DType::BFloat16, m,           n,           k,           a.data(),    b.data(),
                   c.data(),        a.stride(0), a.stride(1), b.stride(0), b.stride(1), n};
    p.add = add;
    p.bias = biased ? bias.data() : nullptr;
    p.alone = turn % 7 == 0;
    set_num_threads(1 + turn % 3);
    cpu::gemm_tiles(p);
    Tensor rounded = filled({m, n}, 0, DType::Float64);
    std::copy(want.begin(), want.end(), rounded.host<double>());
    ASSERT_EQ(values(c), values(op<"to.dtype">(rounded, DType::BFloat16)))
        << m << "x" << k << "x" << n << " layouts " << layout_a << " " << layout_b;
  }
  set_num_threads(threads);
}

TEST_P(Tiles, SumInFloat32AndRoundOnceWithTheSameBitsOnAnyNumberOfThreads) {
  Source s;
  const Tensor a = random(s, {150, 1100}, DType::BFloat16),
               b = random(s, {1100, 90}, DType::BFloat16);
  const int threads = get_num_threads();
  std::vector<std::vector<double>> results;
  for (int n : {1, 2, 5}) {
    set_num_threads(n);
    results.push_back(values(op<"matmul">(a, b)));
  }
  set_num_threads(threads);
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
  const auto exact =
      values(op<"matmul">(op<"to.dtype">(a, DType::Float64), op<"to.dtype">(b, DType::Float64)));
  for (size_t i = 0; i < exact.size(); ++i)
    ASSERT_NEAR(results[0][i], exact[i], std::abs(exact[i]) / 256 + 1e-3) << i;
}

TEST_P(Tiles, LeaveWhatLiesBesideAMatrixAloneAndPassNanAndInfinityOn) {
  std::mt19937_64 random(3);
  const Tensor a = laid_out(random, 40, 33, 0), b = laid_out(random, 33, 50, 0);
  Tensor around = op<"full">(Sizes{42, 60}, 7.0, DType::BFloat16);
  Tensor c = op<"slice">(op<"slice">(around, 0, 1, 41, 1), 1, 4, 54, 1);
  a.host<uint16_t>()[5 * 33 + 2] = 0x7fc0;  // NaN
  cpu::Product p{DType::BFloat16, 40, 50, 33, a.data(), b.data(), c.data(), 33, 1, 50, 1, 60};
  cpu::gemm_tiles(p);
  const auto all = values(around);
  for (int64_t i = 0; i < 42; ++i)
    for (int64_t j = 0; j < 60; ++j) {
      const bool inside = i >= 1 && i < 41 && j >= 4 && j < 54;
      ASSERT_EQ(std::isnan(all[i * 60 + j]), inside && i == 6) << i << " " << j;
      ASSERT_TRUE(inside || all[i * 60 + j] == 7) << i << " " << j;
    }
}

TEST_P(Tiles, MultiplyFloat32InTwoPartsOrOneWhereThatIsAllowed) {
  Source s;
  const Tensor a = random(s, {70, 200}, DType::Float32), b = random(s, {90, 200}, DType::Float32),
               bias = random(s, {90}, DType::Float32), w = random(s, {200, 60}, DType::Float32);
  const auto gap = [&](MatmulPrecision precision, auto&& f) {
    const auto exact = values(f());
    matmul_precision = precision;
    const auto found = values(f());
    matmul_precision = MatmulPrecision::Highest;
    double most = 0;
    for (size_t i = 0; i < exact.size(); ++i) most = std::max(most, std::abs(exact[i] - found[i]));
    return most;
  };
  const auto linear = [&] { return op<"linear">(a, b, bias); };
  const auto plain_one = [&] { return op<"matmul">(a, w); };
  const auto turned = [&] {
    return op<"matmul">(op<"transpose">(w, 0, 1), op<"transpose">(a, 0, 1));
  };
  EXPECT_EQ(gap(MatmulPrecision::Highest, linear), 0);
  for (const auto& [precision, least, most] : {std::tuple{MatmulPrecision::High, 1e-7, 1e-3},
                                               std::tuple{MatmulPrecision::Medium, 1e-3, 0.3}})
    for (const double g :
         {gap(precision, linear), gap(precision, plain_one), gap(precision, turned)}) {
      EXPECT_GT(g, least);
      EXPECT_LT(g, most);
    }
  a.host<float>()[3] = INFINITY;
  matmul_precision = MatmulPrecision::High;
  const auto c = values(linear());
  matmul_precision = MatmulPrecision::Highest;
  for (size_t i = 0; i < c.size(); ++i) ASSERT_EQ(std::isinf(c[i]), i < 90) << i;
}

TEST_P(Tiles, CarryTheOperationsOfBfloat16) {
  Source s;
  const Tensor x = random(s, {3, 70, 96}, DType::BFloat16),
               w = random(s, {130, 96}, DType::BFloat16), bias = random(s, {130}, DType::BFloat16),
               y = random(s, {3, 96, 70}, DType::BFloat16);
  const auto both = [&](auto&& f) {
    const auto by_tiles = values(f());
    cpu::use_tiles(nullptr);
    const auto without = values(f());
    cpu::use_tiles(&plain);
    ASSERT_EQ(by_tiles.size(), without.size());
    for (size_t i = 0; i < without.size(); ++i)
      ASSERT_NEAR(by_tiles[i], without[i], std::abs(without[i]) / 100 + 0.02) << i;
  };
  both([&] { return op<"linear">(x, w, bias); });
  both([&] { return op<"bmm">(x, y); });
  both([&] { return op<"matmul">(op<"transpose">(x, 1, 2), op<"transpose">(y, 1, 2)); });
}

// [images, channels, three sizes] as channels last memory has it, and back.
Tensor with_channels_last(const Tensor& t) {
  return packed(op<"permute">(t, Sizes{0, 2, 3, 4, 1}));
}
Tensor with_channels_first(const Tensor& t) {
  return packed(op<"permute">(t, Sizes{0, 4, 1, 2, 3}));
}

void expect_same(const Tensor& have, const Tensor& exact, const std::string& what) {
  const auto a = values(with_channels_first(have)),
             b = values(op<"to.dtype">(exact, DType::BFloat16));
  ASSERT_EQ(a.size(), b.size()) << what;
  for (size_t i = 0; i < a.size(); ++i)
    ASSERT_TRUE(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))
        << what << " element " << i << ": " << a[i] << " instead of " << b[i];
}

// Of small integers, whose sums are exact; a NaN is seen by the windows that it lies in, no others.
TEST_P(Tiles, ConvolveAnyWindowsAndGiveBothGradients) {
  std::mt19937_64 random(29);
  const auto one_of = [&](std::initializer_list<int64_t> of) {
    return of.begin()[random() % of.size()];
  };
  const int threads = get_num_threads();
  for (int turn = 0; turn < 70; ++turn) {
    cpu::Convolution c{};
    c.dtype = DType::BFloat16;
    c.groups = one_of({1, 1, 1, 2, 3});
    cpu::Window& w = c.window;
    w.images = one_of({1, 2, 3});
    w.channels = c.groups * one_of({1, 3, 8, 16, 33, 70});
    c.out_channels = c.groups * one_of({1, 5, 16, 17, 40});
    for (int d = 0; d < 3; ++d) {
      const bool flat = d == 0 && turn % 3;
      w.kernel[d] = flat ? 1 : one_of({1, 2, 3, 5});
      w.stride[d] = flat ? 1 : one_of({1, 1, 2, 3, 4});
      w.dilation[d] = flat ? 1 : one_of({1, 1, 2, 3});
      w.pad[d] = flat ? 0 : one_of({0, 1, 2, 5});
      const int64_t reach = (w.kernel[d] - 1) * w.dilation[d] + 1;
      w.in[d] = std::max<int64_t>(1, reach - 2 * w.pad[d]) + (flat ? 0 : one_of({0, 1, 4, 9}));
      w.out[d] = (w.in[d] + 2 * w.pad[d] - reach) / w.stride[d] + 1;
    }
    const auto small = [&](const Sizes& sizes) {
      int64_t n = 1;
      for (int64_t size : sizes) n *= size;
      return op<"reshape">(packed(laid_out(random, 1, n, 0)), sizes);
    };
    const Tensor x = small({w.images, w.channels, w.in[0], w.in[1], w.in[2]}),
                 weight = small({c.out_channels, w.channels / c.groups, w.kernel[0], w.kernel[1],
                                 w.kernel[2]}),
                 bias = small({c.out_channels}),
                 g = small({w.images, c.out_channels, w.out[0], w.out[1], w.out[2]});
    if (turn % 5 == 0) x.host<uint16_t>()[random() % x.numel()] = 0x7fc0;
    if (turn % 5 == 1) g.host<uint16_t>()[random() % g.numel()] = 0x7fc0;
    const std::string what =
        to_string(x.shape()) + " " + to_string(weight.shape()) + " turn " + std::to_string(turn);
    const auto wide = [](const Tensor& t) { return op<"to.dtype">(t, DType::Float64); };
    const Tensor lx = as_leaf(wide(x)), lw = as_leaf(wide(weight));
    const Tensor y = op<"conv3d">(lx, lw, wide(bias), Sizes(w.stride, 3), Sizes(w.pad, 3),
                                  Sizes(w.dilation, 3), c.groups);
    const auto grads = grad::gradients({y}, {lx, lw}, {wide(g)}, {});
    set_num_threads(1 + turn % 3);
    const Tensor xl = with_channels_last(x), wl = with_channels_last(weight),
                 gl = with_channels_last(g);
    const Tensor to_y = with_channels_last(small(y.shape())),
                 to_x = with_channels_last(small(x.shape())),
                 to_w = with_channels_last(small(weight.shape()));
    cpu::conv_tiles_forward(c, xl.data(), wl.data(), bias.data(), to_y.data());
    cpu::conv_tiles_input(c, gl.data(), wl.data(), to_x.data());
    cpu::conv_tiles_weight(c, gl.data(), xl.data(), to_w.data());
    set_num_threads(threads);
    expect_same(to_y, y, what + " result");
    expect_same(to_x, grads[0], what + " input");
    // NaN times the zeros of padding is NaN too, in the products of others as here.
    if (turn % 5 != 1) expect_same(to_w, grads[1], what + " weight");
  }
}

TEST_P(Tiles, CarryConvolutionsOfBfloat16) {
  Source s;
  const auto both = [&](const Sizes& shape, const Sizes& kernel, int64_t groups) {
    const Tensor x = random(s, shape, DType::BFloat16), w = random(s, kernel, DType::BFloat16);
    const auto all = [&] {
      const Tensor lx = as_leaf(x), lw = as_leaf(w);
      const Tensor y = op<"conv2d">(lx, lw, Value(), Sizes{1, 2}, Sizes{1, 2}, Sizes{1, 1}, groups);
      auto g = grad::gradients({y}, {lx, lw}, {y}, {});
      g.push_back(y);
      return g;
    };
    const auto by_tiles = all();
    const cpu::Level best = cpu::level();
    cpu::force_level(cpu::Level::v3);
    const auto without = all();
    cpu::force_level(best);
    for (size_t k = 0; k < without.size(); ++k) {
      const auto a = values(by_tiles[k]), b = values(without[k]);
      double most = 0;
      for (double v : b) most = std::max(most, std::abs(v));
      for (size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], most / 60) << k << " " << i;
    }
  };
  both({2, 32, 12, 11}, {40, 32, 3, 3}, 1);
  both({1, 64, 9, 20}, {48, 32, 2, 5}, 2);
}

// Several blocks of queries and of keys with parts of tiles at their ends, against a lower level's lanes.
TEST_P(Tiles, CarryAttentionForwardAndBackward) {
  Source s;
  struct Shape {
    Sizes q, k;
    bool causal = false, masked = false;
    double scale = 0.2;
  };
  for (const Shape& c :
       {Shape{{2, 3, 70, 40}, {2, 3, 70, 40}}, Shape{{1, 2, 300, 33}, {1, 2, 300, 33}, true},
        Shape{{1, 4, 19, 24}, {1, 2, 531, 24}, false, true},
        Shape{{1, 1, 90, 16}, {1, 1, 9, 16}, false, true, -0.3}}) {
    const Tensor q = random(s, c.q, DType::BFloat16), k = random(s, c.k, DType::BFloat16),
                 v = random(s, c.k, DType::BFloat16), g = random(s, c.q, DType::BFloat16);
    Tensor mask;
    if (c.masked) {
      mask = op<"ge">(random(s, {c.q[2], c.k[2]}), 0.3);
      op_<"fill">(op<"narrow">(mask, 0, 3, 2), false);  // rows without a key
    }
    const auto all = [&] {
      const Tensor lq = as_leaf(q), lk = as_leaf(k), lv = as_leaf(v);
      const Tensor y = op<"scaled_dot_product_attention">(lq, lk, lv, mask, 0.0, c.causal, c.scale,
                                                          c.q[1] != c.k[1]);
      auto out = grad::gradients({y}, {lq, lk, lv}, {g}, {});
      out.push_back(y);
      return out;
    };
    const auto by_tiles = all();
    const cpu::Level best = cpu::level();
    cpu::force_level(cpu::Level::v3);
    const auto without = all();
    cpu::force_level(best);
    for (size_t i = 0; i < without.size(); ++i) {
      const auto a = values(by_tiles[i]), b = values(without[i]);
      double most = 0;
      for (double x : b) most = std::max(most, std::abs(x));
      for (size_t j = 0; j < a.size(); ++j)
        ASSERT_NEAR(a[j], b[j], most / 60) << to_string(c.q) << " result " << i << " at " << j;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Machines, Tiles, testing::Values(&plain, &cpu::v4::pair_machine),
                         [](const auto& machine) {
                           return std::string(machine.param == &plain ? "plain" : "pairs");
                         });

TEST(TilesOfTheProcessor, AreUsedWhereTheyMultiplyRightAndElseTheReasonIsKnown) {
  if (const char* why = cpu::why_no_tiles())
    EXPECT_EQ(cpu::tiles(), nullptr) << why;
  else
    EXPECT_NE(cpu::tiles(), nullptr);
}

}  // namespace
}  // namespace tycho
