// Functions on int64 lanes. Nothing here traps: results wrap, and dividing by zero gives 0 (the
// caller has raised before).
#pragma once
#include "engine/cpu/lanes/math_basic.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

TYCHO_INLINE I64 neg(I64 x) { return -x; }
TYCHO_INLINE I64 square(I64 x) { return x * x; }
TYCHO_INLINE I64 abs(I64 x) { return select(x < 0, -x, x); }
TYCHO_INLINE I64 sign(I64 x) { return number(x > 0) - number(x < 0); }
TYCHO_INLINE I64 maximum(I64 a, I64 b) { return select(a > b, a, b); }
TYCHO_INLINE I64 minimum(I64 a, I64 b) { return select(a < b, a, b); }
TYCHO_INLINE I64 bounded(I64 a, I64 low, I64 high) { return minimum(maximum(a, low), high); }

// ---- division

TYCHO_INLINE int64_t trunc_divide1(int64_t a, int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return static_cast<int64_t>(-static_cast<uint64_t>(a));
  return a / b;
}
TYCHO_INLINE int64_t fmod1(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
TYCHO_INLINE bool rounds_down(int64_t r, int64_t b) { return r != 0 && (r < 0) != (b < 0); }
TYCHO_FUNCTION int64_t floor_divide1(int64_t a, int64_t b) {
  return trunc_divide1(a, b) - rounds_down(fmod1(a, b), b);
}
TYCHO_FUNCTION int64_t remainder1(int64_t a, int64_t b) {
  int64_t r = fmod1(a, b);
  return rounds_down(r, b) ? r + b : r;
}

// Integers below 2^51 become doubles, and back, by adding a number whose last bit counts ones.
TYCHO_INLINE bool beyond_doubles(I64 a, I64 b) {
  constexpr int64_t limit = int64_t{1} << 51;
  return any(truth(((a + limit) | (b + limit)) & ~(2 * limit - 1)));
}
TYCHO_INLINE F64 to_double(I64 a) {
  F64 shifter = Format<double>::shifter;
  return from_bits<double>(bits_of(a) + bits_of(shifter)) - shifter;
}
TYCHO_INLINE I64 to_integer(F64 a) {
  F64 shifter = Format<double>::shifter;
  return from_bits<int64_t>(bits_of(a + shifter) - bits_of(shifter));
}
// The quotient of such doubles, rounded to double, never crosses an integer: rounding it to one
// in the wanted direction is exact. Mode 1 rounds down, 3 toward zero.
template <int mode, class F>
TYCHO_INLINE I64 divide_integers(I64 a, I64 b, F scalar) {
  if (I64::size == 1 || beyond_doubles(a, b)) return each(a, b, scalar);
  F64 y = to_double(b);
  return to_integer(select(y == 0, 0, rounded<mode>(to_double(a) / y)));
}
template <int mode, class F>
TYCHO_INLINE I64 rest_of_integers(I64 a, I64 b, F scalar) {
  if (I64::size == 1 || beyond_doubles(a, b)) return each(a, b, scalar);
  F64 x = to_double(a), y = to_double(b);
  return to_integer(select(y == 0, 0, x - rounded<mode>(x / y) * y));
}
TYCHO_INLINE I64 trunc_divide(I64 a, I64 b) {
  return divide_integers<3>(a, b, [](int64_t x, int64_t y) { return trunc_divide1(x, y); });
}
TYCHO_INLINE I64 floor_divide(I64 a, I64 b) {
  return divide_integers<1>(a, b, [](int64_t x, int64_t y) { return floor_divide1(x, y); });
}
TYCHO_INLINE I64 fmod(I64 a, I64 b) {
  return rest_of_integers<3>(a, b, [](int64_t x, int64_t y) { return fmod1(x, y); });
}
TYCHO_INLINE I64 remainder(I64 a, I64 b) {
  return rest_of_integers<1>(a, b, [](int64_t x, int64_t y) { return remainder1(x, y); });
}

// ---- powers and divisors

// Integer power; a negative exponent gives 0 except for bases 1 and -1.
TYCHO_INLINE I64 pow(I64 a, I64 n) {
  I64 r = 1, b = a, left = select(n < 0, n & 1, n);
  while (any(truth(left))) {
    r = select(truth(left & 1), r * b, r);
    b = b * b;
    left = from_bits<int64_t>(bits_of(left) >> 1);
  }
  return select((n < 0) & (a != 1) & (a != -1), 0, r);
}
TYCHO_FUNCTION int64_t gcd1(int64_t a, int64_t b) {
  uint64_t x = a < 0 ? -static_cast<uint64_t>(a) : static_cast<uint64_t>(a);
  uint64_t y = b < 0 ? -static_cast<uint64_t>(b) : static_cast<uint64_t>(b);
  while (y) {
    uint64_t r = x % y;
    x = y;
    y = r;
  }
  return static_cast<int64_t>(x);
}
TYCHO_FUNCTION int64_t lcm1(int64_t a, int64_t b) {
  uint64_t g = static_cast<uint64_t>(gcd1(a, b));
  if (g == 0) return 0;
  uint64_t x = a < 0 ? -static_cast<uint64_t>(a) : static_cast<uint64_t>(a);
  uint64_t r = x / g * static_cast<uint64_t>(b);
  return static_cast<int64_t>(static_cast<int64_t>(r) < 0 ? -r : r);
}
// Euclid's steps side by side.
TYCHO_INLINE I64 gcd_of_doubles(I64 a, I64 b) {
  F64 x = abs_float(to_double(a)), y = abs_float(to_double(b));
  for (Mask<double> more = y != 0; any(more); more = y != 0) {
    const F64 rest = select(more, x - rounded<1>(x / y) * y, 0);
    x = select(more, y, x);
    y = rest;
  }
  return to_integer(x);
}
TYCHO_INLINE I64 gcd(I64 a, I64 b) {
  if (I64::size == 1 || beyond_doubles(a, b))
    return each(a, b, [](int64_t x, int64_t y) { return gcd1(x, y); });
  return gcd_of_doubles(a, b);
}
TYCHO_INLINE I64 lcm(I64 a, I64 b) {
  if (I64::size == 1 || beyond_doubles(a, b))
    return each(a, b, [](int64_t x, int64_t y) { return lcm1(x, y); });
  return abs(trunc_divide(abs(a), gcd_of_doubles(a, b)) * abs(b));
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
