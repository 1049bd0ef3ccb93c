// Functions that are used rarely and computed element by element in double precision, mostly by the
// C library: gamma functions, erfinv, the Bessel function i0, atan2, hypot, nextafter.
#pragma once
#include "engine/cpu/level/math_basic.h"

extern "C" double lgamma_r(double, int*) noexcept;

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

#define TYCHO_EACH2(name, fn)                                                    \
  TYCHO_INLINE F32 name(F32 x, F32 y) {                                          \
    return each(x, y, [](float a, float b) { return __builtin_##fn##f(a, b); }); \
  }                                                                              \
  TYCHO_INLINE F64 name(F64 x, F64 y) {                                          \
    return each(x, y, [](double a, double b) { return __builtin_##fn(a, b); });  \
  }
TYCHO_EACH2(atan2, atan2)
TYCHO_EACH2(hypot, hypot)
TYCHO_EACH2(nextafter, nextafter)
#undef TYCHO_EACH2
TYCHO_INLINE F64 erf(F64 x) {
  return each(x, [](double a) { return __builtin_erf(a); });
}
TYCHO_INLINE F64 erfc(F64 x) {
  return each(x, [](double a) { return __builtin_erfc(a); });
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

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
