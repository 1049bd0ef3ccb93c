// What a convolution asks of oneDNN, and how it is cut into pieces: of images, of lines where there are few
// images, or of a line's stretches where it is the only one.
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

// A part of a convolution: some images, or some lines of one; where that is a line, a stretch of it.
struct ConvPiece {
  ConvKey key;
  int64_t x = 0, y = 0;  // where it begins, in elements
};

struct ConvCut {
  const ConvKey& whole;
  int64_t images, lines;  // of a piece
  int64_t count;
  int d;  // the dimension that is cut: 1, lines, or 2, stretches of the only one

  // Pieces of at most `most` multiply-adds, at least `want` of them if the work is large enough.
  ConvCut(const ConvKey& k, int64_t want, double most, bool by_lines) : whole(k) {
    const double work = work_of(k), image = work / static_cast<double>(k.images);
    if (work + 8 * moved_by(k) < 1 << 21) want = 1;  // one moved takes as long as some eight
    images = std::max<int64_t>(1, (k.images + want - 1) / want);
    images = std::clamp<int64_t>(static_cast<int64_t>(most / image), 1, images);
    d = k.in[1] == 1 && k.out[1] == 1 && k.kernel[1] == 1 && k.front[1] == 0 ? 2 : 1;
    lines = k.out[d];
    // oneDNN goes through a line once for each block of channels: both ends of it are to stay near.
    constexpr int64_t kNearNumbers = 1 << 16;
    const int64_t line = k.out[2] * k.out_channels + k.in[2] * k.channels;
    const int64_t near = d == 2 && k.kernel[2] > 1 ? line / kNearNumbers : 0;
    const int64_t parts =
        std::max({(want + k.images - 1) / k.images, static_cast<int64_t>(image / most) + 1, near});
    if (by_lines && parts > 1 && (images == 1 || near > 1) && !is_volume(k) &&
        pads_less_than_kernel(k, d))
      lines = std::max<int64_t>(1, (k.out[d] + parts - 1) / parts);
    per_image = (k.out[d] + lines - 1) / lines;
    count = lines == k.out[d] ? (k.images + images - 1) / images : k.images * per_image;
  }

  ConvPiece piece(int64_t i) const {
    ConvPiece p{whole};
    ConvKey& k = p.key;
    const int64_t x_line = k.in[2] * k.channels, y_line = k.out[2] * k.out_channels;
    const int64_t x_image = k.in[0] * k.in[1] * x_line, y_image = k.out[0] * k.out[1] * y_line;
    if (lines == whole.out[d]) {
      k.images = std::min(images, whole.images - i * images);
      p.x = i * images * x_image, p.y = i * images * y_image;
      return p;
    }
    const int64_t image = i / per_image, from = i % per_image * lines,
                  to = std::min(whole.out[d], from + lines);
    const int64_t begin = from * k.stride[d] - k.front[d];
    const int64_t end = (to - 1) * k.stride[d] - k.front[d] + (k.kernel[d] - 1) * k.dilation[d] + 1;
    const int64_t first = std::max<int64_t>(0, begin), last = std::min(k.in[d], end);
    k.images = 1;
    k.out[d] = to - from;
    k.in[d] = last - first;
    k.front[d] = first - begin;
    p.x = image * x_image + first * (d == 1 ? x_line : k.channels);
    p.y = image * y_image + from * (d == 1 ? y_line : k.out_channels);
    return p;
  }

 private:
  int64_t per_image;
  // Then every line of the result sees some of the image.
  static bool pads_less_than_kernel(const ConvKey& k, int d) {
    const int64_t reach = (k.kernel[d] - 1) * k.dilation[d] + 1;
    const int64_t back = (k.out[d] - 1) * k.stride[d] + reach - k.in[d] - k.front[d];
    return k.front[d] < reach && back < reach && k.in[d] >= reach;
  }
};

}  // namespace tycho::cpu
