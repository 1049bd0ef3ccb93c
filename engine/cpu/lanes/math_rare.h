// The gamma functions, in double precision. Positive arguments go through
// lanes; what is rare is computed element by element, where it can by the C library.
#pragma once
#include "engine/cpu/lanes/math_exp.h"

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
// B(2k) / (2k)!
constexpr double kZetaTerms[] = {1. / 12,
                                 -1. / 720,
                                 1. / 30240,
                                 -1. / 1209600,
                                 1. / 47900160,
                                 -691. / 1307674368000,
                                 1. / 74724249600,
                                 -3617. / 10670622842880000,
                                 43867. / 5109094217170944000};
// Hurwitz's zeta, the sum of (q + k)^-s over k >= 0, for s > 1 and q > 0: the first terms one by
// one, the rest by Euler and Maclaurin's formula.
TYCHO_FUNCTION double zeta1(double s, double q) {
  if (q == infinity<double>) return 0;
  double sum = 0, a = q;
  for (; a < 12 + s / 2; a += 1) {
    double term = TYCHO_C(pow)(a, -s);
    sum += term;
    if (!(term > 1e-17 * sum)) return sum;  // nan ends here, too
  }
  double power = TYCHO_C(pow)(a, -s), t = power * s / a;
  sum += power * a / (s - 1) + power / 2;
  for (int k = 0; k < 9; k++) {
    sum += kZetaTerms[k] * t;
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

// f of positive numbers, in lanes of double; g, of one element, for the others.
template <class F, class G>
TYCHO_INLINE F64 positive_or(F64 x, F f, G g) {
  const F64 y = f(select(x > 0, x, 1));  // never endless
  return any(~(x > 0)) ? select(x > 0, y, each(x, g)) : y;
}
template <class F, class G>
TYCHO_INLINE F32 positive_or(F32 x, F f, G g) {
  const Halves h = halves(select(x > 0, x, 1));  // never endless
  F32 y;
  if constexpr (F32::size == 1)
    y = join(f(h.low), h.high);
  else
    y = join(f(h.low), f(h.high));
  if (any(~(x > 0)))
    y = select(x > 0, y, each(x, [g](float a) { return static_cast<float>(g(a)); }));
  return y;
}

// Between 0.75 and 3.5 by (x - 1) (x - 2) times a polynomial, since lgamma crosses zero at 1 and 2; below
// it from one further up, beyond it by Stirling's series: good to 2^-30 of the result, which is
// enough for floats.
TYCHO_FUNCTION F64 lgamma_positive(F64 x) {
  const Mask<double> low = x<0.75, far = x> 3.5;
  const F64 logarithm = log(x), a = select(low, x + 1, select(far, 2.5, x));
  F64 y = (select(low, x, a - 1) * (a - 2)) *
          poly(a - 2.125, 0.41073672199355643, -0.09261992732962931, 0.02875148833228178,
               -0.010181603897847051, 0.0038706564158581536, -0.0015378295823985915,
               0.0006287068419680785, -0.0002589641846466257, 0.00010961093765697663,
               -5.471785109957501e-05, 2.3815083649194862e-05, 3.827657211128232e-08,
               -1.534821305233563e-07, -8.399921549291747e-06, 3.7896529821604516e-06,
               2.4085343418389517e-06, -1.0941881687182176e-06, -5.923423943636872e-07,
               2.679214824095872e-07);
  y = select(low, y - logarithm, y + 0);  // of 1 it is 0, not -0
  if (!any(far)) return y;
  const F64 inverse = 1 / x, z = inverse * inverse;
  const F64 series = poly(z, 1. / 12, -1. / 360, 1. / 1260, -1. / 1680, 1. / 1188, -691. / 360360);
  const F64 beyond = fma(x - 0.5, logarithm, 0.91893853320467274178 - x) + inverse * series;
  return select(far, select(x < infinity<double>, beyond, x), y);
}
// a^s of a whole s > 0
TYCHO_INLINE F64 whole_power(F64 a, int64_t s) {
  F64 r = 1;
  for (;; a *= a) {
    if (s & 1) r *= a;
    if ((s >>= 1) == 0) return r;
  }
}
struct Climbed {
  F64 sum, at;
};
// The sum of (x + k)^-s over the k >= 0 with x + k below a limit, and the first that is not below.
// But for the first term, which may be any number, it is one fraction while its parts are finite:
// a division for all.
TYCHO_FUNCTION Climbed climb(F64 x, int64_t s, double limit) {
  constexpr int64_t kOneFraction = 12;  // (18!)^12 is finite
  Mask<double> m = x < limit;
  F64 sum = select(m, 1 / whole_power(x, s), 0), a = select(m, x + 1, x), over = 0, under = 1;
  for (m = a < limit; any(m); m = a < limit) {
    const F64 p = whole_power(a, s);
    if (s <= kOneFraction) {
      over = select(m, fma(over, p, under), over);
      under = select(m, under * p, under);
    } else {
      sum = select(m, sum + 1 / p, sum);
    }
    a = select(m, a + 1, a);
  }
  return {sum + over / under, a};
}
// Good to the last bits of T.
template <class T>
TYCHO_FUNCTION F64 digamma_positive(F64 x) {
  const auto [shift, a] = climb(x, 1, sizeof(T) == 4 ? 6 : 10);
  const F64 inverse = 1 / a, z = inverse * inverse;
  const F64 series =
      poly(z, 1. / 12, -1. / 120, 1. / 252, -1. / 240, 1. / 132, -691. / 32760, 1. / 12);
  return fma(-z, series, fma(inverse, F64(-0.5), log(a) - shift));
}
// As zeta1, for a whole s, to 3e-16; of floats to 1e-10.
template <class T>
TYCHO_FUNCTION F64 zeta_positive(int64_t s, F64 q) {
  const double d = static_cast<double>(s);
  const auto [sum, a] = climb(q, s, sizeof(T) == 4 ? 4 + d / 2 : 7 + d);
  const F64 inverse = 1 / a, power = 1 / whole_power(a, s), z = inverse * inverse;
  F64 t = power * inverse * d, rest = fma(power, F64(0.5), power * a / (d - 1));
  for (int k = 0; k < 9; k++) {
    rest = fma(t, F64(kZetaTerms[k]), rest);
    t *= z * ((d + 2 * k + 1) * (d + 2 * k + 2));
  }
  return select(q < infinity<double>, sum + rest, 0);
}
// The second derivative of lgamma, to the last bits of T: below a limit of so many steps, one fraction
// of the terms that they pass, which are added in pairs of one from either end; then the asymptotic series.
template <class T>
TYCHO_FUNCTION F64 trigamma_positive(F64 x) {
  constexpr int kPairs = sizeof(T) == 4 ? 2 : 4, kSteps = 2 * kPairs + 1;
  const Mask<double> low = x < kSteps;
  const F64 first = select(low, x, 1), a = select(low, x + kSteps, x);
  F64 over = 0, under = 1;
  for (int k = 1; k <= kPairs; k++) {
    const F64 p = first + k, q = first + (kSteps - k), both = p * q, square = both * both;
    over = fma(over, square, fma(p, p, q * q) * under);
    under *= square;
  }
  const F64 square = first * first;
  over = select(low, fma(over, square, under) / (under * square), 0);
  const F64 inverse = 1 / a, z = inverse * inverse;
  F64 series;
  if constexpr (sizeof(T) == 4)
    series = poly(z, 1. / 6, -1. / 30, 1. / 42, -1. / 30, 5. / 66);
  else
    series = poly(z, 1. / 6, -1. / 30, 1. / 42, -1. / 30, 5. / 66, -691. / 2730, 7. / 6,
                  -3617. / 510, 43867. / 798);
  return over + fma(z, fma(inverse, series, F64(0.5)), inverse);
}
TYCHO_INLINE F32 lgamma(F32 x) {
  return positive_or(
      x, [](F64 a) { return lgamma_positive(a); }, lgamma1);
}
TYCHO_INLINE F64 lgamma(F64 x) {
  return each(x, [](double a) { return lgamma1(a); });
}
template <class T>
TYCHO_INLINE Lane<T> digamma(Lane<T> x) {
  return positive_or(
      x, [](F64 a) { return digamma_positive<T>(a); }, digamma1);
}
template <class T>
TYCHO_INLINE Lane<T> trigamma(Lane<T> x) {
  return positive_or(
      x, [](F64 a) { return trigamma_positive<T>(a); }, [](double a) { return polygamma1(1, a); });
}
template <class T>
TYCHO_INLINE Lane<T> polygamma(int64_t n, Lane<T> x) {
  if (n == 0) return digamma(x);
  if (n == 1) return trigamma(x);
  // n! is infinite; one by one, sums end with the first term that adds nothing.
  if (n > 170) return each(x, [n](double a) { return polygamma1(n, a); });
  double f = n % 2 ? 1 : -1;
  for (int64_t k = 2; k <= n && k <= 20; k++) f *= static_cast<double>(k);  // exact
  if (n > 20) f *= TYCHO_C(tgamma)(static_cast<double>(n + 1)) / 2432902008176640000.;
  return positive_or(
      x, [&](F64 a) { return zeta_positive<T>(n + 1, a) * f; },
      [n](double a) { return polygamma1(n, a); });
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
