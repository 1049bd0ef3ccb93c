// Rows of taps that lie in the padding for all windows of a line: they are left out of products.
#pragma once
#include <algorithm>

#include "engine/cpu/conv/conv.h"

namespace tycho::cpu {

// The taps [first, last) of a dimension that see the image from place `at` of the result; one of
// them where none does.
struct TapsSeen {
  int64_t first, last;
  bool operator==(const TapsSeen&) const = default;
  TapsSeen(const Window& w, int d, int64_t at) {
    const int64_t from = at * w.stride[d] - w.pad[d], step = w.dilation[d];
    first = std::clamp<int64_t>(from < 0 ? (-from + step - 1) / step : 0, 0, w.kernel[d] - 1);
    const int64_t room = w.in[d] - 1 - from;
    last = std::clamp(room < 0 ? 0 : room / step + 1, first + 1, w.kernel[d]);
  }
};

// Windows in an order in which those that see the same rows of taps follow each other: as they lie, or
// where lines are short, line by line through all images.
class BandsSeen {
 public:
  explicit BandsSeen(const Window& window)
      : w(window),
        share_(seen(0) * seen(1)),
        some_(share_ < kWorth),
        across_(some_ && w.images > 1 && w.out[2] < kLong),
        line_(w.out[2] * (across_ ? w.images : 1)) {}
  // The part of all rows of taps that is not left out.
  double share() const { return some_ ? share_ : 1; }
  // Whether windows are taken through all images.
  bool across() const { return across_; }
  // How many of `most` windows from `row` on see the same rows of taps.
  int64_t same(int64_t row, int64_t most) const {
    if (!some_) return most;
    const int64_t x = row % line_, y = row / line_ % w.out[1];
    const TapsSeen here(w, 1, y);
    int64_t lines = 1;
    while (y + lines < w.out[1] && lines * line_ - x < most && TapsSeen(w, 1, y + lines) == here)
      ++lines;
    return std::min(most, lines * line_ - x);
  }
  // Calls f(window, how many after `row`, how many from it on) for those that lie side by side.
  template <class F>
  void each_run(int64_t row, int64_t rows, F&& f) const {
    if (!across_) return f(row, int64_t{0}, rows);
    for (int64_t i = 0, n; i < rows; i += n) {
      const int64_t x = (row + i) % w.out[2], image = (row + i) / w.out[2] % w.images;
      n = std::min(rows - i, w.out[2] - x);
      f((image * w.out[0] * w.out[1] + (row + i) / line_) * w.out[2] + x, i, n);
    }
  }
  // Calls f(first band, last band) for those of [from, to) that windows at `row` see.
  template <class F>
  void each(int64_t row, int64_t from, int64_t to, F&& f) const {
    if (!some_) return f(from, to);
    const int64_t line = row / line_, k = w.kernel[1];
    const TapsSeen y(w, 1, line % w.out[1]), z(w, 0, line / w.out[1] % w.out[0]);
    if (y.last - y.first == k) {
      from = std::max(from, z.first * k), to = std::min(to, z.last * k);
      if (from < to) f(from, to);
      return;
    }
    for (int64_t i = std::max(z.first, from / k); i < z.last && i * k < to; ++i) {
      const int64_t a = std::max(from, i * k + y.first), b = std::min(to, i * k + y.last);
      if (a < b) f(a, b);
    }
  }

 private:
  static constexpr double kWorth = 0.93;
  static constexpr int64_t kLong = 48;  // rows of a product that use its panels well
  const Window& w;
  double share_;
  bool some_, across_;
  int64_t line_;

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
