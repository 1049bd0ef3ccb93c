// Conversions between storage types and tiles, at every instruction-set level: all patterns of the
// half formats, rounding at every midpoint, casts that do not fit, strides.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "engine/cpu/level.h"
#include "tests/engine/level/functions.h"

namespace {

using tycho::cpu::Level;

enum Code { Bool, UInt8, Int8, Int16, Int32, Int64, Float16, BFloat16, Float32, Float64 };

std::vector<LevelFunctions> levels() {
  std::vector<LevelFunctions> r = {tycho::cpu::x86_64::level_functions()};
  if (tycho::cpu::level() >= Level::v3) r.push_back(tycho::cpu::v3::level_functions());
  if (tycho::cpu::level() >= Level::v4) r.push_back(tycho::cpu::v4::level_functions());
  return r;
}

// The value of a 16-bit format with that many mantissa bits, by its definition.
double decode(unsigned bits, int mantissa) {
  int exponent_bits = 15 - mantissa, bias = (1 << (exponent_bits - 1)) - 1;
  int e = static_cast<int>(bits >> mantissa) & ((1 << exponent_bits) - 1);
  int m = static_cast<int>(bits) & ((1 << mantissa) - 1);
  double sign = bits & 0x8000 ? -1 : 1;
  if (e == (1 << exponent_bits) - 1) {
    return m ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  if (e == 0) return sign * std::ldexp(m, 1 - bias - mantissa);
  return sign * std::ldexp(m + (1 << mantissa), e - bias - mantissa);
}
bool same(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

struct Short {
  Code code;
  int mantissa;
} const shorts[] = {{Float16, 10}, {BFloat16, 7}};

TEST(Convert, EveryPatternOfTheHalfFormatsLoadsAsItsValue) {
  std::vector<uint16_t> all(65536);
  for (unsigned i = 0; i < 65536; i++) all[i] = static_cast<uint16_t>(i);
  std::vector<float> f(65536);
  std::vector<double> d(65536);
  std::vector<int64_t> k(65536);
  for (const LevelFunctions& t : levels()) {
    for (Short s : shorts) {
      t.load_f32[s.code](f.data(), all.data(), 1, 65536);
      t.load_f64[s.code](d.data(), all.data(), 1, 65536);
      t.load_i64[s.code](k.data(), all.data(), 1, 65536);
      for (unsigned i = 0; i < 65536; i++) {
        double want = decode(i, s.mantissa);
        ASSERT_TRUE(same(want, f[i])) << i << " gave " << f[i];
        ASSERT_TRUE(same(want, d[i])) << i << " gave " << d[i];
        bool fits = std::fabs(want) < 0x1p63;
        int64_t cast = fits ? static_cast<int64_t>(want) : std::numeric_limits<int64_t>::min();
        ASSERT_EQ(k[i], cast) << i;
      }
    }
  }
}

// Every finite value and the midpoint to the next, with its neighbours on both sides.
TEST(Convert, StoresRoundOnceToNearestEven) {
  for (Short s : shorts) {
    unsigned infinity = s.code == Float16 ? 0x7c00 : 0x7f80;
    std::vector<double> x;
    std::vector<uint16_t> want;
    auto add = [&](double v, unsigned bits) {
      x.push_back(v);
      want.push_back(static_cast<uint16_t>(bits));
      x.push_back(-v);
      want.push_back(static_cast<uint16_t>(bits | 0x8000));
    };
    for (unsigned i = 0; i < infinity; i++) {
      double a = decode(i, s.mantissa), last = a - decode(i ? i - 1 : 1, s.mantissa);
      double b = i + 1 == infinity ? a + last : decode(i + 1, s.mantissa), mid = (a + b) / 2;
      add(a, i);
      add(mid, i % 2 ? i + 1 : i);
      add(std::nextafter(mid, 0), i);
      add(std::nextafter(mid, 1e300), i + 1);
    }
    add(std::numeric_limits<double>::infinity(), infinity);
    add(1e300, infinity);
    add(5e-324, 0);
    int64_t n = static_cast<int64_t>(x.size());
    std::vector<uint16_t> out(x.size());
    for (const LevelFunctions& t : levels()) {
      t.store_f64[s.code](out.data(), x.data(), 1, n);
      for (size_t i = 0; i < x.size(); i++) ASSERT_EQ(out[i], want[i]) << x[i];
      // The same through float, where the value is a float.
      std::vector<float> f(x.begin(), x.end());
      t.store_f32[s.code](out.data(), f.data(), 1, n);
      for (size_t i = 0; i < x.size(); i++) {
        if (f[i] == x[i]) {
          ASSERT_EQ(out[i], want[i]) << f[i];
        }
      }
    }
  }
}

TEST(Convert, NanStaysNanInEveryFloatFormat) {
  const double nans[] = {std::nan(""), -std::nan(""), std::nan("1")};
  for (const LevelFunctions& t : levels()) {
    for (double nan : nans) {
      for (Code c : {Float16, BFloat16, Float32, Float64}) {
        std::vector<double> d(16, nan), back(16);
        std::vector<float> f(16, static_cast<float>(nan));
        char bytes[128];
        t.store_f64[c](bytes, d.data(), 1, 16);
        t.load_f64[c](back.data(), bytes, 1, 16);
        EXPECT_TRUE(std::isnan(back[0]) && std::isnan(back[15]));
        t.store_f32[c](bytes, f.data(), 1, 16);
        t.load_f64[c](back.data(), bytes, 1, 16);
        EXPECT_TRUE(std::isnan(back[0]) && std::isnan(back[15]));
      }
    }
  }
}

TEST(Convert, CastsToIntegersTruncateAndWrapWithoutTrapping) {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> x = {
      0.,           -0.,           0.9,         -0.9,         1.5,          -1.5,
      127.,         128.,          -129.,       255.9,        256.,         300.,
      -1.,          65535,         2147483647., 2147483648.,  -2147483648., -2147483649.,
      4294967296.,  1e15,          -1e15,       0x1p62,       0x1p63,       -0x1p63,
      1e300,        inf,           -inf,        std::nan(""), 0x1p51 - 1,   1 - 0x1p51,
      0x1p50 + 0.5, -0x1p50 - 0.5, 0x1p51,      -0x1p51,      0x1p52 + 1,   -0x1p52 - 1};
  const int64_t n = static_cast<int64_t>(x.size());
  std::vector<float> f(x.begin(), x.end());
  for (const LevelFunctions& t : levels()) {
    for (int from_float = 0; from_float < 2; from_float++) {
      auto value = [&](size_t i) { return from_float ? static_cast<double>(f[i]) : x[i]; };
      auto cast = [&](size_t i) {
        double v = value(i);
        return v >= -0x1p63 && v < 0x1p63 ? static_cast<int64_t>(v)
                                          : std::numeric_limits<int64_t>::min();
      };
      auto store = [&](Code c, void* to) {
        if (from_float) {
          t.store_f32[c](to, f.data(), 1, n);
        } else {
          t.store_f64[c](to, x.data(), 1, n);
        }
      };
      std::vector<uint8_t> u8(x.size()), b(x.size());
      std::vector<int8_t> i8(x.size());
      std::vector<int16_t> i16(x.size());
      std::vector<int32_t> i32(x.size());
      std::vector<int64_t> i64(x.size()), tile(x.size());
      store(UInt8, u8.data());
      store(Bool, b.data());
      store(Int8, i8.data());
      store(Int16, i16.data());
      store(Int32, i32.data());
      store(Int64, i64.data());
      if (from_float) {
        t.load_i64[Float32](tile.data(), f.data(), 1, n);
      } else {
        t.load_i64[Float64](tile.data(), x.data(), 1, n);
      }
      for (size_t i = 0; i < x.size(); i++) {
        EXPECT_EQ(u8[i], static_cast<uint8_t>(cast(i))) << value(i);
        EXPECT_EQ(i8[i], static_cast<int8_t>(cast(i))) << value(i);
        EXPECT_EQ(i16[i], static_cast<int16_t>(cast(i))) << value(i);
        EXPECT_EQ(i32[i], static_cast<int32_t>(cast(i))) << value(i);
        EXPECT_EQ(i64[i], cast(i)) << value(i);
        EXPECT_EQ(tile[i], cast(i)) << value(i);
        EXPECT_EQ(b[i], value(i) != 0) << value(i);
      }
    }
  }
}

TEST(Convert, IntegersBecomeFloatsRoundedOnce) {
  std::vector<int64_t> x = {0,
                            1,
                            -1,
                            255,
                            2049,
                            2051,
                            65519,
                            65520,
                            16777217,
                            16777219,
                            1 << 30,
                            (int64_t{1} << 53) + 1,
                            (int64_t{1} << 53) + 3,
                            (int64_t{1} << 24 << 30) + 1,
                            std::numeric_limits<int64_t>::max(),
                            std::numeric_limits<int64_t>::min()};
  std::mt19937_64 random(5);
  for (int i = 0; i < 1280; i++) x.push_back(static_cast<int64_t>(random()) >> i / 20);
  int64_t n = static_cast<int64_t>(x.size());
  std::vector<float> f(x.size());
  std::vector<double> d(x.size());
  std::vector<uint16_t> h(x.size()), through(x.size());
  for (const LevelFunctions& t : levels()) {
    t.load_f32[Int64](f.data(), x.data(), 1, n);
    t.load_f64[Int64](d.data(), x.data(), 1, n);
    for (size_t i = 0; i < x.size(); i++) {
      EXPECT_EQ(f[i], static_cast<float>(x[i]));
      EXPECT_EQ(d[i], static_cast<double>(x[i]));
    }
    t.store_i64[Float32](f.data(), x.data(), 1, n);
    for (size_t i = 0; i < x.size(); i++) EXPECT_EQ(f[i], static_cast<float>(x[i]));
    for (Code c : {Float16, BFloat16}) {
      t.store_i64[c](h.data(), x.data(), 1, n);
      t.store_f32[c](through.data(), f.data(), 1, n);
      EXPECT_EQ(h, through);
    }
  }
}

// Storage of each type filled with small numbers, all lengths and strides, every tile type.
template <class T, class Load, class Store>
void round_trip(int code, Load load, Store store) {
  const int64_t sizes[] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8}, size = sizes[code];
  for (int64_t n : {0, 1, 2, 3, 7, 8, 15, 16, 17, 33, 255, 256, 257, 600}) {
    for (int64_t stride : {1, 2, 5, -1, -3}) {
      int64_t extent = n ? (n - 1) * std::abs(stride) + 1 : 0;
      // One element of margin on both sides must stay as it is.
      std::vector<char> memory(static_cast<size_t>((extent + 2) * size), 0x55), before = memory;
      char* first = memory.data() + size * (stride > 0 ? 1 : extent);
      std::vector<T> x(static_cast<size_t>(n) + 1), y(static_cast<size_t>(n) + 1, T(99));
      for (int64_t i = 0; i < n; i++) {
        x[static_cast<size_t>(i)] = code == Bool ? T(i % 2) : T(i % 101);
      }
      store(first, x.data(), stride, n);
      load(y.data(), first, stride, n);
      for (size_t i = 0; i < static_cast<size_t>(n); i++) ASSERT_EQ(x[i], y[i]) << code;
      ASSERT_EQ(y[static_cast<size_t>(n)], T(99));
      std::vector<bool> written(memory.size());
      for (int64_t i = 0; i < n; i++) {
        for (int64_t j = 0; j < size; j++) {
          written[static_cast<size_t>(first - memory.data() + i * stride * size + j)] = true;
        }
      }
      for (size_t i = 0; i < memory.size(); i++) {
        if (!written[i]) {
          ASSERT_EQ(memory[i], before[i]) << code << " " << n << " " << stride;
        }
      }
    }
    if (n) {
      std::vector<char> memory(static_cast<size_t>(size));
      T seven = code == Bool ? T(1) : T(7);
      store(memory.data(), &seven, 1, 1);
      std::vector<T> y(static_cast<size_t>(n));
      load(y.data(), memory.data(), 0, n);
      for (T v : y) ASSERT_EQ(v, seven);
    }
  }
}
TEST(Convert, AllLengthsAndStridesRoundTripAndTouchNothingElse) {
  for (const LevelFunctions& t : levels()) {
    for (int code = 0; code < 10; code++) {
      round_trip<float>(code, t.load_f32[code], t.store_f32[code]);
      round_trip<double>(code, t.load_f64[code], t.store_f64[code]);
      round_trip<int64_t>(code, t.load_i64[code], t.store_i64[code]);
    }
  }
}

TEST(Convert, AnyNonZeroByteIsTrueAndTrueIsOne) {
  const uint8_t bytes[4] = {0, 1, 2, 255};
  for (const LevelFunctions& t : levels()) {
    float f[4];
    int64_t k[4];
    t.load_f32[Bool](f, bytes, 1, 4);
    t.load_i64[Bool](k, bytes, 1, 4);
    for (int i = 0; i < 4; i++) {
      EXPECT_EQ(f[i], i > 0);
      EXPECT_EQ(k[i], i > 0);
    }
  }
}

}  // namespace
