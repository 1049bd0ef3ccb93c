// Elementwise functions on lanes, with PyTorch's names and special values.
#pragma once
#include "engine/cpu/level/vec.h"

extern "C" double lgamma_r(double, int*) noexcept;

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

#define TYCHO_EACH1(name, fn)                                     \
  TYCHO_INLINE F32 name(F32 x) {                                  \
    return each(x, [](float a) { return __builtin_##fn##f(a); }); \
  }                                                               \
  TYCHO_INLINE F64 name(F64 x) {                                  \
    return each(x, [](double a) { return __builtin_##fn(a); });   \
  }
#define TYCHO_EACH2(name, fn)                                                    \
  TYCHO_INLINE F32 name(F32 x, F32 y) {                                          \
    return each(x, y, [](float a, float b) { return __builtin_##fn##f(a, b); }); \
  }                                                                              \
  TYCHO_INLINE F64 name(F64 x, F64 y) {                                          \
    return each(x, y, [](double a, double b) { return __builtin_##fn(a, b); });  \
  }
TYCHO_EACH1(floor, floor)
TYCHO_EACH1(ceil, ceil)
TYCHO_EACH1(trunc, trunc)
TYCHO_EACH1(sqrt, sqrt)
TYCHO_EACH1(exp, exp)
TYCHO_EACH1(exp2, exp2)
TYCHO_EACH1(expm1, expm1)
TYCHO_EACH1(log, log)
TYCHO_EACH1(log2, log2)
TYCHO_EACH1(log10, log10)
TYCHO_EACH1(log1p, log1p)
TYCHO_EACH1(sin, sin)
TYCHO_EACH1(cos, cos)
TYCHO_EACH1(tan, tan)
TYCHO_EACH1(asin, asin)
TYCHO_EACH1(acos, acos)
TYCHO_EACH1(atan, atan)
TYCHO_EACH1(sinh, sinh)
TYCHO_EACH1(cosh, cosh)
TYCHO_EACH1(tanh, tanh)
TYCHO_EACH1(asinh, asinh)
TYCHO_EACH1(acosh, acosh)
TYCHO_EACH1(atanh, atanh)
TYCHO_EACH1(erf, erf)
TYCHO_EACH1(erfc, erfc)
TYCHO_EACH1(abs, fabs)
TYCHO_EACH1(round, rint)
TYCHO_EACH2(pow, pow)
TYCHO_EACH2(atan2, atan2)
TYCHO_EACH2(copysign, copysign)
TYCHO_EACH2(hypot, hypot)
TYCHO_EACH2(nextafter, nextafter)
TYCHO_EACH2(fmax, fmax)
TYCHO_EACH2(fmin, fmin)
TYCHO_EACH2(fmod, fmod)
#undef TYCHO_EACH1
#undef TYCHO_EACH2

TYCHO_INLINE F32 neg(F32 x) { return -x; }
TYCHO_INLINE F32 square(F32 x) { return x * x; }
TYCHO_INLINE F64 neg(F64 x) { return -x; }
TYCHO_INLINE F64 square(F64 x) { return x * x; }
TYCHO_INLINE I64 neg(I64 x) { return -x; }
TYCHO_INLINE I64 square(I64 x) { return x * x; }

TYCHO_INLINE Mask<float> isnan(F32 x) { return x != x; }
TYCHO_INLINE Mask<float> isinf(F32 x) { return abs(x) == __builtin_inf(); }
TYCHO_INLINE Mask<float> isfinite(F32 x) { return abs(x) < __builtin_inf(); }
TYCHO_INLINE Mask<float> isposinf(F32 x) { return x == __builtin_inf(); }
TYCHO_INLINE Mask<float> isneginf(F32 x) { return x == -__builtin_inf(); }
TYCHO_INLINE Mask<float> signbit(F32 x) {
  Mask<float> m;
  m = copysign(F32(1), x) < 0;
  return m;
}
TYCHO_INLINE F32 sign(F32 x) { return select(x > 0, 1, select(x < 0, -1, x)); }
TYCHO_INLINE F32 frac(F32 x) { return x - trunc(x); }
TYCHO_INLINE F32 reciprocal(F32 x) { return 1 / x; }
TYCHO_INLINE F32 rsqrt(F32 x) { return 1 / sqrt(x); }
TYCHO_INLINE F32 maximum(F32 a, F32 b) { return select((a >= b) | isnan(a), a, b); }
TYCHO_INLINE F32 minimum(F32 a, F32 b) { return select((a <= b) | isnan(a), a, b); }
TYCHO_INLINE F32 sigmoid(F32 x) { return 1 / (1 + exp(-x)); }
TYCHO_INLINE F32 log_sigmoid(F32 x) { return minimum(x, 0) - log1p(exp(-abs(x))); }
TYCHO_INLINE F32 logit(F32 x) { return log(x / (1 - x)); }
TYCHO_INLINE F32 xlogy(F32 x, F32 y) { return select(isnan(y), y, select(x == 0, 0, x * log(y))); }
TYCHO_INLINE F32 heaviside(F32 x, F32 at0) {
  return select(x == 0, at0, select(isnan(x), x, number(x > 0)));
}
TYCHO_INLINE F32 ldexp(F32 x, F32 e) { return x * exp2(e); }
TYCHO_INLINE F32 logaddexp(F32 a, F32 b) {
  return select(isinf(a) & (a == b), a, maximum(a, b) + log1p(exp(-abs(a - b))));
}
TYCHO_INLINE F32 logaddexp2(F32 a, F32 b) {
  return select(isinf(a) & (a == b), a,
                maximum(a, b) + log1p(exp2(-abs(a - b))) * 1.4426950408889634074);
}
TYCHO_INLINE F32 sinc(F32 x) {
  F32 p = x * 3.14159265358979323846;
  return select(x == 0, 1, sin(p) / p);
}
TYCHO_INLINE F32 remainder(F32 a, F32 b) {
  F32 r = fmod(a, b);
  return select((r != 0) & ((r < 0) ^ (b < 0)), r + b, r);
}
TYCHO_INLINE F32 floor_divide(F32 a, F32 b) {
  F32 m = fmod(a, b);
  F32 d = (a - m) / b;
  d = select((m != 0) & ((b < 0) ^ (m < 0)), d - 1, d);
  F32 f = floor(d);
  f = select(d - f > 0.5, f + 1, f);
  f = select(d == 0, copysign(F32(0), a / b), f);
  return select(b == 0, a / b, f);
}

TYCHO_INLINE Mask<double> isnan(F64 x) { return x != x; }
TYCHO_INLINE Mask<double> isinf(F64 x) { return abs(x) == __builtin_inf(); }
TYCHO_INLINE Mask<double> isfinite(F64 x) { return abs(x) < __builtin_inf(); }
TYCHO_INLINE Mask<double> isposinf(F64 x) { return x == __builtin_inf(); }
TYCHO_INLINE Mask<double> isneginf(F64 x) { return x == -__builtin_inf(); }
TYCHO_INLINE Mask<double> signbit(F64 x) {
  Mask<double> m;
  m = copysign(F64(1), x) < 0;
  return m;
}
TYCHO_INLINE F64 sign(F64 x) { return select(x > 0, 1, select(x < 0, -1, x)); }
TYCHO_INLINE F64 frac(F64 x) { return x - trunc(x); }
TYCHO_INLINE F64 reciprocal(F64 x) { return 1 / x; }
TYCHO_INLINE F64 rsqrt(F64 x) { return 1 / sqrt(x); }
TYCHO_INLINE F64 maximum(F64 a, F64 b) { return select((a >= b) | isnan(a), a, b); }
TYCHO_INLINE F64 minimum(F64 a, F64 b) { return select((a <= b) | isnan(a), a, b); }
TYCHO_INLINE F64 sigmoid(F64 x) { return 1 / (1 + exp(-x)); }
TYCHO_INLINE F64 log_sigmoid(F64 x) { return minimum(x, 0) - log1p(exp(-abs(x))); }
TYCHO_INLINE F64 logit(F64 x) { return log(x / (1 - x)); }
TYCHO_INLINE F64 xlogy(F64 x, F64 y) { return select(isnan(y), y, select(x == 0, 0, x * log(y))); }
TYCHO_INLINE F64 heaviside(F64 x, F64 at0) {
  return select(x == 0, at0, select(isnan(x), x, number(x > 0)));
}
TYCHO_INLINE F64 ldexp(F64 x, F64 e) { return x * exp2(e); }
TYCHO_INLINE F64 logaddexp(F64 a, F64 b) {
  return select(isinf(a) & (a == b), a, maximum(a, b) + log1p(exp(-abs(a - b))));
}
TYCHO_INLINE F64 logaddexp2(F64 a, F64 b) {
  return select(isinf(a) & (a == b), a,
                maximum(a, b) + log1p(exp2(-abs(a - b))) * 1.4426950408889634074);
}
TYCHO_INLINE F64 sinc(F64 x) {
  F64 p = x * 3.14159265358979323846;
  return select(x == 0, 1, sin(p) / p);
}
TYCHO_INLINE F64 remainder(F64 a, F64 b) {
  F64 r = fmod(a, b);
  return select((r != 0) & ((r < 0) ^ (b < 0)), r + b, r);
}
TYCHO_INLINE F64 floor_divide(F64 a, F64 b) {
  F64 m = fmod(a, b);
  F64 d = (a - m) / b;
  d = select((m != 0) & ((b < 0) ^ (m < 0)), d - 1, d);
  F64 f = floor(d);
  f = select(d - f > 0.5, f + 1, f);
  f = select(d == 0, copysign(F64(0), a / b), f);
  return select(b == 0, a / b, f);
}

TYCHO_INLINE double lgamma1(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}
TYCHO_INLINE double digamma1(double x) {
  if (x == 0) return __builtin_copysign(__builtin_inf(), -x);
  double shift = 0;
  if (x < 0) {
    if (x == __builtin_trunc(x)) return __builtin_nan("");
    double r = x - __builtin_trunc(x);
    shift = -3.14159265358979323846 / __builtin_tan(3.14159265358979323846 * r);
    x = 1 - x;
  }
  while (x < 10) shift -= 1 / x, x += 1;
  double z = 1 / (x * x);
  double p =
      z *
      (1. / 12 -
       z * (1. / 120 -
            z * (1. / 252 - z * (1. / 240 - z * (1. / 132 - z * (691. / 32760 - z * (1. / 12)))))));
  return shift + __builtin_log(x) - 0.5 / x - p;
}
// Hurwitz zeta by Euler-Maclaurin, for x > 1.
inline double zeta1(double x, double q) {
  if (q <= 0) {
    if (q == __builtin_floor(q)) return __builtin_inf();
    if (x != __builtin_floor(x)) return __builtin_nan("");
  }
  constexpr double c[] = {12,
                          -720,
                          30240,
                          -1209600,
                          47900160,
                          -1307674368000. * 1000 / 691,
                          7.47242496e10,
                          -2.950130727918164224e12,
                          1.1646782814350067249e14};
  double s = __builtin_pow(q, -x), a = q, b = 0;
  for (int i = 0; i < 9 || a <= 9; i++) {
    a += 1;
    b = __builtin_pow(a, -x);
    s += b;
    if (__builtin_fabs(b) < 1.1e-16 * __builtin_fabs(s)) return s;
  }
  s += b * a / (x - 1) - 0.5 * b;
  double f = 1, k = 0;
  for (double d : c) {
    f *= x + k;
    b /= a;
    double t = f * b / d;
    s += t;
    if (__builtin_fabs(t) < 1.1e-16 * __builtin_fabs(s)) break;
    k += 1;
    f *= x + k;
    b /= a;
    k += 1;
  }
  return s;
}
TYCHO_INLINE double polygamma1(int64_t n, double x) {
  if (n == 0) return digamma1(x);
  double f = __builtin_tgamma(static_cast<double>(n + 1)) * zeta1(static_cast<double>(n + 1), x);
  return n % 2 ? f : -f;
}
inline double erfinv1(double y) {
  if (!(__builtin_fabs(y) <= 1)) return __builtin_nan("");
  if (__builtin_fabs(y) == 1) return __builtin_copysign(__builtin_inf(), y);
  double w = -__builtin_log((1 - y) * (1 + y)), a = 0.147,
         t = 2 / (3.14159265358979323846 * a) - w / 2;
  double x = __builtin_copysign(__builtin_sqrt(__builtin_sqrt(t * t + w / a) - t), y);
  for (int i = 0; i < 4; i++) {
    double e = y > 0.5    ? (1 - y) - __builtin_erfc(x)
               : y < -0.5 ? __builtin_erfc(-x) - (1 + y)
                          : __builtin_erf(x) - y;
    if (y > 0.5) e = -((__builtin_erfc(x)) - (1 - y));
    double d = e / (1.12837916709551257390 * __builtin_exp(-x * x));
    x -= d / (1 + x * d);
  }
  return x;
}
inline double i01(double x) {
  x = __builtin_fabs(x);
  if (x > 30) {
    double s = 1, t = 1;
    for (int k = 1; k < 30; k++) {
      t *= (2. * k - 1) * (2. * k - 1) / (8. * k * x);
      s += t;
      if (t < 1e-17 * s) break;
    }
    double h = __builtin_exp(x / 2);
    return h / __builtin_sqrt(2 * 3.14159265358979323846 * x) * s * h;
  }
  double s = 1, t = 1, q = x * x / 4;
  for (int k = 1; k < 200 && t > 1e-17 * s; k++) s += t *= q / (k * (double)k);
  return s;
}
#define TYCHO_DOUBLE1(name, fn)                           \
  TYCHO_INLINE F32 name(F32 x) {                          \
    return each(x, [](float a) { return (float)fn(a); }); \
  }                                                       \
  TYCHO_INLINE F64 name(F64 x) {                          \
    return each(x, [](double a) { return fn(a); });       \
  }
TYCHO_DOUBLE1(lgamma, lgamma1)
TYCHO_DOUBLE1(digamma, digamma1)
TYCHO_DOUBLE1(erfinv, erfinv1)
TYCHO_DOUBLE1(i0, i01)
#undef TYCHO_DOUBLE1
TYCHO_INLINE F32 polygamma(int64_t n, F32 x) {
  return each(x, [n](float a) { return (float)polygamma1(n, a); });
}
TYCHO_INLINE F64 polygamma(int64_t n, F64 x) {
  return each(x, [n](double a) { return polygamma1(n, a); });
}
TYCHO_INLINE F32 trigamma(F32 x) { return polygamma(1, x); }
TYCHO_INLINE F64 trigamma(F64 x) { return polygamma(1, x); }

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
