// Functions that are used rarely and computed element by element in double precision, mostly by the
// C library: the gamma functions and the Bessel function i0.
#pragma once
#include "engine/cpu/lanes/math_basic.h"

#if !defined(__CUDACC__)
extern "C" double lgamma_r(double, int*) noexcept;
#endif

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

TYCHO_INLINE double lgamma1(double x) {
#if defined(__CUDACC__)
  return ::lgamma(x);
#else
  int sign;  // lgamma would write it to a variable of the process
  return ::lgamma_r(x, &sign);
#endif
}
// By reflection to x > 0, recurrence to x >= 10, and the asymptotic series there.
TYCHO_FUNCTION double digamma1(double x) {
  if (x == 0) return TYCHO_C(copysign)(infinity<double>, -x);
  double shift = 0;
  if (x < 0) {
    if (x == TYCHO_C(trunc)(x)) return not_a_number<double>;
    double r = x - TYCHO_C(trunc)(x);
    shift = -3.14159265358979323846 / TYCHO_C(tan)(3.14159265358979323846 * r);
    x = 1 - x;
  }
  while (x < 10) shift -= 1 / x, x += 1;
  double z = 1 / (x * x);
  double p =
      z *
      (1. / 12 -
       z * (1. / 120 -
            z * (1. / 252 - z * (1. / 240 - z * (1. / 132 - z * (691. / 32760 - z * (1. / 12)))))));
  return shift + TYCHO_C(log)(x) - 0.5 / x - p;
}
// Hurwitz's zeta, the sum of (q + k)^-s over k >= 0, for s > 1 and q > 0: the first terms one by
// one, the rest by Euler and Maclaurin's formula.
TYCHO_FUNCTION double zeta1(double s, double q) {
  // B(2k) / (2k)!
  constexpr double b[] = {1. / 12,
                          -1. / 720,
                          1. / 30240,
                          -1. / 1209600,
                          1. / 47900160,
                          -691. / 1307674368000,
                          1. / 74724249600,
                          -3617. / 10670622842880000,
                          43867. / 5109094217170944000};
  if (q == infinity<double>) return 0;
  double sum = 0, a = q;
  for (; a < 12 + s / 2; a += 1) {
    double term = TYCHO_C(pow)(a, -s);
    sum += term;
    if (term <= 1e-17 * sum) return sum;
  }
  double power = TYCHO_C(pow)(a, -s), t = power * s / a;
  sum += power * a / (s - 1) + power / 2;
  for (int k = 0; k < 9; k++) {
    sum += b[k] * t;
    t *= (s + 2 * k + 1) * (s + 2 * k + 2) / (a * a);
  }
  return sum;
}
// The n-th derivative of digamma: (-1)^(n+1) n! zeta(n + 1, x). Left of 0 the terms on both sides
// of the nearest pole are sums over positive numbers again.
TYCHO_FUNCTION double polygamma1(int64_t n, double x) {
  if (n == 0) return digamma1(x);
  double s = static_cast<double>(n + 1), z;
  if (x > 0) {
    z = zeta1(s, x);
  } else if (x == TYCHO_C(floor)(x) && x - x == 0) {
    z = infinity<double>;
  } else if (x < 0) {
    // Written so that terms which cancel do so exactly.
    double r = x - TYCHO_C(floor)(x), near = zeta1(s, 1 - r), far = zeta1(s, 1 - x);
    z = n % 2 ? zeta1(s, r) + (near - far) : (zeta1(s, r) - near) + far;
  } else {
    return x;
  }
  double f = TYCHO_C(tgamma)(s) * z;
  return n % 2 ? f : -f;
}
// The power series up to 30, the asymptotic one beyond.
TYCHO_FUNCTION double i01(double x) {
  x = TYCHO_C(fabs)(x);
  if (x == infinity<double>) return x;
  if (x > 30) {
    double s = 1, t = 1;
    for (int k = 1; k < 30; k++) {
      t *= (2. * k - 1) * (2. * k - 1) / (8. * k * x);
      s += t;
      if (t < 1e-17 * s) break;
    }
    double h = TYCHO_C(exp)(x / 2);
    return h / TYCHO_C(sqrt)(2 * 3.14159265358979323846 * x) * s * h;
  }
  double s = 1, t = 1, q = x * x / 4;
  for (int k = 1; k < 200 && t > 1e-17 * s; k++) s += t *= q / (k * static_cast<double>(k));
  return s;
}
#define TYCHO_DOUBLE1(name, fn)                                        \
  TYCHO_INLINE F32 name(F32 x) {                                       \
    return each(x, [](float a) { return static_cast<float>(fn(a)); }); \
  }                                                                    \
  TYCHO_INLINE F64 name(F64 x) {                                       \
    return each(x, [](double a) { return fn(a); });                    \
  }
TYCHO_DOUBLE1(lgamma, lgamma1)
TYCHO_DOUBLE1(digamma, digamma1)
TYCHO_DOUBLE1(i0, i01)
#undef TYCHO_DOUBLE1
TYCHO_INLINE F32 polygamma(int64_t n, F32 x) {
  return each(x, [n](float a) { return static_cast<float>(polygamma1(n, a)); });
}
TYCHO_INLINE F64 polygamma(int64_t n, F64 x) {
  return each(x, [n](double a) { return polygamma1(n, a); });
}
TYCHO_INLINE F32 trigamma(F32 x) { return polygamma(1, x); }
TYCHO_INLINE F64 trigamma(F64 x) { return polygamma(1, x); }

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
