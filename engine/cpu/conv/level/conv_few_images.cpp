// Convolutions with few channels in the result, lanes over images: numbers of as many images as a lane
// has are laid side by side, a few pixels of all their results are summed in registers, and a line of
// results is turned back.
#include "engine/cpu/conv/conv_few.h"
#include "engine/cpu/lanes/fold_lanes.h"
#include "engine/cpu/lanes/transpose.h"
#include "engine/cpu/lanes/vec.h"

namespace tycho::cpu::TYCHO_LEVEL {

#if defined(TYCHO_LEVEL_v3) || defined(TYCHO_LEVEL_v4)

namespace {

using Images = Lane<float>;
constexpr int64_t kImages = Images::size;
#if defined(TYCHO_LEVEL_v4)
constexpr int kImageSums = 24;  // in registers
#else
constexpr int kImageSums = 12;
#endif

// The block's images, a lane for each of their numbers: plane after plane, or with `together` pixel after pixel.
void gather_images(const Pixels& x, int64_t pixels, int64_t channels, bool together,
                   const float* from, float* to) {
  const bool planes = x.pixel == 1 && channels > 1;  // or channels lie side by side
  const int64_t count = pixels * channels, inner = planes ? pixels : channels;
  const int64_t of_pixel = (together ? channels : 1) * kImages,
                of_channel = (together ? 1 : pixels) * kImages;
  const int64_t step = planes ? of_pixel : of_channel, next = planes ? of_channel : of_pixel;
  int64_t at = 0;  // of a line of pixels or channels, in the order of memory
  float* line = to;
  const auto go_on = [&](int64_t n) {
    at += n;
    if (at == inner) at = 0, line += next;
  };
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    if (at + 4 <= inner) {
      transpose_lane(from + i, x.image, line + at * step, step);
      go_on(4);
      continue;
    }
    alignas(64) float four[4 * kImages];
    transpose_lane(from + i, x.image, four, kImages);
    for (int k = 0; k < 4; ++k, go_on(1)) Images::load(four + k * kImages).store(line + at * step);
  }
  for (; i < count; ++i, go_on(1))
    for (int64_t n = 0; n < kImages; ++n) line[at * step + n] = from[n * x.image + i];
}

// Numbers of a line, each for all images, to where every image has them.
void scatter_images(const float* from, int64_t n, float* to, int64_t image) {
  int64_t i = 0;
  for (; i + kImages <= n; i += kImages)
    for (int64_t k = 0; k < kImages; k += 4)
      transpose_lane(from + i * kImages + k, kImages, to + i + k * image, image);
  for (; i + 4 <= n; i += 4)
    for (int64_t k = 0; k < kImages; k += 4)
      turn4(from + i * kImages + k, kImages, to + i + k * image, image);
  for (; i < n; ++i)
    for (int64_t k = 0; k < kImages; ++k) to[k * image + i] = from[i * kImages + k];
}

// Taps [begin, end) along a dimension that see something from place `at` on.
struct TapsThere {
  int64_t begin, end;
  TapsThere(const FewChannels& p, int d, int64_t at)
      : begin(at < 0 ? (-at + p.dilation[d] - 1) / p.dilation[d] : 0),
        end(at < p.in[d] ? (p.in[d] - 1 - at) / p.dilation[d] + 1 : 0) {
    if (end > p.kernel[d]) end = p.kernel[d];
    if (begin > end) begin = end;
  }
  bool all(int64_t kernel) const { return begin == 0 && end == kernel; }
};

// O channels of X pixels next to each other, the first tap of the first of which is at column `at`;
// taps `along` see all of them.
template <int O, int X>
void few_pixels(const FewChannels& p, const float* planes, const float* w, const float* bias,
                const TapsThere& deep, const TapsThere& down, const TapsThere& along, int64_t z,
                int64_t y, int64_t at, float* to) {
  Images sum[X][O];
#pragma GCC unroll 8
  for (int k = 0; k < X; ++k)
#pragma GCC unroll 8
    for (int o = 0; o < O; ++o) sum[k][o] = Images(bias ? bias[o] : 0.f);
  const int64_t step = p.dilation[2] * kImages, pixel = p.stride[2] * kImages;
  for (int64_t c = 0; c < p.channels; ++c)
    for (int64_t kz = deep.begin; kz < deep.end; ++kz)
      for (int64_t ky = down.begin; ky < down.end; ++ky) {
        const int64_t line =
            (c * p.in[0] + z + kz * p.dilation[0]) * p.in[1] + y + ky * p.dilation[1];
        const float* seen = planes + (line * p.in[2] + at + along.begin * p.dilation[2]) * kImages;
        const float* tap =
            w + (((c * p.kernel[0] + kz) * p.kernel[1] + ky) * p.kernel[2] + along.begin) * O;
        for (int64_t kx = along.begin; kx < along.end; ++kx, seen += step, tap += O) {
          Images x[X];
#pragma GCC unroll 8
          for (int k = 0; k < X; ++k) x[k] = Images::load(seen + k * pixel);
#pragma GCC unroll 8
          for (int o = 0; o < O; ++o) {
            const Images by(tap[o]);
#pragma GCC unroll 8
            for (int k = 0; k < X; ++k) sum[k][o] = fma(x[k], by, sum[k][o]);
          }
        }
      }
#pragma GCC unroll 8
  for (int k = 0; k < X; ++k)
#pragma GCC unroll 8
    for (int o = 0; o < O; ++o) sum[k][o].store(to + (k * O + o) * kImages);
}

template <int O>
void blocks_of_images(const FewChannels& p, const Pixels& x, const float* w, const float* bias,
                      float* y, int64_t begin, int64_t end, float* scratch) {
  constexpr int most = kImageSums / O;
  float *const planes = scratch, *const results = planes + p.channels * p.pixels_in() * kImages;
  const int64_t image = p.pixels_out() * O;
  for (int64_t b = begin; b < end; ++b) {
    gather_images(x, p.pixels_in(), p.channels, false,
                  static_cast<const float*>(x.data) + b * kImages * x.image, planes);
    for (int64_t row = 0; row < p.out[0] * p.out[1]; ++row) {
      const int64_t z = row / p.out[1] * p.stride[0] - p.pad[0];
      const int64_t top = row % p.out[1] * p.stride[1] - p.pad[1];
      const TapsThere deep(p, 0, z), down(p, 1, top);
      for (int64_t i = 0; i < p.out[2];) {
        const int64_t at = i * p.stride[2] - p.pad[2];
        const TapsThere along(p, 2, at);
        int64_t same = 1;  // pixels of which all taps see something
        if (along.all(p.kernel[2]))
          while (same < most && i + same < p.out[2] &&
                 TapsThere(p, 2, at + same * p.stride[2]).all(p.kernel[2]))
            ++same;
        const auto run = [&]<int X>() {
          few_pixels<O, X>(p, planes, w, bias, deep, down, along, z, top, at,
                           results + i * O * kImages);
          i += X;
        };
        if (same == most)
          run.template operator()<most>();
        else if (same >= 2)
          run.template operator()<2>();
        else
          run.template operator()<1>();
      }
      scatter_images(results, p.out[2] * O, y + b * kImages * image + row * p.out[2] * O, image);
    }
  }
}

// Gradients of X weights of a line of taps, from `kx` on, for O channels of the result's gradient, which is
// `g` with a pixel's channels together; sums go on from what is there.
template <int O, int X>
void few_weights(const FewChannels& p, const float* g, const float* planes, int64_t kz, int64_t ky,
                 int64_t kx, float* sums) {
  Images sum[X][O];
#pragma GCC unroll 4
  for (int k = 0; k < X; ++k)
#pragma GCC unroll 8
    for (int o = 0; o < O; ++o) sum[k][o] = Images::load(sums + (k * O + o) * kImages);
  const int64_t dilation = p.dilation[2], stride = p.stride[2];
  const auto there = [&](int64_t i) { return i >= 0 && i < p.in[2]; };
  for (int64_t row = 0; row < p.out[0] * p.out[1]; ++row) {
    const int64_t iz = row / p.out[1] * p.stride[0] - p.pad[0] + kz * p.dilation[0];
    const int64_t iy = row % p.out[1] * p.stride[1] - p.pad[1] + ky * p.dilation[1];
    if (iz < 0 || iz >= p.in[0] || iy < 0 || iy >= p.in[1]) continue;
    const float* const line = planes + (iz * p.in[1] + iy) * p.in[2] * kImages;
    const float* of = g + row * p.out[2] * O * kImages;
    int64_t at = kx * dilation - p.pad[2];
    for (int64_t i = 0; i < p.out[2]; ++i, at += stride, of += O * kImages) {
      // All of them see something, or each is asked.
      const bool all = there(at) && there(at + (X - 1) * dilation);
#pragma GCC unroll 4
      for (int k = 0; k < X; ++k) {
        if (!all && !there(at + k * dilation)) continue;
        const Images x = Images::load(line + (at + k * dilation) * kImages);
#pragma GCC unroll 8
        for (int o = 0; o < O; ++o) sum[k][o] = fma(x, Images::load(of + o * kImages), sum[k][o]);
      }
    }
  }
#pragma GCC unroll 4
  for (int k = 0; k < X; ++k)
#pragma GCC unroll 8
    for (int o = 0; o < O; ++o) sum[k][o].store(sums + (k * O + o) * kImages);
}

template <int O>
void weights_of_images(const FewChannels& p, const Pixels& g, const Pixels& x, float* w,
                       int64_t begin, int64_t end, float* scratch) {
  constexpr int most = kImageSums / O < 3 ? kImageSums / O : 3;
  const int64_t taps = p.kernel[0] * p.kernel[1] * p.kernel[2], weights = p.channels * taps * O;
  float *const sums = scratch, *const planes = sums + weights * kImages,
               *const of = planes + p.channels * p.pixels_in() * kImages;
  memset(sums, 0, weights * kImages * sizeof(float));
  for (int64_t b = begin; b < end; ++b) {
    gather_images(x, p.pixels_in(), p.channels, false,
                  static_cast<const float*>(x.data) + b * kImages * x.image, planes);
    gather_images(g, p.pixels_out(), O, true,
                  static_cast<const float*>(g.data) + b * kImages * g.image, of);
    for (int64_t c = 0; c < p.channels; ++c)
      for (int64_t t = 0; t < taps;) {
        const int64_t kx = t % p.kernel[2], ky = t / p.kernel[2] % p.kernel[1],
                      kz = t / p.kernel[2] / p.kernel[1], left = p.kernel[2] - kx;
        const auto run = [&]<int X>() {
          few_weights<O, X>(p, of, planes + c * p.pixels_in() * kImages, kz, ky, kx,
                            sums + (c * taps + t) * O * kImages);
          t += X;
        };
        if (most > 2 && left > 2 && left != 4)  // four are two and two
          run.template operator()<most>();
        else if (most > 1 && left > 1)
          run.template operator()<(most < 2 ? most : 2)>();
        else
          run.template operator()<1>();
      }
  }
  for (int64_t i = 0; i < weights; ++i) w[i] = total(Images::load(sums + i * kImages));
}

}  // namespace

int64_t conv_few_block() { return kImages; }

void conv_few_images(const FewChannels* p, const Pixels* x, const float* w, const float* bias,
                     float* y, int64_t begin, int64_t end, float* scratch) {
  static_assert(FewChannels::kLeastOfImages == 4 && FewChannels::kMost == 8);
  constexpr decltype(&blocks_of_images<4>) of[] = {blocks_of_images<4>, blocks_of_images<5>,
                                                   blocks_of_images<6>, blocks_of_images<7>,
                                                   blocks_of_images<8>};
  of[p->out_channels - 4](*p, *x, w, bias, y, begin, end, scratch);
}

void conv_few_weight(const FewChannels* p, const Pixels* g, const Pixels* x, float* w,
                     int64_t begin, int64_t end, float* scratch) {
  constexpr decltype(&weights_of_images<4>) of[] = {weights_of_images<4>, weights_of_images<5>,
                                                    weights_of_images<6>, weights_of_images<7>,
                                                    weights_of_images<8>};
  of[p->out_channels - 4](*p, *g, *x, w, begin, end, scratch);
}

#else

int64_t conv_few_block() { return 0; }
void conv_few_images(const FewChannels*, const Pixels*, const float*, const float*, float*, int64_t,
                     int64_t, float*) {}
void conv_few_weight(const FewChannels*, const Pixels*, const Pixels*, float*, int64_t, int64_t,
                     float*) {}

#endif

}  // namespace tycho::cpu::TYCHO_LEVEL
