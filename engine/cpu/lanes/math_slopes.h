// How numbers that were drawn follow the parameters they were drawn with: for a distribution function
// F(x; a) with density f, dx/da = -(dF/da) / f (Figurnov, Mohamed and Mnih, "Implicit
// reparameterization gradients", 2018). F is summed as a series of positive terms, or as a continued
// fraction where that is shorter, and its derivative beside it; the powers and gamma functions in
// front cancel against f.
#pragma once
#include "engine/cpu/lanes/math_rare.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

constexpr int kSlopeTerms = 100000;

// Of x drawn from a gamma distribution of shape a and rate 1.
TYCHO_FUNCTION double gamma_slope1(double a, double x) {
  if (!(a > 0) || !(x >= 0) || a == infinity<double> || x == infinity<double>)
    return not_a_number<double>;
  if (x == 0) return 0;
  const double root = TYCHO_C(sqrt)(a), w = (x - a) / root;
  if (a > 1e5 && w < 20 && w > -20) {
    // Cornish and Fisher's expansion: x = a + z sqrt(a) + (z^2 - 1) / 3 + (z^3 - 7z) / (36 sqrt(a)).
    double z = w;
    for (int i = 0; i < 8; ++i) z = w - (z * z - 1) / (3 * root) - z * (z * z - 7) / (36 * a);
    return 1 + z / (2 * root) - z * (z * z - 7) / (72 * a * root);
  }
  if (x < a + 1) {
    double term = 1, harmonic = 0, sum = 1, slope = 0;
    for (int k = 1; k < kSlopeTerms; ++k) {
      term *= x / (a + k);
      harmonic += 1 / (a + k);
      sum += term;
      slope -= term * harmonic;
      if (!(term * (1 + harmonic) > 1e-17 * sum)) break;
    }
    return -(x / a) * (sum * (TYCHO_C(log)(x) - digamma1(a + 1)) + slope);
  }
  // 1 / (b0 + a1 / (b1 + a2 / (b2 + ..))) with b = x + 2n + 1 - a, a = -n (n - a).
  double p0 = 1, p = x + 1 - a, q0 = 0, q = 1, dp0 = 0, dp = -1, dq0 = 0, dq = 0;
  double f = q / p, df = -f * dp / p;
  for (int n = 1; n < kSlopeTerms; ++n) {
    const double b = x + 2. * n + 1 - a, c = -n * (n - a), dc = n;
    const double p1 = b * p + c * p0, q1 = b * q + c * q0;
    const double dp1 = b * dp - p + dc * p0 + c * dp0, dq1 = b * dq - q + dc * q0 + c * dq0;
    const double scale = 1 / p1;
    p0 = p * scale, q0 = q * scale, dp0 = dp * scale, dq0 = dq * scale;
    p = 1, q = q1 * scale, dp = dp1 * scale, dq = dq1 * scale;
    const double g = q, dg = dq - q * dp;
    // nan ends here, too
    const bool moves = TYCHO_C(fabs)(g - f) > 1e-16 * TYCHO_C(fabs)(g) ||
                       TYCHO_C(fabs)(dg - df) > 1e-15 * TYCHO_C(fabs)(dg);
    f = g, df = dg;
    if (!moves) break;
  }
  return x * (f * (TYCHO_C(log)(x) - digamma1(a)) + df);
}

// Of x drawn from a beta distribution of a and total - a, divided by 1 - x: what a Dirichlet
// distribution's gradient is made of. 0 where there is one category.
TYCHO_FUNCTION double dirichlet_slope1(double x, double a, double total) {
  const double b = total - a, y = 1 - x;
  if (!(a > 0) || !(x >= 0) || !(y >= 0) || !(total >= a) || total == infinity<double>)
    return not_a_number<double>;
  if (x == 0 || b == 0) return 0;
  const bool below = x * (total + 2) < a + 1 && (x < 0.5 || y * total > 0.5 * (b + 1));
  double term = 1, harmonic = 0, sum = 1, slope = 0;
  for (int k = 0; k < kSlopeTerms; ++k) {
    term *= below ? (total + k) / (a + 1 + k) * x : (total + k) / (b + 1 + k) * y;
    harmonic += below ? 1 / (total + k) - 1 / (a + 1 + k) : 1 / (total + k);
    sum += term;
    slope += term * harmonic;
    if (!(term * (1 + TYCHO_C(fabs)(harmonic)) > 1e-17 * sum)) break;
  }
  const double lead = TYCHO_C(log)(x) + digamma1(total);
  return below ? -(x / a) * (sum * (lead - digamma1(a + 1)) + slope)
               : x / b * (sum * (lead - digamma1(a)) + slope);
}

template <class T>
TYCHO_INLINE Lane<T> gamma_slope(Lane<T> a, Lane<T> x) {
  return each(a, x, [](T u, T v) { return static_cast<T>(gamma_slope1(u, v)); });
}
template <class T>
TYCHO_INLINE Lane<T> dirichlet_slope(Lane<T> x, Lane<T> a, Lane<T> total) {
  T u[Lane<T>::size], v[Lane<T>::size], w[Lane<T>::size];
  x.store(static_cast<T*>(u)), a.store(static_cast<T*>(v)), total.store(static_cast<T*>(w));
  for (int i = 0; i < Lane<T>::size; ++i) u[i] = static_cast<T>(dirichlet_slope1(u[i], v[i], w[i]));
  return Lane<T>::load(static_cast<const T*>(u));
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
