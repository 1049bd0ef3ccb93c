// Convolutions of plain memory with channels last: windows of the input become rows of a matrix
// (a few hundred at a time, so that they stay in the cache), and matrix products do the rest.
#pragma once
#include "engine/cpu/level.h"
#include "engine/tensor/dtype.h"

namespace tycho::cpu {

// A convolution's shape. Images have three spatial dimensions (leading ones are 1 where the user
// has fewer); a pixel holds its `channels` numbers side by side.
struct Window {
  int64_t images;
  int64_t channels;       // of the input, all groups together
  int64_t first, count;   // the channels of the group at hand
  int64_t in[3], out[3];  // sizes of the input and of the result
  int64_t kernel[3], stride[3], pad[3], dilation[3];
  int64_t rows() const { return images * out[0] * out[1] * out[2]; }
  int64_t bands() const { return kernel[0] * kernel[1]; }   // rows of taps
  int64_t band_width() const { return kernel[2] * count; }  // numbers in one
};

// Images as matrices of pixels by channels: steps in elements.
struct Pixels {
  const void* data;
  int64_t image, pixel, channel;
  int64_t line = 0;  // where lines lie apart; or 0, and pixels of all lines lie equally far
  int64_t line_step(int64_t width) const { return line ? line : width * pixel; }
};

constexpr int kDepthwiseTaps = 1024;  // the most that a kernel of one channel may have

struct Convolution {
  DType dtype;  // Float32, Float64 or Int64
  Window window;
  int64_t groups, out_channels;
};

inline int64_t taps_of(const Convolution& c) { return c.window.bands() * c.window.kernel[2]; }

// x: [images, in.., channels]; w: [out_channels, kernel.., channels / groups];
// y: [images, out.., out_channels]; bias may be null.
void conv_forward(const Convolution& c, const void* x, const void* w, const void* bias, void* y);
// The gradient of x from that of y. x is overwritten.
void conv_backward_input(const Convolution& c, const void* y, const void* w, void* x);
// The gradient of w from that of y. w is overwritten.
void conv_backward_weight(const Convolution& c, const void* y, const void* x, void* w);

}  // namespace tycho::cpu

// Windows [row_begin, row_end) as rows of `to`, `ld` elements apart: the taps of bands
// [band_begin, band_end), zeros outside the image. `x_end` is the end of x's memory. Rows
// need 128 bytes of room behind them. `type`: 0 float32, 1 float64, 2 int64, 3 any of two bytes.
TYCHO_LEVELS(void, window_rows,
             (int type, const ::tycho::cpu::Window* w, const void* x, const void* x_end,
              int64_t row_begin, int64_t row_end, int64_t band_begin, int64_t band_end, void* to,
              int64_t ld))
// The reverse: adds rows onto the pixels of x they were taken from.
TYCHO_LEVELS(void, add_window_rows,
             (int type, const ::tycho::cpu::Window* w, const void* from, int64_t ld,
              int64_t row_begin, int64_t row_end, int64_t band_begin, int64_t band_end, void* x))
// Convolutions of every channel by itself (groups = channels = out_channels), weight [taps,
// channels]: lines [begin, end) of the results, counted through all images; with `back` of the
// gradient of the input. `bias` may be null. Kernels of at most kDepthwiseTaps.
TYCHO_LEVELS(void, depthwise_lines,
             (int type, const ::tycho::cpu::Window* w, bool back, const void* from,
              const void* weight, const void* bias, void* to, int64_t begin, int64_t end))
// Lines [begin, end) of the result. Adds to `weight`.
TYCHO_LEVELS(void, depthwise_weight,
             (int type, const ::tycho::cpu::Window* w, const void* g, const void* x, void* weight,
              int64_t begin, int64_t end))
