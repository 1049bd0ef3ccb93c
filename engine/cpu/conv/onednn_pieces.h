// What a convolution asks of oneDNN, and how it is cut into pieces: of images, of slices of volumes or lines where there
// are few images, or of a line's stretches where it is the only one.
#pragma once
#include <algorithm>

#include "engine/cpu/conv/conv.h"
#include "engine/cpu/library/onednn_cache.h"

namespace tycho::cpu {

enum ConvAsked : int64_t { kConvForward, kConvInput, kConvWeight };

// One primitive: what it computes, and every size. Plain numbers, so that it can be compared.
struct ConvKey {
  int64_t kind, dtype, weight_dtype, bias;
  int64_t images, channels, groups, out_channels;
  int64_t in[3], out[3], kernel[3], stride[3], front[3], dilation[3];
  int64_t weight_stride[5];
  bool operator==(const ConvKey&) const = default;
  size_t hash() const {
    size_t h = 0;
    const auto* p = reinterpret_cast<const int64_t*>(this);
    for (size_t i = 0; i < sizeof(ConvKey) / sizeof(int64_t); ++i) hash_in(h, p[i]);
    return h;
  }
};

// Images have two spatial dimensions, or three where the first one does something.
inline bool is_volume(const ConvKey& k) {
  return k.in[0] != 1 || k.out[0] != 1 || k.kernel[0] != 1 || k.front[0] != 0;
}

inline double work_of(const ConvKey& k) {
  double work =
      static_cast<double>(k.images * k.out_channels) * static_cast<double>(k.channels / k.groups);
  for (int d = 0; d < 3; ++d) work *= static_cast<double>(k.out[d] * k.kernel[d]);
  return work;
}

// Numbers from memory and to it.
inline double moved_by(const ConvKey& k) {
  return static_cast<double>(k.images) *
         (static_cast<double>(k.in[0] * k.in[1] * k.in[2]) * static_cast<double>(k.channels) +
          static_cast<double>(k.out[0] * k.out[1] * k.out[2]) *
              static_cast<double>(k.out_channels));
}

// A part of a convolution: some images, or some slices or lines of one's result (which is x where its gradient is asked
// for); where that is a line, a stretch of it.
struct ConvPiece {
  ConvKey key;
  int64_t x = 0, y = 0;  // where it begins, in elements
};

struct ConvCut {
  const ConvKey& whole;
  int64_t images, lines;  // of a piece
  int64_t count;
  int d;  // the dimension that is cut: 0, slices of a volume, 1, lines, or 2, stretches of the only one

  // Pieces of at most `most` multiply-adds, at least `want` of them if the work is large enough.
  ConvCut(const ConvKey& k, int64_t want, double most) : whole(k) {
    const double work = work_of(k), image = work / static_cast<double>(k.images);
    // Of pieces there are none of less than some 3 us; one number moved takes as long as some eight multiply-adds.
    constexpr double kLeast = 1 << 18;
    const double all_work = work + 8 * moved_by(k);
    const bool little = all_work < 2 * kLeast;
    want = std::clamp<int64_t>(static_cast<int64_t>(all_work / kLeast), 1, want);
    images = std::max<int64_t>(1, (k.images + want - 1) / want);
    images = std::clamp<int64_t>(static_cast<int64_t>(most / image), 1, images);
    const bool line_alone = k.in[1] == 1 && k.out[1] == 1 && k.kernel[1] == 1 && k.front[1] == 0;
    d = is_volume(k) ? 0 : line_alone ? 2 : 1;
    const int64_t all = cut_lines();
    lines = all;
    // oneDNN goes through a line once for each block of channels: both ends of it are to stay near.
    constexpr int64_t kNearNumbers = 1 << 16;
    const int64_t line = k.out[2] * k.out_channels + k.in[2] * k.channels;
    const int64_t near = d == 2 && k.kernel[2] > 1 ? line / kNearNumbers : 0;
    int64_t shares = (want + k.images - 1) / k.images;
    // How terms of a stretch's gradient are added may depend on its length, which then is the same for any
    // number of threads.
    constexpr int64_t kFewImages = 4, kStretches = 4;
    if (k.kind == kConvInput && d == 2) {
      shares = little || k.images >= kFewImages ? 1 : kStretches;
      if (shares > 1) images = 1;
    }
    const int64_t parts = std::max({shares, static_cast<int64_t>(image / most) + 1, near});
    const bool stays_volume = d != 0 || k.kernel[0] > 1;
    if (parts > 1 && (images == 1 || near > 1) && stays_volume && pads_less_than_kernel(k, d))
      lines = std::max<int64_t>(1, (all + parts - 1) / parts);
    if (k.kind == kConvInput)
      lines = std::min(all, (lines + k.stride[d] - 1) / k.stride[d] * k.stride[d]);
    per_image = (all + lines - 1) / lines;
    count = lines == all ? (k.images + images - 1) / images : k.images * per_image;
  }

  ConvPiece piece(int64_t i) const {
    ConvPiece p{whole};
    ConvKey& k = p.key;
    const int64_t x_line = k.in[2] * k.channels, y_line = k.out[2] * k.out_channels;
    const int64_t x_image = k.in[0] * k.in[1] * x_line, y_image = k.out[0] * k.out[1] * y_line;
    if (lines == cut_lines()) {
      k.images = std::min(images, whole.images - i * images);
      p.x = i * images * x_image, p.y = i * images * y_image;
      return p;
    }
    const int64_t image = i / per_image, from = i % per_image * lines,
                  to = std::min(cut_lines(), from + lines), step = k.stride[d], front = k.front[d],
                  reach = reach_of(k, d);
    k.images = 1;
    int64_t x_first = from, y_first = from;
    if (k.kind == kConvInput) {  // the lines of y that see any of these
      const int64_t before = from + front - (reach - 1);
      y_first = before > 0 ? (before + step - 1) / step : 0;
      k.in[d] = to - from;
      k.out[d] = std::min(k.out[d], (to - 1 + front) / step + 1) - y_first;
      k.front[d] = from + front - y_first * step;
    } else {
      const int64_t begin = from * step - front, end = (to - 1) * step - front + reach;
      x_first = std::max<int64_t>(0, begin);
      k.out[d] = to - from;
      k.in[d] = std::min(k.in[d], end) - x_first;
      k.front[d] = x_first - begin;
    }
    p.x = image * x_image + x_first * (d == 0 ? k.in[1] * x_line : d == 1 ? x_line : k.channels);
    p.y = image * y_image + y_first * (d == 0   ? k.out[1] * y_line
                                       : d == 1 ? y_line
                                                : k.out_channels);
    return p;
  }

 private:
  int64_t per_image;
  int64_t cut_lines() const { return whole.kind == kConvInput ? whole.in[d] : whole.out[d]; }
  static int64_t reach_of(const ConvKey& k, int d) { return (k.kernel[d] - 1) * k.dilation[d] + 1; }
  // Then every line of the result sees some of the image, and each of the image is seen.
  static bool pads_less_than_kernel(const ConvKey& k, int d) {
    const int64_t reach = reach_of(k, d);
    const int64_t back = (k.out[d] - 1) * k.stride[d] + reach - k.in[d] - k.front[d];
    if (k.kind == kConvInput && (back < 0 || k.stride[d] > reach)) return false;
    return k.front[d] < reach && back < reach && k.in[d] >= reach;
  }
};

}  // namespace tycho::cpu
