// The limits of random numbers (see limits.h).
#include "engine/ops/random/limits.h"

#include <cmath>
#include <limits>
#include <string_view>

#include "engine/base/check.h"
#include "engine/tensor/half.h"

namespace tycho {
namespace {

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

// How many bits of an integer a dtype holds exactly.
int digits(DType dtype) {
  constexpr int d[kDTypes] = {1, 8, 7, 15, 31, 63, 11, 8, 24, 53};
  return d[static_cast<int>(dtype)];
}

// The integer that `v` is after rounding to a floating dtype (too large ones: as the cast does).
int64_t rounded(DType dtype, int64_t v) {
  double d;
  if (dtype == DType::Float64) {
    d = static_cast<double>(v);
  } else {
    const float f = static_cast<float>(v);
    d = dtype == DType::Float16    ? from_float16(to_float16(f))
        : dtype == DType::BFloat16 ? from_bfloat16(to_bfloat16(f))
                                   : static_cast<double>(f);
  }
  return d >= 0x1p63 || d < -0x1p63 ? kLeast : static_cast<int64_t>(d);
}

int highest_bit(int64_t v) { return v == 0 ? 0 : 63 - __builtin_clzll(static_cast<uint64_t>(v)); }

double largest(DType dtype) {
  return dtype == DType::Float16    ? 65504
         : dtype == DType::BFloat16 ? 0x1.fep127
         : dtype == DType::Float32  ? std::numeric_limits<float>::max()
                                    : std::numeric_limits<double>::max();
}

}  // namespace

void check_floating(const char* what, DType dtype) {
  TYCHO_CHECK(Kind::DType, is_floating(dtype), "%s makes floating-point numbers, not %s", what,
              dtype_name(dtype));
}

void check_uniform(DType dtype, double from, double to) {
  check_floating("uniform_", dtype);
  const double most = largest(dtype);
  TYCHO_CHECK(Kind::Value, std::abs(from) <= most && std::abs(to) <= most,
              "uniform_ cannot reach from %g to %g: %s ends at %g", from, to, dtype_name(dtype),
              most);
  TYCHO_CHECK(Kind::Value, from <= to, "uniform_ draws from [from, to), but from = %g > to = %g",
              from, to);
  TYCHO_CHECK(Kind::Value, to - from <= most,
              "uniform_ needs to - from within %s, which ends at %g; from = %g, to = %g",
              dtype_name(dtype), most, from, to);
}

void check_normal(DType dtype, double deviation) {
  check_floating("normal_", dtype);
  TYCHO_CHECK(Kind::Value, deviation >= 0,
              "normal_ needs a standard deviation of 0 or more, not %g", deviation);
}

void check_rate(const char* op, int64_t i, double rate) {
  TYCHO_CHECK(Kind::Value, rate >= 0 && std::isfinite(rate),
              "%s needs finite %s of 0 or more, element %lld is %g", op,
              std::string_view(op) == "poisson" ? "rates" : "shapes", static_cast<long long>(i + 1),
              rate);
}

double least_normal(DType dtype) {
  return dtype == DType::Float16   ? 0x1p-14
         : dtype == DType::Float64 ? std::numeric_limits<double>::min()
                                   : std::numeric_limits<float>::min();
}

double unit_roundoff(DType dtype) { return std::ldexp(1, -digits(dtype)); }

void check_probability(double p) {
  TYCHO_CHECK(Kind::Value, p >= 0 && p <= 1, "bernoulli needs a probability in [0, 1], not %g", p);
}

void check_exponential(DType dtype, double lambda) {
  check_floating("exponential_", dtype);
  TYCHO_CHECK(Kind::Value, lambda > 0, "exponential_ needs a rate above 0, not %g", lambda);
}

void check_geometric(DType dtype, double p) {
  TYCHO_CHECK(Kind::DType, dtype != DType::Bool, "geometric_ makes counts, which bool cannot hold");
  TYCHO_CHECK(Kind::Value, p > 0 && p < 1, "geometric_ needs a probability in (0, 1), not %g", p);
}

void check_cauchy(DType dtype, double sigma) {
  check_floating("cauchy_", dtype);
  TYCHO_CHECK(Kind::Value, sigma > 0, "cauchy_ needs a scale above 0, not %g", sigma);
}

void check_log_normal(DType dtype, double deviation) {
  check_floating("log_normal_", dtype);
  TYCHO_CHECK(Kind::Value, deviation > 0, "log_normal_ needs a standard deviation above 0, not %g",
              deviation);
}

IntegerRange integer_range(DType dtype) {
  return {0, (uint64_t{1} << digits(dtype)) + (is_floating(dtype) ? 1 : 0)};
}

IntegerRange integer_range(DType dtype, int64_t from, int64_t to) {
  TYCHO_CHECK(Kind::Value, from < to, "random integers need from < to, got from = %lld, to = %lld",
              static_cast<long long>(from), static_cast<long long>(to));
  if (!is_floating(dtype)) {
    const bool negative = dtype >= DType::Int8;
    const int64_t top = dtype == DType::Int64 ? kMost : (int64_t{1} << digits(dtype)) - 1;
    const int64_t bottom = negative ? -top - 1 : 0;
    TYCHO_CHECK(Kind::Value, from >= bottom && to - 1 <= top,
                "%s holds %lld to %lld, which is less than the range [%lld, %lld)",
                dtype_name(dtype), static_cast<long long>(bottom), static_cast<long long>(top),
                static_cast<long long>(from), static_cast<long long>(to));
  } else {
    if (dtype == DType::Float16)
      TYCHO_CHECK(Kind::Value, from >= -65504 && to - 1 <= 65504,
                  "float16 holds -65504 to 65504, which is less than the range [%lld, %lld)",
                  static_cast<long long>(from), static_cast<long long>(to));
    const int d = digits(dtype);
    const int64_t next = rounded(dtype, from + 1), before = rounded(dtype, to - 1);
    // A bound that rounds beyond int64 comes back as the least one; it needs no move.
    if (next < from && !(next == kLeast && from > 0))
      from = next + (int64_t{1} << std::max(0, highest_bit(std::abs(from + 1)) - d + 1));
    if (before >= to)
      to = before - (int64_t{1} << std::max(0, highest_bit(std::abs(to - 1)) - d + 1));
    TYCHO_CHECK(Kind::Value, from < to,
                "no integer of [%lld, %lld) is left after rounding the bounds to %s",
                static_cast<long long>(from), static_cast<long long>(to), dtype_name(dtype));
  }
  return {from, static_cast<uint64_t>(to) - static_cast<uint64_t>(from)};
}

IntegerRange integer_range_from(DType dtype, int64_t from) {
  const int64_t most = static_cast<int64_t>(integer_range(dtype).count - 1);
  TYCHO_CHECK(Kind::Value, from <= most, "random_: from = %lld is beyond %s, which ends at %lld",
              static_cast<long long>(from), dtype_name(dtype), static_cast<long long>(most));
  return {from, static_cast<uint64_t>(most) - static_cast<uint64_t>(from) + 1};
}

}  // namespace tycho
