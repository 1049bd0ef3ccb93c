// Which pixels and which taps of a convolution do something.
#pragma once
#include <algorithm>
#include <numeric>

#include "engine/ops/nn/conv.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {

inline Sizes kernel_of(const Tensor& w) { return Sizes(w->shape + 2, w.rank() - 2); }

// To be cut and turned as it lies: a view of an inner tensor (tensor/tensor.h) would straighten it.
inline Tensor as_it_lies(const Tensor& t) {
  return t->inner ? alias(t, t.shape(), t.strides(), t->offset) : t;
}

// What of a convolution does something: windows whose steps and whose taps' distances have a common
// factor see every so-many-th pixel, and taps over wide padding see none. Nothing else is laid out,
// packed and multiplied.
struct Seen {
  Sizes stride, padding, dilation;  // of what is left
  Sizes step;                       // from one pixel that is seen to the next
  Sizes begin, end;   // the first such pixel, and behind the last, where there is a step
  Sizes first, taps;  // the taps that see pixels, and how many there are
  bool all_pixels = true, all_taps = true;
  int idle = 0;  // dimensions at the end that are 1 everywhere: what is before them is the line

  // Without `over` every pixel counts as seen, without `cut` every tap.
  Seen(const Call& c, const Sizes& x, const Sizes& kernel, const Sizes& y, bool over = true,
       bool cut = true)
      : stride(c.ints(3)), padding(c.ints(4)), dilation(c.ints(5)) {
    for (int d = 0; d < kernel.n; ++d) {
      step.push_back(1), begin.push_back(0), end.push_back(0);
      first.push_back(0), taps.push_back(kernel[d]);
      const int64_t in = x[d + 2], out = y[d + 2];
      if (in < 1 || out < 1) continue;
      if (cut) cut_taps(d, in, out);
      if (over) take_steps(d, in, out);
    }
    const auto one = [&](int d) {
      return x[d + 2] == 1 && y[d + 2] == 1 && taps[d] == 1 && padding[d] == 0;
    };
    while (idle < kernel.n - 1 && one(kernel.n - 1 - idle)) ++idle;
  }

  // Taps that see an image somewhere.
  void cut_taps(int d, int64_t in, int64_t out) {
    const int64_t hidden = padding[d] - (out - 1) * stride[d] - 1;  // in front of every window
    if (hidden >= 0)
      first[d] = std::min({hidden / dilation[d] + 1, padding[d] / dilation[d], taps[d] - 1});
    const int64_t behind = (in + padding[d] - 1) / dilation[d] + 1;  // the first behind the image
    const int64_t all = taps[d];
    taps[d] = std::max<int64_t>(1, std::min(all, behind) - first[d]);
    padding[d] -= first[d] * dilation[d];
    if (taps[d] != all) all_taps = false;
    if (taps[d] == 1) dilation[d] = 1;
  }
  // A window alone takes no steps, and a tap alone has no distances.
  void take_steps(int d, int64_t in, int64_t out) {
    const int64_t factor =
        std::gcd(out > 1 ? stride[d] : 0, taps[d] > 1 ? dilation[d] : int64_t{0});
    if (factor < 2) return;
    const int64_t from = (factor - padding[d] % factor) % factor;
    if (from >= in) return;
    const int64_t by = out > 1 ? stride[d] / factor : 1,
                  apart = taps[d] > 1 ? dilation[d] / factor : 1,
                  before = (padding[d] + from) / factor;
    const int64_t count =
        std::min((in - from - 1) / factor, (out - 1) * by + (taps[d] - 1) * apart - before) + 1;
    if (count < 1) return;
    step[d] = factor, begin[d] = from, end[d] = from + (count - 1) * factor + 1;
    stride[d] = by, dilation[d] = apart, padding[d] = before;
    all_pixels = false;
  }

  // Views of what is left.
  Tensor pixels(Tensor x) const {
    if (!all_pixels) x = as_it_lies(x);
    for (int d = 0; d < step.n; ++d)
      if (step[d] > 1) x = op<"slice">(x, d + 2, begin[d], end[d], step[d]);
    return x;
  }
  Tensor weight(Tensor w) const {
    if (!all_taps) w = as_it_lies(w);
    for (int d = 0; d < taps.n && !all_taps; ++d)
      if (taps[d] != w.size(d + 2)) w = op<"narrow">(w, d + 2, first[d], taps[d]);
    return w;
  }
};

}  // namespace tycho::cpu
