// Numbers of a shown tensor as text: one format for all values of a tensor, chosen from those
// shown.
#pragma once
#include <algorithm>
#include <cmath>
#include <string>

#include "bindings/show.h"

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
    if (whole_ && !scientific && (high_ < 1e7 || never)) return {};
    int decimals = std::max({digits - 1 - top, -bottom, 0});
    // Values that lie close together are told apart, and a fraction does not look whole.
    int apart = most_ > least_ ? std::max(1, 1 - exponent(most_ / 2 - least_ / 2)) : alone ? 0 : 1;
    decimals = std::max(decimals, std::min(apart, std::max(0, 8 - top)));
    if (scientific || (!never && (decimals > digits + 2 || top >= 7 || top + decimals > 8)))
      return {Format::Exponent, digits - 1};
    return {Format::Fixed, std::min(decimals, 340)};
  }

 private:
  // Of x as it will be rounded: 0.0999 with one digit is 0.1.
  static int exponent(double x) { return static_cast<int>(std::floor(std::log10(x))); }
  double low_ = INFINITY, high_ = 0;  // of magnitudes
  double least_ = INFINITY, most_ = -INFINITY;
  bool whole_ = true;
};

std::string float_text(double x, const Format& f);
// Zeros at the end of the decimals: how many of the text can go (the point with the last one).
int spare_zeros(const std::string& s);
std::string without_zeros(std::string s, int n);
std::string number_text(double x, int digits);  // one number on its own
std::string count_text(int64_t n);              // 12,345
std::string bytes_text(int64_t n);

}  // namespace tycho::lua
