// Convolutions with few channels in the result: weights arranged, groups of images in parallel.
#include "engine/cpu/conv/conv_few.h"

#include <algorithm>

#include "engine/base/parallel.h"
#include "engine/cpu/scratch.h"

namespace tycho::cpu {
namespace {

FewChannels describe(const Convolution& c, bool gradient) {
  const Window& w = c.window;
  FewChannels p{};
  p.images = w.images;
  p.groups = c.groups;
  p.channels = (gradient ? c.out_channels : w.channels) / c.groups;
  p.out_channels = (gradient ? w.channels : c.out_channels) / c.groups;
  for (int d = 0; d < 3; ++d) {
    p.in[d] = gradient ? w.out[d] : w.in[d];
    p.out[d] = gradient ? w.in[d] : w.out[d];
    p.kernel[d] = w.kernel[d];
    p.stride[d] = w.stride[d];
    p.dilation[d] = w.dilation[d];
    p.pad[d] = gradient ? (w.kernel[d] - 1) * w.dilation[d] - w.pad[d] : w.pad[d];
  }
  p.phase = level_of::conv_few_phase(static_cast<const FewChannels*>(&p));
  return p;
}

int64_t taps_of(const FewChannels& p) { return p.kernel[0] * p.kernel[1] * p.kernel[2]; }
size_t room_of(const FewChannels& p) {
  return static_cast<size_t>(p.channels * p.in[0] * p.in[1] * p.line()) * sizeof(float);
}

// `at(group, channel, result's channel, kz, ky, kx)` is an element of the weight.
template <class At>
void run(const FewChannels& p, const Pixels& x, At&& at, const float* bias, float* y) {
  const int64_t weights = p.groups * p.channels * taps_of(p) * p.out_channels;
  const Scratch arranged(static_cast<size_t>(weights) * sizeof(float));
  float* to = reinterpret_cast<float*>(arranged.data());
  const float* const w = to;
  for (int64_t g = 0; g < p.groups; ++g)
    for (int64_t c = 0; c < p.channels; ++c)
      for (int64_t kz = 0; kz < p.kernel[0]; ++kz)
        for (int64_t ky = 0; ky < p.kernel[1]; ++ky)
          for (int64_t kx = 0; kx < p.kernel[2]; ++kx)
            for (int64_t o = 0; o < p.out_channels; ++o) *to++ = at(g, c, o, kz, ky, kx);
  const int64_t work = p.channels * p.out_channels * taps_of(p) * p.out[0] * p.out[1] * p.out[2];
  const int64_t grain = std::max<int64_t>(1, (1 << 20) / std::max<int64_t>(1, work));
  parallel_for(p.images * p.groups, grain, [&](int64_t begin, int64_t end) {
    const Scratch scratch(room_of(p));
    level_of::conv_few(&p, &x, w, bias, y, begin, end, reinterpret_cast<float*>(scratch.data()));
  });
}

}  // namespace

bool few_result_channels(const Convolution& c, bool gradient) {
  const Window& w = c.window;
  if (c.dtype != DType::Float32 || w.images < 1 || c.groups < 1) return false;
  for (int d = 0; d < 3; ++d) {
    if (w.in[d] < 1 || w.out[d] < 1) return false;
    if (gradient && (w.stride[d] != 1 || w.pad[d] > (w.kernel[d] - 1) * w.dilation[d]))
      return false;
  }
  const FewChannels p = describe(c, gradient);
  if (p.out_channels < 1 || p.out_channels > FewChannels::kMost || p.channels < 1) return false;
  // Channels by themselves fill lanes where there are enough of them.
  constexpr int64_t kManyGroups = 8;
  if (p.channels == 1 && p.out_channels == 1 && p.groups >= kManyGroups) return false;
  // Lines much shorter than a lane, and few taps, gain nothing; an image must stay in a cache.
  const int64_t half_lane = level() == Level::v4 ? 10 : 5;
  return p.out[2] >= half_lane && taps_of(p) >= 4 - (p.groups > 1) && room_of(p) <= size_t{1} << 20;
}

void conv_few_forward(const Convolution& c, const Pixels& x, const float* w,
                      const int64_t* w_stride, const float* bias, float* y) {
  const FewChannels p = describe(c, false);
  const auto at = [&](int64_t g, int64_t i, int64_t o, int64_t kz, int64_t ky, int64_t kx) {
    return w[(g * p.out_channels + o) * w_stride[0] + i * w_stride[1] + kz * w_stride[2] +
             ky * w_stride[3] + kx * w_stride[4]];
  };
  run(p, x, at, bias, y);
}

// The gradient is a convolution with the weight turned round.
void conv_few_input(const Convolution& c, const Pixels& y, const float* w, const int64_t* w_stride,
                    float* x) {
  const FewChannels p = describe(c, true);
  const auto at = [&](int64_t g, int64_t o, int64_t i, int64_t kz, int64_t ky, int64_t kx) {
    return w[(g * p.channels + o) * w_stride[0] + i * w_stride[1] +
             (p.kernel[0] - 1 - kz) * w_stride[2] + (p.kernel[1] - 1 - ky) * w_stride[3] +
             (p.kernel[2] - 1 - kx) * w_stride[4]];
  };
  run(p, y, at, nullptr, x);
}

}  // namespace tycho::cpu
