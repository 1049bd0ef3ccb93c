// Convolutions with few channels in the result: weights arranged, images in parallel.
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
  p.channels = gradient ? c.out_channels : w.channels;
  p.out_channels = gradient ? w.channels : c.out_channels;
  for (int d = 0; d < 2; ++d) {
    p.in[d] = gradient ? w.out[d + 1] : w.in[d + 1];
    p.out[d] = gradient ? w.in[d + 1] : w.out[d + 1];
    p.kernel[d] = w.kernel[d + 1];
    p.pad[d] = gradient ? w.kernel[d + 1] - 1 - w.pad[d + 1] : w.pad[d + 1];
  }
  p.line = level_of::conv_few_line(static_cast<const FewChannels*>(&p));
  return p;
}

size_t room_of(const FewChannels& p) {
  return static_cast<size_t>(p.channels * p.in[0] * p.line) * sizeof(float);
}

// `w` is arranged already.
void run(const FewChannels& p, const float* x, const float* w, const float* bias, float* y) {
  const int64_t work =
      p.channels * p.out_channels * p.kernel[0] * p.kernel[1] * p.out[0] * p.out[1];
  const int64_t grain = std::max<int64_t>(1, (1 << 20) / std::max<int64_t>(1, work));
  parallel_for(p.images, grain, [&](int64_t begin, int64_t end) {
    const Scratch scratch(room_of(p));
    level_of::conv_few(&p, x, w, bias, y, begin, end, reinterpret_cast<float*>(scratch.data()));
  });
}

}  // namespace

bool few_result_channels(const Convolution& c, bool gradient) {
  const Window& w = c.window;
  if (c.dtype != DType::Float32 || c.groups != 1 || w.images < 1) return false;
  if (w.in[0] != 1 || w.out[0] != 1 || w.kernel[0] != 1) return false;
  for (int d = 1; d < 3; ++d)
    if (w.stride[d] != 1 || w.dilation[d] != 1 || w.in[d] < 1 || w.out[d] < 1) return false;
  for (int d = 0; gradient && d < 3; ++d)
    if (w.pad[d] > w.kernel[d] - 1) return false;
  const FewChannels p = describe(c, gradient);
  if (p.out_channels < 1 || p.out_channels > FewChannels::kMost || p.channels < 1) return false;
  // Lines shorter than a lane, and single taps, gain nothing; an image must stay in a cache.
  return p.out[1] >= 10 && p.kernel[0] * p.kernel[1] >= 4 && room_of(p) <= size_t{1} << 20;
}

void conv_few_forward(const Convolution& c, const float* x, const float* w, const int64_t* w_stride,
                      const float* bias, float* y) {
  const FewChannels p = describe(c, false);
  const Scratch scratch(
      static_cast<size_t>(p.channels * p.kernel[0] * p.kernel[1] * p.out_channels) * sizeof(float));
  float* to = reinterpret_cast<float*>(scratch.data());
  const float* const arranged = to;
  for (int64_t i = 0; i < p.channels; ++i)
    for (int64_t ky = 0; ky < p.kernel[0]; ++ky)
      for (int64_t kx = 0; kx < p.kernel[1]; ++kx)
        for (int64_t o = 0; o < p.out_channels; ++o)
          *to++ = w[o * w_stride[0] + i * w_stride[1] + ky * w_stride[3] + kx * w_stride[4]];
  run(p, x, arranged, bias, y);
}

// The gradient is a convolution with the weight turned round.
void conv_few_input(const Convolution& c, const float* y, const float* w, const int64_t* w_stride,
                    float* x) {
  const FewChannels p = describe(c, true);
  const Scratch scratch(
      static_cast<size_t>(p.channels * p.kernel[0] * p.kernel[1] * p.out_channels) * sizeof(float));
  float* to = reinterpret_cast<float*>(scratch.data());
  const float* const arranged = to;
  for (int64_t o = 0; o < p.channels; ++o)
    for (int64_t ky = p.kernel[0] - 1; ky >= 0; --ky)
      for (int64_t kx = p.kernel[1] - 1; kx >= 0; --kx)
        for (int64_t i = 0; i < p.out_channels; ++i)
          *to++ = w[o * w_stride[0] + i * w_stride[1] + ky * w_stride[3] + kx * w_stride[4]];
  run(p, y, arranged, nullptr, x);
}

}  // namespace tycho::cpu
