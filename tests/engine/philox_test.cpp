// The random numbers of devices: Philox against its published vectors, and what tensors get of it.
#include "engine/base/philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/random/random.h"
#include "engine/ops/random/random.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/read.h"

namespace tycho {
namespace {

using Numbers = std::vector<double>;

Numbers numbers(const Tensor& t) {
  Numbers out;
  const Tensor host = fetch(t);
  for (int64_t i = 0; i < host.numel(); ++i) out.push_back(number_at(host, i));
  return out;
}

// Random123's known answers.
TEST(Philox, GivesThePublishedVectors) {
  const auto check = [](uint64_t key, uint64_t low, uint64_t high, const uint32_t(&want)[4]) {
    const PhiloxBlock b = philox(key, low, high);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(b.word[i], want[i]);
  };
  check(0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  check(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  check(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e,
        {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST(Philox, ElementsFollowFromSeedOffsetAndPlaceAlone) {
  constexpr int64_t n = 100'003;
  PhiloxStream g(7);
  g.take(5);
  std::vector<float> x(n);
  std::vector<double> d(n);
  cpu::random_uniform(g, x.data(), DType::Float32, n, 0, 1);
  cpu::random_uniform(g, d.data(), DType::Float64, n, 0, 1);
  const uint64_t next = 5 + (n + 3) / 4;
  for (int64_t i = 0; i < n; ++i) {
    ASSERT_EQ(x[i], unit_of(philox(7, 5 + i / 4), i % 4, 0.f));
    ASSERT_EQ(d[i], unit_of(philox(7, next + i / 2), i % 2, 0.));
  }
  EXPECT_EQ(g.take(0), next + (n + 1) / 2);
}

TEST(Philox, ThreadsDoNotChangeTheNumbers) {
  const int before = get_num_threads();
  const auto draw = [] {
    std::vector<float> x(300'000);
    PhiloxStream g(1);
    cpu::random_normal(g, x.data(), DType::Float32, std::ssize(x), 0, 1);
    return x;
  };
  set_num_threads(1);
  const auto one = draw();
  set_num_threads(4);
  EXPECT_EQ(one, draw());
  set_num_threads(before);
}

TEST(Philox, StateIsSeedAndOffset) {
  PhiloxStream g(3);
  g.take(1000);
  const std::string state = g.state();
  EXPECT_EQ(state.size(), 16u);
  PhiloxStream other(4);
  other.set_state(state);
  EXPECT_EQ(other.initial_seed(), 3u);
  EXPECT_EQ(other.take(1), 1000u);
  EXPECT_THROW(other.set_state("short"), Error);
}

// Mean and deviation of n draws, within `sigmas` of what they should be.
void expect_moments(const Numbers& x, double mean, double deviation) {
  double sum = 0, squares = 0;
  for (double v : x) sum += v;
  const double n = static_cast<double>(x.size()), m = sum / n;
  for (double v : x) squares += (v - m) * (v - m);
  EXPECT_NEAR(m, mean, 5 * deviation / std::sqrt(n));
  EXPECT_NEAR(std::sqrt(squares / n), deviation, 0.03 * deviation);
}

TEST(DeviceRandom, HasTheRightDistributionsInEveryType) {
  simulate_cuda(2);
  const Device d = cuda_device(0);
  constexpr int64_t n = 40'000;
  generator_of(d).seed(11);
  for (DType t : {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64}) {
    const Tensor x = empty({n}, t, d);
    expect_moments(numbers((op_<"uniform">(x, -1.0, 3.0), x)), 1, 4 / std::sqrt(12));
    expect_moments(numbers((op_<"normal.fill">(x, 2.0, 0.5), x)), 2, 0.5);
    expect_moments(numbers((op_<"exponential">(x, 2.0), x)), 0.5, 0.5);
    expect_moments(numbers((op_<"bernoulli">(x, 0.3), x)), 0.3, std::sqrt(0.21));
    expect_moments(numbers((op_<"geometric">(x, 0.4), x)), 2.5, std::sqrt(0.6) / 0.4);
    op_<"fill">(x, 4.0);
    expect_moments(numbers(op<"poisson">(x)), 4, 2);
    op_<"fill">(x, 20.0);
    expect_moments(numbers(op<"poisson">(x)), 20, std::sqrt(20));
    op_<"fill">(x, 0.25);
    expect_moments(numbers(op<"bernoulli">(x)), 0.25, std::sqrt(0.1875));
  }
  for (DType t : {DType::UInt8, DType::Int16, DType::Int64}) {
    const Tensor x = empty({n}, t, d);
    expect_moments(numbers((op_<"random.range">(x, 3, 103), x)), 52.5, 100 / std::sqrt(12));
  }
  const Tensor wide = empty({n}, DType::Int64, d);
  expect_moments(numbers((op_<"random.range">(wide, 0, int64_t{1} << 40), wide)), 0x1p39,
                 0x1p40 / std::sqrt(12));
}

TEST(DeviceRandom, PermutesAndDrawsCategories) {
  simulate_cuda(2);
  const Device d = cuda_device(0);
  generator_of(d).seed(5);
  const Numbers p = numbers(op<"randperm">(1000, Value(), DType::Int64, d));
  std::vector<bool> seen(1000);
  for (double k : p) seen[static_cast<size_t>(k) - 1] = true;
  EXPECT_EQ(seen, std::vector<bool>(1000, true));
  const Tensor given = empty({4}, DType::Float32);
  for (int i = 0; i < 4; ++i) given.host<float>()[i] = static_cast<float>(i + 1);
  const Tensor weights = sent(given, d);
  for (bool again : {true, false}) {
    const Numbers draws =
        numbers(op<"multinomial">(op<"expand">(weights, Sizes{9000, 4}), again ? 3 : 1, again));
    Numbers count(4);
    for (double k : draws) ++count[static_cast<size_t>(k) - 1];
    for (int k = 0; k < 4; ++k)
      EXPECT_NEAR(count[k] / static_cast<double>(draws.size()), (k + 1) / 10.0, 0.02);
  }
}

Numbers nine_of(Device d) {
  const Tensor x = empty({9}, DType::Float32, d);
  op_<"normal.fill">(x);
  return numbers(x);
}

TEST(DeviceRandom, SeedingStartsAllStreamsAnewAndEachDeviceHasItsOwn) {
  simulate_cuda(2);
  const Device a = cuda_device(0), b = cuda_device(1);
  seed_all(42);
  const Numbers first = nine_of(a);
  EXPECT_NE(nine_of(a), first);
  EXPECT_EQ(nine_of(b), first);
  seed_all(42);
  EXPECT_EQ(nine_of(a), first);
}

}  // namespace
}  // namespace tycho
