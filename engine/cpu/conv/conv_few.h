// Convolutions whose result has few channels in each group (the first layer of a small network, the
// gradient of an image of three colours, groups of a few channels): lanes run along the lines of
// the image, not over the channels, which would leave most of a lane empty.
#pragma once
#include "engine/cpu/conv/conv.h"

namespace tycho::cpu {

// The result has channels last; images may lie in any way.
struct FewChannels {
  static constexpr int64_t kMost = 8;              // channels of a group's result
  int64_t images, groups, channels, out_channels;  // channels of one group
  int64_t in[3], out[3], kernel[3], pad[3], stride[3], dilation[3];
  // Scratch memory holds a line, with zeros around it, as stride[2] phases: columns a stride apart
  // lie side by side.
  int64_t phase;  // numbers in one
  bool f64;       // numbers are doubles, or floats
  int64_t size() const { return f64 ? 8 : 4; }
  int64_t line() const { return phase * stride[2]; }
  // Lanes may also run over images, of which each lane takes one: no lane is left partly empty by short
  // lines, and nothing meets the zeros around them.
  static constexpr int64_t kLeastOfImages = 4;  // channels of the result
  int64_t pixels_in() const { return in[0] * in[1] * in[2]; }
  int64_t pixels_out() const { return out[0] * out[1] * out[2]; }
};

// Whether the result (or the input's gradient) is better computed so; then the two below do it.
bool few_result_channels(const Convolution& c, bool gradient);
// `w_stride`: of out, in and the three kernel sizes.
void conv_few_forward(const Convolution& c, const Pixels& x, const void* w, const int64_t* w_stride,
                      const void* bias, void* y);
void conv_few_input(const Convolution& c, const Pixels& y, const void* w, const int64_t* w_stride,
                    void* x);

// The weight's gradient with lanes over images, of float32: whether its shape is one for that, and whether it
// was done (images with gaps are not).
bool few_weight_pays(const Convolution& c);
bool conv_few_weight(const Convolution& c, const Pixels& y, const Pixels& x, float* w,
                     const int64_t* w_stride);

}  // namespace tycho::cpu

// Groups of images [begin, end), counted through; w as [groups, channels, kernel, out_channels],
// bias may be null. The scratch memory holds channels * in[0] * in[1] * line() numbers.
TYCHO_LEVELS(void, conv_few,
             (const ::tycho::cpu::FewChannels* p, const ::tycho::cpu::Pixels* x, const void* w,
              const void* bias, void* y, int64_t begin, int64_t end, void* scratch))
// The same of one group, for blocks [begin, end) of as many images as a lane of float32 has. The scratch memory
// holds a lane for each number of an image and of a line of its result.
TYCHO_LEVELS(void, conv_few_images,
             (const ::tycho::cpu::FewChannels* p, const ::tycho::cpu::Pixels* x, const float* w,
              const float* bias, float* y, int64_t begin, int64_t end, float* scratch))
// Gradients [channels, kernel, out_channels] of the weight, from blocks [begin, end). The scratch memory holds a
// lane for each of them and for each number of an image and of its result's gradient.
TYCHO_LEVELS(void, conv_few_weight,
             (const ::tycho::cpu::FewChannels* p, const ::tycho::cpu::Pixels* g,
              const ::tycho::cpu::Pixels* x, float* w, int64_t begin, int64_t end, float* scratch))
// Images of a block; 0 where there is nothing to gain.
TYCHO_LEVELS(int64_t, conv_few_block, ())
TYCHO_LEVELS(int64_t, conv_few_phase, (const ::tycho::cpu::FewChannels* p))
