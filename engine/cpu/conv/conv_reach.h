// Rows of taps that lie in the padding for all windows of a line: they are left out of products.
#pragma once
#include <algorithm>

#include "engine/cpu/conv/conv.h"

namespace tycho::cpu {

// The taps [first, last) of a dimension that see the image from place `at` of the result.
struct TapsSeen {
  int64_t first, last;
  bool operator==(const TapsSeen&) const = default;
  TapsSeen(const Window& w, int d, int64_t at) {
    const int64_t from = at * w.stride[d] - w.pad[d], step = w.dilation[d];
    first = std::clamp<int64_t>(from < 0 ? (-from + step - 1) / step : 0, 0, w.kernel[d]);
    const int64_t room = w.in[d] - 1 - from;
    last = std::clamp(room < 0 ? 0 : room / step + 1, first, w.kernel[d]);
  }
};

// The rows of taps (bands) that windows of a line see.
class BandsSeen {
 public:
  explicit BandsSeen(const Window& window)
      : w(window), share_(seen(0) * seen(1)), some_(share_ < kWorth) {}
  // The part of all rows of taps that is not left out.
  double share() const { return some_ ? share_ : 1; }
  bool some() const { return some_; }  // are left out
  // Whether windows of two lines see the same ones.
  bool same(int64_t z, int64_t y, int64_t other_z, int64_t other_y) const {
    return !some_ || (TapsSeen(w, 0, z) == TapsSeen(w, 0, other_z) &&
                      TapsSeen(w, 1, y) == TapsSeen(w, 1, other_y));
  }
  // Calls f(first band, last band) for those that windows of a line see.
  template <class F>
  void each(int64_t z, int64_t y, F&& f) const {
    const int64_t k = w.kernel[1];
    if (!some_) return f(int64_t{0}, w.bands());
    const TapsSeen a(w, 0, z), b(w, 1, y);
    if (b.last - b.first == k) return f(a.first * k, a.last * k);
    for (int64_t i = a.first; i < a.last; ++i) f(i * k + b.first, i * k + b.last);
  }

 private:
  static constexpr double kWorth = 0.93;
  const Window& w;
  double share_;
  bool some_;

  double seen(int d) const {
    int64_t n = 0;
    for (int64_t i = 0; i < w.out[d]; ++i) {
      const TapsSeen t(w, d, i);
      n += t.last - t.first;
    }
    return static_cast<double>(n) /
           static_cast<double>(std::max<int64_t>(1, w.out[d] * w.kernel[d]));
  }
};

}  // namespace tycho::cpu
