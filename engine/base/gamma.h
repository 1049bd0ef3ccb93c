// Gamma and binomial numbers, drawn from any source of numbers in [0, 1) with 53 bits. Plain C++,
// which a device's compiler takes as well.
#pragma once
#include <cmath>

namespace tycho {

// A normal number: a source that keeps the second of each pair gives its own. Others by the polar
// method, "A convenient method for generating normal variables", G. Marsaglia and T. A. Bray, 1964.
template <class Source>
constexpr double draw_normal(Source& source) {
  if constexpr (requires { source.next_normal(); }) {
    return source.next_normal();
  } else {
    for (;;) {
      const double x = 2 * source.next_double53() - 1, y = 2 * source.next_double53() - 1;
      const double square = x * x + y * y;
      if (square < 1 && square > 0) return x * std::sqrt(-2 * std::log(square) / square);
    }
  }
}

// Of shape alpha and rate 1, by "A simple method for generating gamma variables", G. Marsaglia and
// W. W. Tsang, 2000; shapes below 1 from the next one, times a power of a uniform number.
template <class Source>
constexpr double draw_gamma(Source& source, double alpha) {
  if (alpha == 0) return 0;
  double scale = 1;
  if (alpha < 1) {
    scale = std::pow(1 - source.next_double53(), 1 / alpha);
    alpha += 1;
  }
  const double d = alpha - 1. / 3, c = 1 / std::sqrt(9 * d);
  for (;;) {
    double x = 0, v = 0;
    do {
      x = draw_normal(source);
      v = 1 + c * x;
    } while (v <= 0);
    v = v * v * v;
    const double u = 1 - source.next_double53(), xx = x * x;
    if (u < 1 - 0.0331 * xx * xx || std::log(u) < 0.5 * xx + d * (1 - v + std::log(v)))
      return scale * d * v;
  }
}

// log(k!) less what the leading terms of Stirling's formula make of it.
template <class T>
constexpr T stirling_rest(T k) {
  if (k < 10) {
    double factorial = 1;
    for (int i = 2; i <= static_cast<int>(k); ++i) factorial *= i;
    return std::log(factorial) - (0.91893853320467274178 + (k + 0.5) * std::log(k + 1) - (k + 1));
  }
  const double n = k + 1, square = 1 / (n * n);
  return (1. / 12 - (1. / 360 - square / 1260) * square) / n;
}

// The successes of `count` trials with p up to 0.5. Expected ones below 10: the sum of the waits for
// each. From there on the algorithm BTRS of "The generation of binomial random variates",
// W. Hoermann, 1993.
template <class Source>
constexpr double draw_rare(Source& source, double count, double p) {
  if (count * p < 10) {
    const double log_failure = std::log1p(-p);
    double waited = 0, successes = 0;
    for (;; ++successes) {
      waited += std::ceil(std::log(source.next_double53()) / log_failure);
      if (!(waited <= count)) return successes;
    }
  }
  const double deviation = std::sqrt(count * p * (1 - p));
  const double b = 1.15 + 2.53 * deviation, a = -0.0873 + 0.0248 * b + 0.01 * p;
  const double c = count * p + 0.5, v_r = 0.92 - 4.2 / b, r = p / (1 - p);
  const double alpha = (2.83 + 5.1 / b) * deviation, m = std::floor((count + 1) * p);
  for (;;) {
    const double u = source.next_double53() - 0.5, v = source.next_double53();
    const double us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + c);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || k > count) continue;
    const double bound = (m + 0.5) * std::log((m + 1) / (r * (count - m + 1))) +
                         (count + 1) * std::log((count - m + 1) / (count - k + 1)) +
                         (k + 0.5) * std::log(r * (count - k + 1) / (k + 1)) + stirling_rest(m) +
                         stirling_rest(count - m) - stirling_rest(k) - stirling_rest(count - k);
    if (std::log(v * alpha / (a / (us * us) + b)) <= bound) return k;
  }
}

template <class Source>
constexpr double draw_binomial(Source& source, double count, double p) {
  if (std::isnan(p) || !(count < HUGE_VAL)) return NAN;
  if (count <= 0 || p <= 0) return 0;
  if (p >= 1) return count;
  const double k = draw_rare(source, count, p > 0.5 ? 1 - p : p);
  return p > 0.5 ? count - k : k;
}

}  // namespace tycho
