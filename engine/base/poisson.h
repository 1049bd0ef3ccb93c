// A Poisson count, drawn from any source of numbers in [0, 1) with 53 bits. Plain C++, which a device's
// compiler takes as well.
#pragma once
#include <cmath>

namespace tycho {

template <class Source>
constexpr double draw_poisson(Source& source, double rate) {
  if (rate == 0) return 0;
  if (rate < 10) {
    const double enough = std::exp(-rate);
    double count = 0;
    for (double product = source.next_double53(); product > enough;
         product *= source.next_double53())
      ++count;
    return count;
  }
  // The algorithm PTRS of "The transformed rejection method for generating Poisson random
  // variables", W. Hoermann, 1993, with its constants.
  const double root = std::sqrt(rate), log_rate = std::log(rate);
  const double b = 0.931 + 2.53 * root, a = -0.059 + 0.02483 * b;
  const double inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2);
  for (;;) {
    const double u = source.next_double53() - 0.5, v = source.next_double53();
    const double us = 0.5 - std::fabs(u);
    const double k = std::floor((2 * a / us + b) * u + rate + 0.43);
    if (us >= 0.07 && v <= v_r) return k;
    if (k < 0 || (us < 0.013 && v > us)) continue;
    if (std::log(v) + std::log(inverse_alpha) - std::log(a / (us * us) + b) <=
        k * log_rate - rate - std::lgamma(k + 1))
      return k;
  }
}

}  // namespace tycho
