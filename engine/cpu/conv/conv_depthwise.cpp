// Convolutions of every channel by itself: loops over lines, with the weight turned so that channels lie together.
#include "engine/cpu/conv/conv_depthwise.h"

#include <algorithm>
#include <cstring>

#include "engine/base/parallel.h"
#include "engine/cpu/conv/conv_sums.h"
#include "engine/cpu/elementwise/transpose.h"
#include "engine/cpu/scratch.h"

namespace tycho::cpu {
namespace {

int lanes_of(const Convolution& c) {
  return c.dtype == DType::Float32 ? 0 : c.dtype == DType::Float64 ? 1 : 2;
}
constexpr int64_t kDepthwiseWork = 1 << 16;  // multiply-adds a chunk

}  // namespace

bool is_depthwise(const Convolution& c) {
  const Window& w = c.window;
  return c.groups == w.channels && c.out_channels == w.channels && c.groups > 1 &&
         w.bands() * w.kernel[2] <= kDepthwiseTaps;
}

void depthwise_sums(const Convolution& c, bool back, const void* from, const void* w,
                    const void* bias, void* to) {
  const Window& win = c.window;
  const int64_t* const lines = back ? win.in : win.out;
  const int64_t taps = taps_of(c), work = std::max(win.in[2], win.out[2]) * win.channels * taps;
  const int size = dtype_size(c.dtype);
  const Scratch turned(static_cast<size_t>(taps * win.channels * size));
  level_of::transpose(size, int64_t{1}, win.channels, taps, w, static_cast<void*>(turned.data()));
  parallel_for(win.images * lines[0] * lines[1],
               std::max<int64_t>(1, kDepthwiseWork / std::max<int64_t>(1, work)),
               [&](int64_t begin, int64_t end) {
                 level_of::depthwise_lines(lanes_of(c), static_cast<const Window*>(&win), back, from,
                                           static_cast<const void*>(turned.data()), bias, to, begin,
                                           end);
               });
}

// Parts of the lines are summed apart and added in order.
void depthwise_backward_weight(const Convolution& c, const void* y, const void* x, void* w) {
  const Window& win = c.window;
  const int64_t taps = taps_of(c), numel = taps * win.channels;
  const int size = dtype_size(c.dtype);
  const int64_t lines = win.images * win.out[0] * win.out[1];
  const int64_t parts = std::clamp<int64_t>(get_num_threads(), 1, std::max<int64_t>(1, lines));
  const Scratch sums(static_cast<size_t>(parts * numel * size));
  std::memset(sums.data(), 0, parts * numel * size);
  parallel_for(parts, 1, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part)
      level_of::depthwise_weight(lanes_of(c), &win, y, x,
                                 static_cast<void*>(sums.data() + part * numel * size),
                                 lines * part / parts, lines * (part + 1) / parts);
  });
  for (int64_t part = 1; part < parts; ++part)
    add_up(c, sums.data(), sums.data() + part * numel * size, numel);
  level_of::transpose(size, int64_t{1}, taps, win.channels, static_cast<const void*>(sums.data()),
                      w);
}

}  // namespace tycho::cpu
