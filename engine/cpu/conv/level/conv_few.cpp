// Convolutions with few channels in the result: an image is copied into planes whose lines have
// zeros around them; then a block of a line, for all channels of the result, is summed in
// registers over channels and taps, and written with the channels side by side.
#include "engine/cpu/conv/conv_few.h"

#include "engine/cpu/lanes/transpose.h"
#include "engine/cpu/lanes/vec.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

using L = Lane<float>;

// [pixels of a line, channels] into planes, `step` apart.
void spread_line(const float* from, int64_t pixels, int64_t channels, float* to, int64_t step) {
  int64_t i = 0;
  for (; i + 4 <= pixels; i += 4) {
    int64_t c = 0;
    for (; c + 4 <= channels; c += 4)
      turn4(from + i * channels + c, channels, to + c * step + i, step);
    for (; c < channels; ++c)
      for (int64_t k = i; k < i + 4; ++k) to[c * step + k] = from[k * channels + c];
  }
  for (; i < pixels; ++i)
    for (int64_t c = 0; c < channels; ++c) to[c * step + i] = from[i * channels + c];
}

// O channels of X lanes of line `row`, from column `at` on.
template <int O, int X>
void block(const FewChannels& p, const float* planes, const float* w, const float* bias,
           int64_t row, int64_t at, float* to) {
  L sum[O][X];
#pragma GCC unroll 8
  for (int o = 0; o < O; ++o)
#pragma GCC unroll 2
    for (int k = 0; k < X; ++k) sum[o][k] = L(bias ? bias[o] : 0.f);
  const int64_t top = row - p.pad[0];
  const int64_t first = top < 0 ? -top : 0;
  const int64_t last = top + p.kernel[0] > p.in[0] ? p.in[0] - top : p.kernel[0];
  for (int64_t c = 0; c < p.channels; ++c)
    for (int64_t ky = first; ky < last; ++ky) {
      const float* line = planes + (c * p.in[0] + top + ky) * p.line + at;
      const float* tap = w + (c * p.kernel[0] + ky) * p.kernel[1] * O;
      for (int64_t kx = 0; kx < p.kernel[1]; ++kx, ++line, tap += O) {
        L x[X];
#pragma GCC unroll 2
        for (int k = 0; k < X; ++k) x[k] = L::load(line + k * L::size);
#pragma GCC unroll 8
        for (int o = 0; o < O; ++o) {
          const L by(tap[o]);
#pragma GCC unroll 2
          for (int k = 0; k < X; ++k) sum[o][k] = fma(x[k], by, sum[o][k]);
        }
      }
    }
  alignas(64) float tile[O][X * L::size];
#pragma GCC unroll 8
  for (int o = 0; o < O; ++o)
#pragma GCC unroll 2
    for (int k = 0; k < X; ++k) sum[o][k].store(tile[o] + k * L::size);
  const int64_t left = p.out[1] - at, n = left < X * L::size ? left : X * L::size;
  for (int64_t i = 0; i < n; ++i)
#pragma GCC unroll 8
    for (int o = 0; o < O; ++o) to[i * O + o] = tile[o][i];
}

using Block = void (*)(const FewChannels&, const float*, const float*, const float*, int64_t,
                       int64_t, float*);
constexpr Block kBlocks[FewChannels::kMost][2] = {
    {block<1, 1>, block<1, 2>}, {block<2, 1>, block<2, 2>}, {block<3, 1>, block<3, 2>},
    {block<4, 1>, block<4, 2>}, {block<5, 1>, block<5, 2>}, {block<6, 1>, block<6, 2>},
    {block<7, 1>, block<7, 2>}, {block<8, 1>, block<8, 2>}};

}  // namespace

int64_t conv_few_line(const FewChannels* p) {
  const int64_t wide = 2 * L::size, blocks = (p->out[1] + wide - 1) / wide;
  return (blocks * wide + p->kernel[1] - 1 + 15) / 16 * 16;
}

void conv_few(const FewChannels* given, const float* x, const float* w, const float* bias, float* y,
              int64_t begin, int64_t end, float* scratch) {
  const FewChannels& p = *given;
  const int64_t plane = p.in[0] * p.line, pixels = p.in[0] * p.in[1];
  const int64_t pixels_left = p.line - p.pad[1];
  const int64_t used = p.in[1] < pixels_left ? p.in[1] : pixels_left;
  for (int64_t i = 0; i < p.channels * p.in[0]; ++i) {
    float* const line = scratch + i * p.line;
    for (int64_t k = 0; k < p.pad[1]; ++k) line[k] = 0;
    for (int64_t k = p.pad[1] + used; k < p.line; ++k) line[k] = 0;
  }
  const Block narrow = kBlocks[p.out_channels - 1][0], wide = kBlocks[p.out_channels - 1][1];
  for (int64_t n = begin; n < end; ++n) {
    for (int64_t row = 0; row < p.in[0]; ++row)
      spread_line(x + (n * pixels + row * p.in[1]) * p.channels, used, p.channels,
                  scratch + row * p.line + p.pad[1], plane);
    for (int64_t row = 0; row < p.out[0]; ++row) {
      float* const to = y + (n * p.out[0] + row) * p.out[1] * p.out_channels;
      for (int64_t at = 0; at < p.out[1];) {
        const bool rest = p.out[1] - at <= L::size;
        (rest ? narrow : wide)(p, scratch, w, bias, row, at, to + at * p.out_channels);
        at += rest ? L::size : 2 * L::size;
      }
    }
  }
}

}  // namespace tycho::cpu::TYCHO_LEVEL
