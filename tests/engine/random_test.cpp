// PyTorch's random streams: the expected numbers are what torch 2.15 prints on a CPU after
// manual_seed with the seed named in each test.
#include "engine/cpu/random/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "engine/base/check.h"

namespace tycho::cpu {
namespace {

using Numbers = std::vector<double>;

// Runs `fill` on memory for n elements of a dtype, and reads them as doubles.
template <class F>
Numbers drawn(DType dtype, int64_t n, F fill) {
  std::vector<int64_t> memory(n + 1);  // eight bytes for each
  fill(memory.data());
  Numbers x(n);
  level_of::random_get_f64(x.data(), static_cast<const void*>(memory.data()), n,
                           static_cast<int>(dtype));
  return x;
}

Numbers uniform(Generator& g, DType dtype, int64_t n, double from = 0, double to = 1) {
  return drawn(dtype, n, [&](void* y) { random_uniform(g, y, dtype, n, from, to); });
}
Numbers normal(Generator& g, DType dtype, int64_t n, bool in_blocks = true) {
  return drawn(dtype, n, [&](void* y) { random_normal(g, y, dtype, n, 0, 1, in_blocks); });
}
std::vector<int64_t> integers(Generator& g, int64_t n, int64_t from, int64_t to) {
  std::vector<int64_t> y(n);
  random_integers(g, y.data(), DType::Int64, n, integer_range(DType::Int64, from, to));
  return y;
}

void expect_near(const Numbers& got, const Numbers& want, double relative) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], relative * std::max(1.0, std::abs(want[i]))) << "element " << i;
}

// Every test of numbers runs at every instruction-set level this CPU has.
class Random : public testing::TestWithParam<Level> {
 protected:
  void SetUp() override {
    before_ = level();
    try {
      force_level(GetParam());
    } catch (const Error&) {
      GTEST_SKIP() << "this CPU has no " << level_name(GetParam());
    }
  }
  void TearDown() override { force_level(before_); }

 private:
  Level before_;
};
INSTANTIATE_TEST_SUITE_P(, Random, testing::Values(Level::x86_64, Level::v3, Level::v4),
                         [](const auto& info) { return level_name(info.param); });

TEST(Generator, IsTheMersenneTwister) {
  Generator g(5489);  // of the reference implementation
  for (int i = 1; i < 10000; ++i) g.next32();
  EXPECT_EQ(g.next32(), 4123659995u);  // as the C++ standard says of std::mt19937
}

TEST(Generator, TakesTheLowHalfOfASeed) {
  Generator small(5), large((uint64_t{1} << 32) + 5);
  EXPECT_EQ(large.initial_seed(), (uint64_t{1} << 32) + 5);
  EXPECT_EQ(small.next64(), large.next64());
}

TEST(Generator, FillsWithTheSameOutputsAsOneByOne) {
  for (int64_t n : {0, 1, 623, 624, 625, 1248, 5000}) {
    for (int before : {0, 1, 300, 624}) {
      Generator one(3), many(3);
      for (int i = 0; i < before; ++i) one.next32(), many.next32();
      std::vector<uint32_t> got(n);
      many.fill32(got.data(), n);
      for (int64_t i = 0; i < n; ++i) ASSERT_EQ(got[i], one.next32()) << n << ' ' << i;
      ASSERT_EQ(one.next64(), many.next64());
    }
  }
}

TEST(Generator, StateHoldsWhatTorchKeeps) {
  Generator g(0);
  uniform(g, DType::Float32, 5);
  normal(g, DType::Float32, 1);
  const std::string state = g.state();
  ASSERT_EQ(state.size(), 5056u);
  int64_t sum = 0;
  for (size_t i = 0; i < state.size(); ++i)
    sum += static_cast<int64_t>(i + 1) * static_cast<uint8_t>(state[i]);
  EXPECT_EQ(sum % 1000000007, 807016461);

  Generator other(77);
  other.set_state(state);
  EXPECT_EQ(other.initial_seed(), 0u);
  EXPECT_EQ(normal(g, DType::Float32, 40), normal(other, DType::Float32, 40));
}

TEST(Generator, RefusesAStateThatIsNone) {
  Generator g(1);
  const uint32_t next = Generator(1).next32();
  EXPECT_THROW(g.set_state("short"), Error);
  EXPECT_THROW(g.set_state(std::string(5056, '\0')), Error);
  EXPECT_THROW(g.set_state(std::string(5056, '\xff')), Error);
  EXPECT_EQ(g.next32(), next);
}

TEST(Generator, SeedsFromTheSystemDiffer) { EXPECT_NE(system_seed(), system_seed()); }

TEST_P(Random, UniformNumbersAreTorchs) {
  Generator g(0);
  EXPECT_EQ(uniform(g, DType::Float32, 4), (Numbers{0.49625658988952637, 0.7682217955589294,
                                                    0.08847743272781372, 0.13203048706054688}));
  g.seed(42);
  EXPECT_EQ(uniform(g, DType::Float64, 4), (Numbers{0.05815448596142969, 0.06291016742457756,
                                                    0.12358607277440903, 0.05258016436107704}));
  g.seed(0);
  EXPECT_EQ(uniform(g, DType::BFloat16, 4),
            (Numbers{0.49609375, 0.76953125, 0.08837890625, 0.1318359375}));
  g.seed(0);
  EXPECT_EQ(uniform(g, DType::Float16, 4),
            (Numbers{0.496337890625, 0.76806640625, 0.0885009765625, 0.132080078125}));
  g.seed(0);
  EXPECT_EQ(uniform(g, DType::Float32, 6, -1, 1),
            (Numbers{-0.007486820220947266, 0.5364435911178589, -0.8230451345443726,
                     -0.7359390258789062, -0.3851543664932251, 0.26815736293792725}));
}

TEST_P(Random, UniformNumbersNeverReachTheUpperBound) {
  for (DType dtype : {DType::Float16, DType::BFloat16, DType::Float32}) {
    Generator g(1);
    const Numbers x = uniform(g, dtype, 5000, 2, 5);
    EXPECT_LT(*std::max_element(x.begin(), x.end()), 5) << dtype_name(dtype);
    EXPECT_GE(*std::min_element(x.begin(), x.end()), 2) << dtype_name(dtype);
  }
}

TEST_P(Random, FewNormalNumbersComeInPairsAndKeepTheSine) {
  Generator g(0);
  expect_near(normal(g, DType::Float32, 5),
              {1.5409960746765137, -0.293428897857666, -2.1787893772125244, 0.5684312582015991,
               -1.0845223665237427},
              1e-7);
  EXPECT_EQ(uniform(g, DType::Float32, 3),
            (Numbers{0.022325754165649414, 0.16885894536972046, 0.2938884496688843}));
  expect_near(normal(g, DType::Float32, 3),
              {-1.3985954523086548, 0.6035430431365967, 0.8109818696975708}, 1e-7);
  g.seed(0);
  expect_near(normal(g, DType::Float64, 5),
              {1.5409961082440433, -0.2934289057609464, -2.1787893820745574, 0.5684312772806678,
               -1.084522342424021},
              1e-15);
}

TEST_P(Random, ManyNormalNumbersComeInBlocks) {
  Generator g(0);
  expect_near(normal(g, DType::Float32, 20),
              {-1.1258398294448853, -1.152360200881958,  -0.2505785822868347, -0.4338788092136383,
               0.5988394618034363,  -1.5550950765609741, -0.3413603901863098, 1.85300612449646,
               0.46809640526771545, -0.1577124446630478, 1.4436601400375366,  0.26604941487312317,
               1.3893661499023438,  1.586334228515625,   0.946298360824585,   -0.843676745891571,
               0.9318265914916992,  1.2590092420578003,  2.0049805641174316,  0.05373690277338028},
              5e-7);
  EXPECT_EQ(g.next32(), [] {
    Generator h(0);
    for (int i = 0; i < 36; ++i) h.next32();
    return h.next32();
  }());
  g.seed(0);
  expect_near(
      normal(g, DType::Float64, 20),
      {-2.310411800234176,    -0.3732508612577643, -1.0608166785462863, 0.9995093547811761,
       -0.019964750907762653, 0.2102998901016947,  0.17718935139366584, -0.830510051008449,
       0.23871805816817063,   0.7335283685272841,  -1.3218818291421377, 1.3148113651971234,
       -0.6870036940435463,   1.4880743158106724,  -0.4484158047114511, -0.8910030351707375,
       0.6748575435940039,    1.0468653769814655,  0.15429517864658948, -0.7498915228391941},
      1e-14);
  g.seed(0);
  expect_near(
      normal(g, DType::BFloat16, 20),
      {-1.125,       -1.15625,   -0.25,      -0.43359375,  -1.3515625, -1.6953125, 0.56640625,
       0.79296875,   0.59765625, -1.5546875, -0.341796875, 1.8515625,  0.75,       -0.5859375,
       -0.173828125, 0.18359375, 1.390625,   1.5859375,    0.9453125,  -0.84375},
      0);
}

TEST_P(Random, ManyNormalNumbersOutsideBlocksComeInPairs) {
  Generator blocks(0), pairs(0), few(0);
  const Numbers x = normal(pairs, DType::Float64, 20, false);
  EXPECT_EQ(normal(few, DType::Float64, 5), Numbers(x.begin(), x.begin() + 5));
  EXPECT_NE(normal(blocks, DType::Float64, 20), x);
}

TEST_P(Random, NormalNumbersOfLongFillsHaveTheirMoments) {
  for (DType dtype : {DType::Float32, DType::Float64}) {
    Generator g(9);
    const int64_t n = 100003;
    const Numbers x = normal(g, dtype, n);
    double sum = 0, squares = 0;
    for (double v : x) sum += v, squares += v * v;
    EXPECT_NEAR(sum / n, 0, 0.01);
    EXPECT_NEAR(squares / n, 1, 0.02);
  }
}

TEST_P(Random, IntegersAreTorchs) {
  Generator g(0);
  EXPECT_EQ(integers(g, 10, 0, 100), (std::vector<int64_t>{44, 39, 33, 60, 63, 79, 27, 3, 97, 83}));
  g.seed(0);
  EXPECT_EQ(integers(g, 8, -5, 5), (std::vector<int64_t>{-1, 4, -2, -5, -2, 4, 2, -2}));
  g.seed(0);
  EXPECT_EQ(integers(g, 4, 0, int64_t{1} << 40),
            (std::vector<int64_t>{741280623151, 506137267392, 291447657211, 841157541223}));
  g.seed(0);
  std::vector<int64_t> y(4);
  random_integers(g, y.data(), DType::Int64, 4);
  EXPECT_EQ(y, (std::vector<int64_t>{900450186894289455, 3969543146641149120, 1895649597198586619,
                                     827948490035658087}));
  g.seed(0);
  EXPECT_EQ(drawn(DType::BFloat16, 3,
                  [&](void* p) {
                    random_integers(g, p, DType::BFloat16, 3,
                                    integer_range(DType::BFloat16, 0, 300));
                  }),
            (Numbers{148, 53, 69}));
}

TEST_P(Random, RemaindersAreExact) {
  for (uint32_t count : {1u, 2u, 3u, 10u, 12345u, (1u << 28) - 1}) {
    Generator g(4), h(4);
    for (int64_t v : integers(g, 3000, -7, int64_t{count} - 7))
      ASSERT_EQ(v, static_cast<int64_t>(h.next32() % count) - 7) << count;
  }
}

TEST(RandomRange, BoundsOfIntegersAreChecked) {
  EXPECT_EQ(integer_range(DType::UInt8).count, 256u);
  EXPECT_EQ(integer_range(DType::Bool).count, 2u);
  EXPECT_EQ(integer_range(DType::Float32).count, (1u << 24) + 1);
  EXPECT_THROW(integer_range(DType::Int64, 3, 3), Error);
  EXPECT_THROW(integer_range(DType::UInt8, 0, 300), Error);
  EXPECT_THROW(integer_range(DType::UInt8, -1, 3), Error);
  EXPECT_THROW(integer_range(DType::Float16, 0, 70000), Error);
  EXPECT_EQ(integer_range(DType::Int64, INT64_MIN, INT64_MAX).count, UINT64_MAX);
}

TEST_P(Random, PermutationsAreTorchs) {
  Generator g(0);
  std::vector<int64_t> y(10);
  random_permutation(g, y.data(), 10);
  EXPECT_EQ(y, (std::vector<int64_t>{4, 1, 7, 5, 3, 9, 0, 8, 6, 2}));
  g.seed(0);
  random_permutation(g, y.data(), 10, 1);
  EXPECT_EQ(y, (std::vector<int64_t>{5, 2, 8, 6, 4, 10, 1, 9, 7, 3}));
  random_permutation(g, y.data(), 0);
}

TEST_P(Random, PermutationsHoldEveryNumber) {
  Generator g(2), h(2);
  const int64_t n = 10000;
  std::vector<int64_t> y(n), plain(n);
  random_permutation(g, y.data(), n);
  std::iota(plain.begin(), plain.end(), 0);
  for (int64_t i = 0; i + 1 < n; ++i)
    std::swap(plain[i], plain[i + h.next32() % static_cast<uint32_t>(n - i)]);
  EXPECT_EQ(y, plain);
}

TEST_P(Random, BernoulliIsTorchs) {
  for (DType dtype : {DType::Bool, DType::UInt8, DType::Int64, DType::BFloat16, DType::Float32}) {
    Generator g(0);
    EXPECT_EQ(drawn(dtype, 10, [&](void* y) { random_bernoulli(g, y, dtype, 10, 0.3); }),
              (Numbers{0, 0, 0, 0, 0, 0, 1, 0, 0, 1}));
  }
  Generator g(0);
  const std::vector<float> half(10, 0.5f);
  EXPECT_EQ(drawn(DType::Float32, 10,
                  [&](void* y) {
                    random_bernoulli(g, y, DType::Float32, 10, half.data(), DType::Float32);
                  }),
            (Numbers{1, 0, 1, 1, 1, 0, 1, 0, 1, 0}));
}

TEST_P(Random, BernoulliOfZeroAndOneIsCertain) {
  Generator g(0);
  std::vector<uint8_t> y(3000);
  random_bernoulli(g, y.data(), DType::Bool, 3000, 1);
  EXPECT_EQ(std::count(y.begin(), y.end(), 1), 3000);
  random_bernoulli(g, y.data(), DType::Bool, 3000, 0);
  EXPECT_EQ(std::count(y.begin(), y.end(), 0), 3000);
}

TEST_P(Random, OtherDistributionsAreTorchs) {
  const auto check = [](const Numbers& want, auto fill) {
    Generator g(0);
    const int64_t n = static_cast<int64_t>(want.size());
    expect_near(drawn(DType::Float32, n, [&](void* y) { fill(g, y, n); }), want, 1e-7);
  };
  check({1.4033304452896118, 0.49215391278266907, 0.24601763486862183, 1.0140475034713745},
        [](Generator& g, void* y, int64_t n) { random_exponential(g, y, DType::Float32, n, 2.5); });
  check({10.597729682922363, 0.7647672891616821, -0.12829934060573578, 3.9330732822418213},
        [](Generator& g, void* y, int64_t n) { random_cauchy(g, y, DType::Float32, n, 0, 1); });
  check({1, 1, 3, 1, 2},
        [](Generator& g, void* y, int64_t n) { random_geometric(g, y, DType::Float32, n, 0.3); });
  check({59.2634162902832, 1.5115599632263184, 0.03481946140527725, 8.47281265258789},
        [](Generator& g, void* y, int64_t n) { random_log_normal(g, y, DType::Float32, n, 1, 2); });
  check({2, 6, 19}, [](Generator& g, void* y, int64_t n) {
    const float rate[] = {1, 5, 20};
    random_poisson(g, y, rate, DType::Float32, n);
  });
}

// Logarithms come from lanes; the counts are those of the library's logarithm.
TEST_P(Random, TrialsUntilTheFirstSuccessAreAsDefined) {
  for (const double p : {0.5, 0.25, 0.75, 0.3, 0.001, 1e-9, 1e-17}) {
    const int64_t n = 5001;
    Generator g(7), same(7);
    std::vector<double> y(static_cast<size_t>(n));
    random_geometric(g, y.data(), DType::Float64, n, p);
    for (const double have : y)
      ASSERT_EQ(have, std::ceil(std::log(same.next_double53()) / std::log1p(-p))) << p;
  }
}

TEST_P(Random, CategoriesAreTorchs) {
  const float weights[] = {.1f, .2f, .7f, .4f};
  Generator g(0);
  std::vector<int64_t> y(6);
  random_multinomial(g, y.data(), weights, DType::Float32, 1, 4, 6, true);
  EXPECT_EQ(y, (std::vector<int64_t>{3, 2, 2, 3, 2, 3}));
  g.seed(0);
  y.resize(2);
  random_multinomial(g, y.data(), weights, DType::Float32, 1, 4, 2, false);
  EXPECT_EQ(y, (std::vector<int64_t>{2, 1}));
  g.seed(0);
  random_multinomial(g, y.data(), weights, DType::Float32, 1, 4, 2, false, 1);
  EXPECT_EQ(y, (std::vector<int64_t>{3, 2}));
}

TEST_P(Random, CategoriesWithoutReplacementDiffer) {
  Generator g(8);
  const int64_t rows = 5, categories = 300;
  std::vector<double> weights(rows * categories);
  random_uniform(g, weights.data(), DType::Float64, rows * categories, 0, 1);
  std::vector<int64_t> y(rows * categories);
  random_multinomial(g, y.data(), weights.data(), DType::Float64, rows, categories, categories,
                     false);
  for (int64_t r = 0; r < rows; ++r) {
    std::sort(y.begin() + r * categories, y.begin() + (r + 1) * categories);
    for (int64_t c = 0; c < categories; ++c) ASSERT_EQ(y[r * categories + c], c);
  }
}

TEST(RandomErrors, AreRaisedBeforeAnythingIsDrawnOrWritten) {
  Generator g(1);
  const double nan = std::nan(""), infinity = INFINITY;
  std::vector<float> y(20, 7), p(20, 0.5f);
  p[19] = 1.5f;
  int64_t positions[4] = {7, 7, 7, 7};
  const float bad[4] = {1, -1, 0, 0}, none[4] = {};
  const DType f = DType::Float32;
  EXPECT_THROW(random_uniform(g, y.data(), f, 20, 1, 0), Error);
  EXPECT_THROW(random_uniform(g, y.data(), f, 20, nan, 0), Error);
  EXPECT_THROW(random_uniform(g, y.data(), f, 20, -3e38, 3e38), Error);
  EXPECT_THROW(random_uniform(g, y.data(), DType::Int32, 20, 0, 1), Error);
  EXPECT_THROW(random_normal(g, y.data(), f, 20, 0, -1), Error);
  EXPECT_THROW(random_bernoulli(g, y.data(), f, 20, nan), Error);
  EXPECT_THROW(random_bernoulli(g, y.data(), f, 20, p.data(), f), Error);
  EXPECT_THROW(random_exponential(g, y.data(), f, 20, 0), Error);
  EXPECT_THROW(random_geometric(g, y.data(), f, 20, 1), Error);
  EXPECT_THROW(random_cauchy(g, y.data(), f, 20, 0, 0), Error);
  EXPECT_THROW(random_log_normal(g, y.data(), f, 20, 0, 0), Error);
  p[19] = static_cast<float>(infinity);
  EXPECT_THROW(random_poisson(g, y.data(), p.data(), f, 20), Error);
  EXPECT_THROW(random_multinomial(g, positions, bad, f, 1, 4, 2, true), Error);
  EXPECT_THROW(random_multinomial(g, positions, none, f, 1, 4, 2, true), Error);
  EXPECT_THROW(random_multinomial(g, positions, p.data(), f, 1, 4, 5, false), Error);
  EXPECT_THROW(random_multinomial(g, positions, p.data(), f, 1, 4, 0, false), Error);
  EXPECT_THROW(random_multinomial(g, positions, p.data(), f, 1, 0, 1, true), Error);
  EXPECT_EQ(y, std::vector<float>(20, 7));
  EXPECT_EQ(positions[0], 7);
  EXPECT_EQ(g.next32(), Generator(1).next32());
}

}  // namespace
}  // namespace tycho::cpu
