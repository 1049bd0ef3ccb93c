// Functions that are used rarely and computed element by element in double precision, mostly by the
// C library: gamma functions, erfinv, the Bessel function i0, atan2, hypot, nextafter.
#pragma once
#include "engine/cpu/level/math_exp.h"

extern "C" double lgamma_r(double, int*) noexcept;

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

TYCHO_INLINE F64 erf(F64 x) {
  return each(x, [](double a) { return __builtin_erf(a); });
}
TYCHO_INLINE F64 erfc(F64 x) {
  return each(x, [](double a) { return __builtin_erfc(a); });
}

// The inverse of erf on [0, 1), to 2^-28: polynomials in w = -log(1 - y^2) and in its root.
TYCHO_INLINE F64 erfinv_half(F64 y) {
  F64 w = -log((1 - y) * (1 + y)), s = square_root(w) - 4;
  F64 near = poly(w, 0.88622692744480658, 0.23201355618379865, 0.011550334895114547,
                  -0.0023385394781671050, -0.00012200385509796232, 4.0487656809714297e-5,
                  5.8352405308793937e-6, -2.4977741120804670e-6, 3.0977925851277831e-7,
                  -1.7159745511166292e-8, 3.3547944286099419e-10);
  F64 far = poly(s, 3.8397835778138196, 1.0094950088938177, 0.0012536903017057509,
                 -0.00085459078459652535, 0.00029501960709073661, -8.3290086381854629e-5,
                 2.1526696047618645e-5, -5.4516641482033563e-6, 6.2651333920582642e-7,
                 4.9682490666968456e-7, -2.5594752078789529e-7, 3.6099095132902869e-8);
  return select(w < 5, near * y, far);
}
template <class T>
TYCHO_INLINE Lane<T> erfinv_edges(Lane<T> x, Lane<T> y) {
  Lane<T> a = abs_float(y);
  x = select(a < 1, x, select(a == 1, infinity<T>, not_a_number<T>));
  return with_sign(x, y);
}
TYCHO_INLINE F32 erfinv(F32 y) {
  Halves a = halves(abs_float(y));
  return erfinv_edges(join(erfinv_half(a.low), erfinv_half(a.high)), y);
}
// One step of Halley's method makes 2^-28 exact.
TYCHO_INLINE F64 erfinv(F64 y) {
  F64 a = abs_float(y), x = erfinv_half(a);
  F64 error = each(x, a, [](double u, double v) {
    return v < 0.5 ? __builtin_erf(u) - v : (1 - v) - __builtin_erfc(u);
  });
  F64 d = error * 0.88622692545275801365 * exp(x * x);
  return erfinv_edges(x - d / fma(x, d, F64(1)), y);
}

TYCHO_INLINE double lgamma1(double x) {
  int sign;
  return ::lgamma_r(x, &sign);
}
// By reflection to x > 0, recurrence to x >= 10, and the asymptotic series there.
inline double digamma1(double x) {
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
// Hurwitz's zeta, the sum of (q + k)^-s over k >= 0, for s > 1 and q > 0: the first terms one by
// one, the rest by Euler and Maclaurin's formula.
inline double zeta1(double s, double q) {
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
  if (q == __builtin_inf()) return 0;
  double sum = 0, a = q;
  for (; a < 12 + s / 2; a += 1) {
    double term = __builtin_pow(a, -s);
    sum += term;
    if (term <= 1e-17 * sum) return sum;
  }
  double power = __builtin_pow(a, -s), t = power * s / a;
  sum += power * a / (s - 1) + power / 2;
  for (int k = 0; k < 9; k++) {
    sum += b[k] * t;
    t *= (s + 2 * k + 1) * (s + 2 * k + 2) / (a * a);
  }
  return sum;
}
// The n-th derivative of digamma: (-1)^(n+1) n! zeta(n + 1, x). Left of 0 the terms on both sides
// of the nearest pole are sums over positive numbers again.
inline double polygamma1(int64_t n, double x) {
  if (n == 0) return digamma1(x);
  double s = static_cast<double>(n + 1), z;
  if (x > 0) {
    z = zeta1(s, x);
  } else if (x == __builtin_floor(x)) {
    z = __builtin_inf();
  } else if (x < 0) {
    // Written so that terms which cancel do so exactly.
    double r = x - __builtin_floor(x), near = zeta1(s, 1 - r), far = zeta1(s, 1 - x);
    z = n % 2 ? zeta1(s, r) + (near - far) : (zeta1(s, r) - near) + far;
  } else {
    return x;
  }
  double f = __builtin_tgamma(s) * z;
  return n % 2 ? f : -f;
}
// The power series up to 30, the asymptotic one beyond.
inline double i01(double x) {
  x = __builtin_fabs(x);
  if (x == __builtin_inf()) return x;
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
