// Functions on int64 lanes. Nothing here traps: results wrap.
#pragma once
#include "engine/cpu/level/vec.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

TYCHO_INLINE I64 neg(I64 x) { return -x; }
TYCHO_INLINE I64 square(I64 x) { return x * x; }
TYCHO_INLINE I64 abs(I64 x) { return select(x < 0, -x, x); }
TYCHO_INLINE I64 sign(I64 x) { return number(x > 0) - number(x < 0); }
TYCHO_INLINE I64 maximum(I64 a, I64 b) { return select(a > b, a, b); }
TYCHO_INLINE I64 minimum(I64 a, I64 b) { return select(a < b, a, b); }
// Integer power; a negative exponent gives 0 except for bases 1 and -1.
inline int64_t pow1(int64_t a, int64_t n) {
  if (n < 0) return a == 1 ? 1 : a == -1 ? (n % 2 ? -1 : 1) : 0;
  uint64_t r = 1, b = static_cast<uint64_t>(a);
  for (; n; n >>= 1, b *= b) {
    if (n & 1) r *= b;
  }
  return static_cast<int64_t>(r);
}
inline int64_t gcd1(int64_t a, int64_t b) {
  uint64_t x = a < 0 ? -static_cast<uint64_t>(a) : static_cast<uint64_t>(a);
  uint64_t y = b < 0 ? -static_cast<uint64_t>(b) : static_cast<uint64_t>(b);
  while (y) {
    uint64_t r = x % y;
    x = y;
    y = r;
  }
  return static_cast<int64_t>(x);
}
inline int64_t lcm1(int64_t a, int64_t b) {
  uint64_t g = static_cast<uint64_t>(gcd1(a, b));
  if (g == 0) return 0;
  uint64_t x = a < 0 ? -static_cast<uint64_t>(a) : static_cast<uint64_t>(a);
  uint64_t r = x / g * static_cast<uint64_t>(b);
  return static_cast<int64_t>(static_cast<int64_t>(r) < 0 ? -r : r);
}
TYCHO_INLINE I64 pow(I64 a, I64 b) {
  return each(a, b, [](int64_t x, int64_t y) { return pow1(x, y); });
}
TYCHO_INLINE I64 gcd(I64 a, I64 b) {
  return each(a, b, [](int64_t x, int64_t y) { return gcd1(x, y); });
}
TYCHO_INLINE I64 lcm(I64 a, I64 b) {
  return each(a, b, [](int64_t x, int64_t y) { return lcm1(x, y); });
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
