// Which pixels and which taps of a convolution do something.
#pragma once
#include <algorithm>

#include "engine/ops/nn/conv.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {

inline Sizes kernel_of(const Tensor& w) { return Sizes(w->shape + 2, w.rank() - 2); }

// What of a convolution does something: a single tap with steps sees every so-many-th pixel, and
// taps over wide padding see none. Nothing else is laid out, packed and multiplied.
struct Seen {
  Sizes stride, padding, dilation;  // of what is left
  Sizes step;                       // from one pixel that is seen to the next
  Sizes last;                       // the last such pixel, where there is a step
  Sizes first, taps;                // the taps that see pixels, and how many there are
  bool all_pixels = true, all_taps = true;
  int idle = 0;  // dimensions at the end that are 1 everywhere: what is before them is the line

  // Without `over` every pixel counts as seen, without `cut` every tap.
  Seen(const Call& c, const Sizes& x, const Sizes& kernel, const Sizes& y, bool over = true,
       bool cut = true)
      : stride(c.ints(3)), padding(c.ints(4)), dilation(c.ints(5)) {
    for (int d = 0; d < kernel.n; ++d) {
      step.push_back(1), last.push_back(0), first.push_back(0), taps.push_back(kernel[d]);
      const int64_t in = x[d + 2], out = y[d + 2];
      if (in < 1 || out < 1) continue;
      const bool inside =
          padding[d] == 0 && (out - 1) * stride[d] < in;  // no padding behind either
      if (over && kernel[d] == 1 && inside && stride[d] > 1) {
        step[d] = stride[d], last[d] = (out - 1) * stride[d];
        stride[d] = 1;
        all_pixels = false;
      }
      if (!cut) continue;
      const int64_t hidden = padding[d] - (out - 1) * stride[d] - 1;  // in front of every window
      if (hidden >= 0)
        first[d] = std::min({hidden / dilation[d] + 1, padding[d] / dilation[d], kernel[d] - 1});
      const int64_t end = (in + padding[d] - 1) / dilation[d] + 1;  // the first behind the image
      taps[d] = std::max<int64_t>(1, std::min(kernel[d], end) - first[d]);
      padding[d] -= first[d] * dilation[d];
      if (taps[d] != kernel[d]) all_taps = false;
      if (taps[d] == 1) dilation[d] = 1;
    }
    const auto one = [&](int d) {
      return x[d + 2] == 1 && y[d + 2] == 1 && taps[d] == 1 && padding[d] == 0;
    };
    while (idle < kernel.n - 1 && one(kernel.n - 1 - idle)) ++idle;
  }

  // Views of what is left.
  Tensor pixels(Tensor x) const {
    for (int d = 0; d < step.n; ++d)
      if (step[d] > 1) x = op<"slice">(x, d + 2, int64_t{0}, last[d] + 1, step[d]);
    return x;
  }
  Tensor weight(Tensor w) const {
    for (int d = 0; d < taps.n && !all_taps; ++d)
      if (taps[d] != w.size(d + 2)) w = op<"narrow">(w, d + 2, first[d], taps[d]);
    return w;
  }
};

}  // namespace tycho::cpu
