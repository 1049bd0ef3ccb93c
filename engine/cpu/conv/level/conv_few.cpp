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

// A line of pixels, apart from each other, into planes of its channels, `step` apart.
template <class T>
void spread_line(const T* from, int64_t pixel, int64_t pixels, int64_t channel, int64_t channels,
                 T* to, int64_t step) {
  int64_t i = 0;
  for (; i + 4 <= pixels; i += 4) {
    int64_t c = 0;
    for (; channel == 1 && c + 4 <= channels; c += 4)
      turn4(from + i * pixel + c, pixel, to + c * step + i, step);
    for (; c < channels; ++c)
      for (int64_t k = i; k < i + 4; ++k) to[c * step + k] = from[k * pixel + c * channel];
  }
  for (; i < pixels; ++i)
    for (int64_t c = 0; c < channels; ++c) to[c * step + i] = from[i * pixel + c * channel];
}

// Which places of dimension d are under a tap, by their distance from the first window's beginning
// modulo the stride: as bits; of more than 64, all of them.
uint64_t phases_read(const FewChannels& p, int d) {
  const int64_t stride = p.stride[d];
  if (stride > 64) return ~uint64_t{0};
  uint64_t read = 0;
  for (int64_t k = 0; k < p.kernel[d]; ++k) read |= uint64_t{1} << k * p.dilation[d] % stride;
  return read;
}
bool is_read(uint64_t read, int64_t phase) { return phase >= 64 || read >> phase & 1; }

// A dense line's n numbers dealt out to S phases; the first one is column `pad`.
template <int S, class T>
TYCHO_INLINE void deal(const T* from, int64_t n, int64_t pad, T* to, int64_t phase) {
  const auto place = [&](int64_t i) { return (pad + i) % S * phase + (pad + i) / S; };
  int64_t i = 0;
  for (; i < n && (pad + i) % S; ++i) to[place(i)] = from[i];
  T* at = to + (pad + i) / S;
#if defined(TYCHO_LEVEL_v3)
  if constexpr (sizeof(T) == 4)
    for (; S == 2 && i + 16 <= n; i += 16, at += 8) {
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
    for (int s = 0; s < S; ++s) at[s * phase] = from[i + s];
  for (; i < n; ++i) to[place(i)] = from[i];
}
template <class T>
void deal_line(const FewChannels& p, const T* from, int64_t n, T* to) {
  const int64_t stride = p.stride[2], pad = p.pad[2];
  if (stride == 1) return static_cast<void>(memcpy(to + pad, from, n * sizeof(T)));
  if (stride <= 4)
    return (stride == 2   ? deal<2, T>
            : stride == 3 ? deal<3, T>
                          : deal<4, T>)(from, n, pad, to, p.phase);
  int64_t phase = pad % stride, at = pad / stride;
  for (int64_t i = 0; i < n; ++i) {
    to[phase * p.phase + at] = from[i];
    if (++phase == stride) phase = 0, ++at;
  }
}

#if defined(TYCHO_LEVEL_v4)
// The same of dense lines, and only phases that are read: lanes of a line are squeezed to what is of one
// phase. As many lanes as there are phases are a turn; what is done for one is written down once, as all
// lines are alike.
template <class T>
struct Squeeze {
  static constexpr int64_t kMost = 8, size = Lane<T>::size;  // phases
  struct Step {
    int64_t from, to;
    uint32_t there, take, made;  // numbers that are read, that are of the phase, as the first ones
  };
  Step step[2][kMost * kMost];  // of whole turns, and of what is left
  int count[2] = {0, 0};
  int64_t turns, turn;

  Squeeze(const FewChannels& p, int64_t n, uint64_t read)
      : turns(n / (size * p.stride[2])), turn(size * p.stride[2]) {
    for (int part = 0; part < 2; ++part)
      for (int64_t i = 0, end = part ? n % turn : turn; i < end; i += size)
        for (int64_t s = 0; s < p.stride[2]; ++s) {
          Step now{i, 0, 0, 0, 0};
          for (int64_t j = 0; j < size && i + j < end; ++j) {
            const int64_t column = p.pad[2] + i + j;
            now.there |= 1u << j;
            if (column % p.stride[2] != s) continue;
            if (!now.take) now.to = s * p.phase + column / p.stride[2];
            now.take |= 1u << j, now.made = now.made << 1 | 1;
          }
          if (now.take && is_read(read, s)) step[part][count[part]++] = now;
        }
  }
  TYCHO_INLINE void operator()(const T* from, T* to) const {
    for (int64_t k = 0; k < turns; ++k, from += turn, to += size)
      for (int i = 0; i < count[0]; ++i) one(step[0][i], from, to);
    for (int i = 0; i < count[1]; ++i) one(step[1][i], from, to);
  }
  TYCHO_INLINE static void one(const Step& s, const T* from, T* to) {
    if constexpr (sizeof(T) == 4)
      _mm512_mask_storeu_ps(
          to + s.to, static_cast<__mmask16>(s.made),
          _mm512_maskz_compress_ps(
              static_cast<__mmask16>(s.take),
              _mm512_maskz_loadu_ps(static_cast<__mmask16>(s.there), from + s.from)));
    else
      _mm512_mask_storeu_pd(
          to + s.to, static_cast<__mmask8>(s.made),
          _mm512_maskz_compress_pd(
              static_cast<__mmask8>(s.take),
              _mm512_maskz_loadu_pd(static_cast<__mmask8>(s.there), from + s.from)));
  }
};
#endif

// Calls f(row) for lines that are read.
template <class F>
TYCHO_INLINE void each_line(const FewChannels& p, F f) {
  const uint64_t planes = phases_read(p, 0), lines = phases_read(p, 1);
  for (int64_t z = 0, row = 0; z < p.in[0]; ++z) {
    const bool reads = is_read(planes, (z + p.pad[0]) % p.stride[0]);
    int64_t phase = p.pad[1] % p.stride[1];
    for (int64_t y = 0; y < p.in[1]; ++y, ++row) {
      if (reads && is_read(lines, phase)) f(row);
      if (++phase == p.stride[1]) phase = 0;
    }
  }
}
// The lines of image n that are read, for the channels of group g.
template <class T>
void spread_image(const FewChannels& p, const Pixels& x, int64_t n, int64_t g, T* planes) {
  const int64_t width = p.line(), plane = p.in[0] * p.in[1] * width, stride = p.stride[2];
  const int64_t room = width - p.pad[2];  // columns behind are seen by no tap
  const int64_t used = p.in[2] < room ? p.in[2] : room < 0 ? 0 : room;
  const uint64_t read = phases_read(p, 2);
  const T* const image = static_cast<const T*>(x.data) + n * x.image + g * p.channels * x.channel;
  const int64_t from_line = x.line_step(p.in[2]);
  const auto each_plane_line = [&](auto f) {
    for (int64_t c = 0; c < p.channels; ++c)
      each_line(p, [&](int64_t row) {
        f(image + c * x.channel + row * from_line, planes + c * plane + row * width);
      });
  };
  if (x.pixel != 1)  // phase by phase, all channels of four pixels together
    return each_line(p, [&](int64_t row) {
      for (int64_t first = 0; first < stride && first < used; ++first) {
        const int64_t column = p.pad[2] + first;
        if (is_read(read, column % stride))
          spread_line(image + row * from_line + first * x.pixel, x.pixel * stride,
                      (used - first + stride - 1) / stride, x.channel, p.channels,
                      planes + row * width + column % stride * p.phase + column / stride, plane);
      }
    });
#if defined(TYCHO_LEVEL_v4)
  if (stride > 1 && stride <= Squeeze<T>::kMost) return each_plane_line(Squeeze<T>(p, used, read));
#endif
  each_plane_line([&](const T* from, T* to) { deal_line(p, from, used, to); });
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
  memset(scratch, 0, p.channels * plane * sizeof(T));
  const int most = most_lanes(p);
  const int64_t o = p.out_channels - 1;
  const Block<T> blocks[] = {kBlocks<T, 1>[o], kBlocks<T, 2>[o], kBlocks<T, 4>[o],
                             kBlocks<T, 8>[o]};
  for (int64_t unit = begin; unit < end; ++unit) {
    const int64_t n = unit / p.groups, g = unit % p.groups;
    spread_image(p, x, n, g, scratch);
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
