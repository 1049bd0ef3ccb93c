// Convolutions with few channels in the result: an image is copied into planes whose lines have
// zeros around them; then a block of a line, for all channels of the result, is summed in
// registers over channels and taps, and written with the channels side by side.
#include "engine/cpu/conv/conv_few.h"

#include "engine/cpu/lanes/transpose.h"
#include "engine/cpu/lanes/vec.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

#if defined(TYCHO_LEVEL_v4)
constexpr int kRegisters = 32;
#else
constexpr int kRegisters = 16;
#endif

// A line of `pixels` into planes of its channels, `step` apart.
template <class T>
void spread_line(const FewChannels& p, const Pixels& x, const T* from, int64_t pixels, T* to,
                 int64_t step) {
  const int64_t pixel = x.pixel, channel = x.channel;
  if (pixel == 1) {
    for (int64_t c = 0; c < p.channels; ++c, from += channel, to += step)
      memcpy(to, from, pixels * sizeof(T));
    return;
  }
  int64_t i = 0;
  for (; i + 4 <= pixels; i += 4) {
    int64_t c = 0;
    for (; channel == 1 && c + 4 <= p.channels; c += 4)
      turn4(from + i * pixel + c, pixel, to + c * step + i, step);
    for (; c < p.channels; ++c)
      for (int64_t k = i; k < i + 4; ++k) to[c * step + k] = from[k * pixel + c * channel];
  }
  for (; i < pixels; ++i)
    for (int64_t c = 0; c < p.channels; ++c) to[c * step + i] = from[i * pixel + c * channel];
}
// A line's n numbers, `pixel` apart, dealt out to S phases; the first one is column `pad`.
template <int S, class T>
TYCHO_INLINE void deal(const T* from, int64_t pixel, int64_t n, int64_t pad, T* to, int64_t phase) {
  const auto place = [&](int64_t i) { return (pad + i) % S * phase + (pad + i) / S; };
  int64_t i = 0;
  for (; i < n && (pad + i) % S; ++i) to[place(i)] = from[i * pixel];
  T* at = to + (pad + i) / S;
#if defined(TYCHO_LEVEL_v3) || defined(TYCHO_LEVEL_v4)
  if constexpr (sizeof(T) == 4)
    for (; S == 2 && pixel == 1 && i + 16 <= n; i += 16, at += 8) {
      const __m256 a = _mm256_loadu_ps(from + i), b = _mm256_loadu_ps(from + i + 8);
      const auto joined = [](__m256 x) __attribute__((always_inline)) {
        return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xd8));
      };
      _mm256_storeu_ps(at, joined(_mm256_shuffle_ps(a, b, 0x88)));
      _mm256_storeu_ps(at + phase, joined(_mm256_shuffle_ps(a, b, 0xdd)));
    }
#endif
#pragma GCC unroll 4
  for (; i + S <= n; i += S, ++at)
#pragma GCC unroll 4
    for (int s = 0; s < S; ++s) at[s * phase] = from[(i + s) * pixel];
  for (; i < n; ++i) to[place(i)] = from[i * pixel];
}
// The same into phases.
template <class T>
void spread_phases(const FewChannels& p, const Pixels& x, const T* from, int64_t pixels, T* line,
                   int64_t step) {
  const int64_t stride = p.stride[2], pad = p.pad[2];
  for (int64_t c = 0; c < p.channels; ++c, from += x.channel, line += step) {
    if (stride <= 4) {
      (stride == 2   ? deal<2, T>
       : stride == 3 ? deal<3, T>
                     : deal<4, T>)(from, x.pixel, pixels, pad, line, p.phase);
      continue;
    }
    int64_t phase = pad % stride, at = pad / stride;
    for (int64_t i = 0; i < pixels; ++i) {
      line[phase * p.phase + at] = from[i * x.pixel];
      if (++phase == stride) phase = 0, ++at;
    }
  }
}

// O channels of X lanes of a line of the result, from column `at` on; z and y are the place of its
// first tap.
template <class T, int O, int X>
void block(const FewChannels& p, const T* planes, const T* w, const T* bias, int64_t z, int64_t y,
           int64_t at, T* to, int64_t pixel) {
  using L = Lane<T>;
  L sum[O][X];
#pragma GCC unroll 8
  for (int o = 0; o < O; ++o)
#pragma GCC unroll 8
    for (int k = 0; k < X; ++k) sum[o][k] = L(bias ? bias[o] : T(0));
  const int64_t stride = p.stride[2], width = p.line();
  const int64_t whole = p.dilation[2] / stride, part = p.dilation[2] % stride;
  for (int64_t c = 0; c < p.channels; ++c)
    for (int64_t kz = 0; kz < p.kernel[0]; ++kz) {
      const int64_t iz = z + kz * p.dilation[0];
      if (iz < 0 || iz >= p.in[0]) continue;
      for (int64_t ky = 0; ky < p.kernel[1]; ++ky) {
        const int64_t iy = y + ky * p.dilation[1];
        if (iy < 0 || iy >= p.in[1]) continue;
        const T* line = planes + ((c * p.in[0] + iz) * p.in[1] + iy) * width + at;
        const T* tap = w + ((c * p.kernel[0] + kz) * p.kernel[1] + ky) * p.kernel[2] * O;
        int64_t phase = 0;
        for (int64_t kx = 0; kx < p.kernel[2]; ++kx, tap += O) {
          L x[X];
#pragma GCC unroll 8
          for (int k = 0; k < X; ++k) x[k] = L::load(line + k * L::size);
#pragma GCC unroll 8
          for (int o = 0; o < O; ++o) {
            const L by(tap[o]);
#pragma GCC unroll 8
            for (int k = 0; k < X; ++k) sum[o][k] = fma(x[k], by, sum[o][k]);
          }
          if (kx + 1 == p.kernel[2]) break;
          line += whole + part * p.phase;
          phase += part;
          if (phase >= stride) phase -= stride, line += 1 - stride * p.phase;
        }
      }
    }
  alignas(64) T tile[O][X * L::size];
#pragma GCC unroll 8
  for (int o = 0; o < O; ++o)
#pragma GCC unroll 8
    for (int k = 0; k < X; ++k) sum[o][k].store(tile[o] + k * L::size);
  const int64_t left = p.out[2] - at, n = left < X * L::size ? left : X * L::size;
  int64_t i = 0;
  if constexpr (O >= 4)
    for (; i + 4 <= n; i += 4) {  // four channels at a time, of which the last may be written twice
      turn4(tile[0] + i, X * L::size, to + i * pixel, pixel);
      if constexpr (O > 4) turn4(tile[O - 4] + i, X * L::size, to + i * pixel + O - 4, pixel);
    }
  for (; i < n; ++i)
#pragma GCC unroll 8
    for (int o = 0; o < O; ++o) to[i * pixel + o] = tile[o][i];
}

template <class T>
using Block = void (*)(const FewChannels&, const T*, const T*, const T*, int64_t, int64_t, int64_t,
                       T*, int64_t);
template <class T, int X>
constexpr Block<T> kBlocks[FewChannels::kMost] = {block<T, 1, X>,
                                                  block<T, 2, (X < 4 ? X : 4)>,
                                                  block<T, 3, (X < 2 ? X : 2)>,
                                                  block<T, 4, (X < 2 ? X : 2)>,
                                                  block<T, 5, (X < 2 ? X : 2)>,
                                                  block<T, 6, (X < 2 ? X : 2)>,
                                                  block<T, 7, (X < 2 ? X : 2)>,
                                                  block<T, 8, (X < 2 ? X : 2)>};

// Lanes of a block: as many sums as hide that each product waits for the one before, where registers
// hold them.
int most_lanes(const FewChannels& p) {
  const int o = static_cast<int>(p.out_channels);
  return o == 1 ? 8 : o == 2 ? 4 : o * 2 + 3 > kRegisters ? 1 : 2;
}

template <class T>
void units_of(const FewChannels& p, const Pixels& x, const T* w, const T* bias, T* y, int64_t begin,
              int64_t end, T* scratch) {
  constexpr int64_t size = Lane<T>::size;
  const int64_t width = p.line(), lines = p.in[0] * p.in[1], plane = lines * width;
  const int64_t to_pixel = p.out_channels * p.groups;
  const int64_t weights = p.channels * p.kernel[0] * p.kernel[1] * p.kernel[2] * p.out_channels;
  const int64_t room = width - p.pad[2];  // columns behind are seen by no tap
  const int64_t used = p.in[2] < room ? p.in[2] : room < 0 ? 0 : room;
  memset(scratch, 0, p.channels * plane * sizeof(T));
  const int most = most_lanes(p);
  const int64_t o = p.out_channels - 1;
  const Block<T> blocks[] = {kBlocks<T, 1>[o], kBlocks<T, 2>[o], kBlocks<T, 4>[o],
                             kBlocks<T, 8>[o]};
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t n = unit / p.groups, g = unit % p.groups;
    for (int64_t row = 0; row < lines; ++row) {
      const T* from = static_cast<const T*>(x.data) + n * x.image + g * p.channels * x.channel +
                      row * p.in[2] * x.pixel;
      (p.stride[2] == 1
           ? spread_line<T>
           : spread_phases<T>)(p, x, from, used,
                               scratch + row * width + (p.stride[2] == 1 ? p.pad[2] : 0), plane);
    }
    const T* const wg = w + g * weights;
    const T* const bias_g = bias ? bias + g * p.out_channels : nullptr;
    for (int64_t row = 0; row < p.out[0] * p.out[1]; ++row) {
      const int64_t z = row / p.out[1] * p.stride[0] - p.pad[0];
      const int64_t top = row % p.out[1] * p.stride[1] - p.pad[1];
      T* const to = y + (n * p.out[0] * p.out[1] + row) * p.out[2] * to_pixel + g * p.out_channels;
      for (int64_t at = 0; at < p.out[2];) {
        int lanes = most, which = most == 8 ? 3 : most / 2;
        while (lanes > 1 && (lanes - 1) * size >= p.out[2] - at) lanes /= 2, --which;
        blocks[which](p, scratch, wg, bias_g, z, top, at, to + at * to_pixel, to_pixel);
        at += lanes * size;
      }
    }
  }
}

}  // namespace

int64_t conv_few_phase(const FewChannels* p) {
  const int64_t lane = p->f64 ? Lane<double>::size : Lane<float>::size;
  return ((p->out[2] + lane - 1) / lane * lane +
          (p->kernel[2] - 1) * p->dilation[2] / p->stride[2] + 15) /
         16 * 16;
}

void conv_few(const FewChannels* p, const Pixels* x, const void* w, const void* bias, void* y,
              int64_t begin, int64_t end, void* scratch) {
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    units_of(*p, *x, static_cast<const T*>(w), static_cast<const T*>(bias), static_cast<T*>(y),
             begin, end, static_cast<T*>(scratch));
  };
  p->f64 ? run(0.0) : run(0.f);
}

}  // namespace tycho::cpu::TYCHO_LEVEL
