// The pass behind the summary of large tensors: against plain loops, at every instruction-set
// level, for every dtype and layout, and stopped by Ctrl-C.
#include "engine/cpu/reduce/summary.h"

#include <cmath>
#include <limits>

#include "engine/base/interrupt.h"
#include "engine/base/parallel.h"
#include "engine/cpu/level.h"
#include "tests/engine/numeric.h"

namespace tycho {
namespace {

using cpu::Summary;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr cpu::Level kLevels[] = {cpu::Level::x86_64, cpu::Level::v3, cpu::Level::v4};

struct AtLevel {
  cpu::Level before = cpu::level();
  explicit AtLevel(cpu::Level l) {
    if (l < before) cpu::force_level(l);
  }
  ~AtLevel() { cpu::force_level(before); }
};

void expect_right(const Tensor& x, const std::string& what) {
  Summary want;
  double sum = 0, squares = 0, n = 0;
  want.min = kInf, want.max = -kInf;
  const std::vector<double> v = numeric::values(x);
  for (double y : v) {
    if (std::isnan(y)) {
      ++want.nan;
    } else if (std::isinf(y)) {
      ++(y > 0 ? want.plus : want.minus);
    } else {
      ++want.finite;
      want.zero += y == 0;
      want.min = std::min(want.min, y);
      want.max = std::max(want.max, y);
      sum += y;
      ++n;
    }
  }
  for (double y : v)
    if (std::isfinite(y)) squares += (y - sum / n) * (y - sum / n);
  const Summary have = cpu::summarize(x.get());
  EXPECT_EQ(have.nan, want.nan) << what;
  EXPECT_EQ(have.plus, want.plus) << what;
  EXPECT_EQ(have.minus, want.minus) << what;
  EXPECT_EQ(have.zero, want.zero) << what;
  ASSERT_EQ(have.finite, want.finite) << what;
  if (want.finite == 0) return;
  EXPECT_EQ(have.min, want.min) << what;
  EXPECT_EQ(have.max, want.max) << what;
  const double spread = n > 1 ? std::sqrt(squares / (n - 1)) : 0;
  EXPECT_NEAR(have.mean, sum / n, 1e-6 * (std::abs(sum / n) + spread)) << what;
  EXPECT_NEAR(have.spread, spread, 1e-4 * spread + 1e-12 * std::abs(sum / n)) << what;
  // As many as lie below an edge; what is within rounding of it may be on either side.
  int64_t total = 0;
  const double width = (want.max / 2 - want.min / 2) / 5;
  for (int k = 0; k < cpu::kSummaryBins && width > 0; ++k) {
    total += have.bins[k];
    const double edge = want.min + (k + 1) * width;
    int64_t least = 0, most = 0;
    for (double y : v) {
      least += std::isfinite(y) && y < edge - 1e-5 * width;
      most += std::isfinite(y) && y <= edge + 1e-5 * width;
    }
    EXPECT_GE(total, least) << what << ", bin " << k;
    EXPECT_LE(total, most) << what << ", bin " << k;
  }
  if (width == 0) total = have.bins[0];
  EXPECT_EQ(total, want.finite) << what;
}

TEST(Summary, AgreesWithPlainLoopsForEveryTypeAndSize) {
  for (cpu::Level l : kLevels) {
    const AtLevel at(l);
    numeric::Source source;
    for (int d = 0; d < kDTypes; ++d)
      for (int64_t n : {1, 2, 7, 1023, 1025, 20000, 300001})
        expect_right(numeric::random(source, {n}, static_cast<DType>(d)),
                     std::string(dtype_name(static_cast<DType>(d))) + " " + std::to_string(n));
  }
}

TEST(Summary, CountsWhatIsNotFiniteWhereverItStands) {
  for (cpu::Level l : kLevels) {
    const AtLevel at(l);
    numeric::Source source;
    for (DType t : {DType::Float32, DType::Float64, DType::BFloat16, DType::Float16}) {
      Tensor x = numeric::random(source, {50000}, DType::Float64);
      double* p = x.host<double>();
      for (int64_t i = 0; i < x.numel(); i += 97) p[i] = std::nan("");
      for (int64_t i = 5; i < x.numel(); i += 1009) p[i] = i % 2 ? kInf : -kInf;
      p[49999] = 60000;
      p[1] = 0;
      Tensor y = empty({50000}, t);
      copy_raw(y, x);
      expect_right(y, dtype_name(t));
      for (int64_t i = 0; i < x.numel(); ++i) p[i] = std::nan("");
      copy_raw(y, x);
      expect_right(y, dtype_name(t));
    }
  }
}

TEST(Summary, ReadsAnyLayout) {
  numeric::Source source;
  const Tensor x = numeric::random(source, {60, 70, 80}, DType::Float32);
  expect_right(alias(x, {80, 70, 60}, {1, 80, 5600}, 0), "transposed");
  expect_right(alias(x, {60, 70, 3}, {5600, 80, 1}, 5), "short rows");
  expect_right(alias(x, {60, 70, 40}, {5600, 80, 2}, 1), "every second");
  expect_right(alias(x, {30, 70, 80}, {0, 80, 1}, 5600), "stretched");
  expect_right(alias(x, {2000}, {0}, 7), "one element");
}

TEST(Summary, KeepsExtremeValuesApart) {
  for (cpu::Level l : kLevels) {
    const AtLevel at(l);
    Tensor x = filled({5000}, 1e-42, DType::Float32);
    x.host<float>()[77] = 3e38f;
    Summary s = cpu::summarize(x.get());
    EXPECT_EQ(s.max, static_cast<double>(3e38f));
    EXPECT_NEAR(s.bins[9], 1, 1e-6);
    EXPECT_NEAR(s.bins[0], 4999, 1e-6);
    x.host<float>()[78] = -3e38f;
    s = cpu::summarize(x.get());
    EXPECT_TRUE(std::isfinite(s.spread));
    Tensor y = filled({5000}, 1e308, DType::Float64);
    y.host<double>()[0] = -1e308;
    s = cpu::summarize(y.get());
    EXPECT_TRUE(std::isfinite(s.mean) && std::isfinite(s.spread));
    EXPECT_NEAR(s.bins[9], 4999, 1e-6);
  }
}

TEST(Summary, IntegersAreExact) {
  Tensor x = filled({3000}, 0, DType::Int64);
  x.host<int64_t>()[1] = INT64_MIN;
  x.host<int64_t>()[2] = INT64_MAX - 1;
  const Summary s = cpu::summarize(x.get());
  EXPECT_EQ(s.least, INT64_MIN);
  EXPECT_EQ(s.most, INT64_MAX - 1);
  EXPECT_EQ(s.zero, 2998);
}

TEST(Summary, DoesNotDependOnTheNumberOfThreads) {
  numeric::Source source;
  const Tensor x = numeric::random(source, {2000003}, DType::Float32);
  const int before = get_num_threads();
  set_num_threads(1);
  const Summary one = cpu::summarize(x.get());
  set_num_threads(4);
  const Summary four = cpu::summarize(x.get());
  set_num_threads(before);
  EXPECT_EQ(one.mean, four.mean);
  EXPECT_EQ(one.spread, four.spread);
  for (int i = 0; i < cpu::kSummaryBins; ++i) EXPECT_EQ(one.bins[i], four.bins[i]);
}

TEST(Summary, StopsWhenInterrupted) {
  const Tensor x = filled({4000000}, 1, DType::Float32);
  request_interrupt();
  EXPECT_THROW(cpu::summarize(x.get()), Error);
  clear_interrupt();
  EXPECT_EQ(cpu::summarize(x.get()).finite, 4000000);
}

}  // namespace
}  // namespace tycho
