// Convolutions whose result has few channels (the first layer of a small network, or the gradient
// of an image of three colours): lanes run along the lines of the image, not over the channels,
// which would leave most of a lane empty.
#pragma once
#include "engine/cpu/conv/conv.h"

namespace tycho::cpu {

// Images with channels last on both sides; stride and dilation 1.
struct FewChannels {
  static constexpr int64_t kMost = 8;  // channels of the result
  int64_t images, channels, in[2], out_channels, out[2], kernel[2], pad[2];
  int64_t line;  // of an image's plane in scratch memory: with zeros in front and behind
};

// Whether the result (or the input's gradient) is better computed so; then the two below do it.
bool few_result_channels(const Convolution& c, bool gradient);
// `w_stride`: of out, in and the three kernel sizes.
void conv_few_forward(const Convolution& c, const float* x, const float* w, const int64_t* w_stride,
                      const float* bias, float* y);
void conv_few_input(const Convolution& c, const float* y, const float* w, const int64_t* w_stride,
                    float* x);

}  // namespace tycho::cpu

// Images [begin, end); w as [channels, kernel, out_channels], bias may be null. The scratch memory
// holds channels * in[0] * line numbers.
TYCHO_LEVELS(void, conv_few,
             (const ::tycho::cpu::FewChannels* p, const float* x, const float* w, const float* bias,
              float* y, int64_t begin, int64_t end, float* scratch))
TYCHO_LEVELS(int64_t, conv_few_line, (const ::tycho::cpu::FewChannels* p))
