// Numbers of a shown tensor as text: one format for all values of a tensor, chosen from those
// shown.
#pragma once
#include <algorithm>
#include <cmath>
#include <string>

#include "bindings/show/show.h"

namespace tycho::lua {

int significant();  // digits asked for

// How the floats of one tensor are written: as whole numbers, with a fixed number of decimals, or
// with an exponent.
struct Format {
  enum { Whole, Fixed, Exponent } kind = Whole;
  int decimals = 0;
};

// Collects the values that will be shown, and then chooses.
class Chooser {
 public:
  void see(double x) {
    if (!std::isfinite(x) || x == 0) return;
    const double a = std::abs(x);
    low_ = std::min(low_, a);
    high_ = std::max(high_, a);
    least_ = std::min(least_, x);
    most_ = std::max(most_, x);
    whole_ = whole_ && x == std::trunc(x);
  }
  Format choose(int digits, bool alone = false) const {
    if (high_ == 0) return {};
    const int top = exponent(high_), bottom = exponent(low_);
    const bool scientific = print_options.scientific > 0;
    const bool never = print_options.scientific == 0;
    if (whole_ && !scientific && (high_ < 1e10 || never)) return {};
    int decimals = std::max({digits - 1 - top, -bottom, 0});
    const bool long_ones = top < -3 || bottom < -5 || top + decimals > std::max(8, digits + 2);
    // Values that lie close together are told apart, and a fraction does not look whole.
    const int step = most_ > least_ ? exponent(most_ / 2 - least_ / 2) : 0;
    if (scientific || (!never && (top >= 7 || long_ones))) {
      const int more = most_ > least_ ? std::min(8, top - step + 1) : 0;
      return {Format::Exponent, std::max(digits - 1, more)};
    }
    const int apart = most_ > least_ ? std::max(1, 1 - step) : alone ? 0 : 1;
    decimals = std::max(decimals, std::min(apart, std::max(0, 8 - top)));
    return {Format::Fixed, std::min(decimals, 340)};
  }

 private:
  // Of x as it will be rounded: 0.0999 with one digit is 0.1.
  static int exponent(double x) { return static_cast<int>(std::floor(std::log10(x) + 1e-7)); }
  double low_ = INFINITY, high_ = 0;  // of magnitudes
  double least_ = INFINITY, most_ = -INFINITY;
  bool whole_ = true;
};

std::string float_text(double x, const Format& f);
// Zeros at the end of the decimals: how many of the text can go (the point with the last one).
int spare_zeros(const std::string& s);
std::string without_zeros(std::string s, int n);
// One number on its own; `fraction`: with a decimal where it is not whole.
std::string number_text(double x, int digits, bool fraction = false);
std::string count_text(int64_t n);  // 12,345
std::string bytes_text(int64_t n);

}  // namespace tycho::lua
