// What all formats of pictures share: choosing the reader, sizes, channels and planes; see the
// header.
#include "engine/io/image.h"

#include <cstring>

#include "engine/base/interrupt.h"
#include "engine/io/file.h"

namespace tycho::io {
namespace {

// ITU-R 601's brightness, in 1/65536, rounded: what PNG's and JPEG's own libraries use too.
inline uint32_t brightness(uint32_t r, uint32_t g, uint32_t b) {
  return (19595 * r + 38470 * g + 7471 * b + 32768) >> 16;
}

// One row into the planes of the result, whose first samples of this row are at out[0], out[plane],
// ...
template <class In, class Out, class Scale>
void split_row(const In* in, Out* out, int64_t plane, int64_t width, int have, int want,
               Scale scale) {
  const auto put = [&](int to, auto&& value) {
    Out* const row = out + to * plane;
    for (int64_t x = 0; x < width; ++x) row[x] = static_cast<Out>(value(in + x * have));
  };
  const uint32_t full = sizeof(In) == 1 ? 255 : 65535;
  if (want <= 2 && have >= 3) {
    put(0, [&](const In* p) { return scale(brightness(p[0], p[1], p[2])); });
  } else {
    const int colours = want <= 2 ? 1 : 3;
    for (int c = 0; c < colours; ++c) {
      const int from = have >= 3 ? c : 0;
      put(c, [&](const In* p) { return scale(p[from]); });
    }
  }
  if (want == 2 || want == 4) {
    const bool alpha = have == 2 || have == 4;
    put(want - 1, [&](const In* p) { return scale(alpha ? p[have - 1] : full); });
  }
}

}  // namespace

void make_room(Picture* p, const PictureLimits& limits) {
  const int64_t pixels = p->width * p->height;  // sides are 32-bit numbers
  if (p->width <= 0 || p->height <= 0)
    damaged(limits.name, format("it is %lld x %lld pixels large", static_cast<long long>(p->width),
                                static_cast<long long>(p->height)));
  if (pixels > limits.pixels)
    fail(Kind::Io,
         format("%s has %lld x %lld pixels, more than the %lld that are read", limits.name.c_str(),
                static_cast<long long>(p->width), static_cast<long long>(p->height),
                static_cast<long long>(limits.pixels)),
         format("max_pixels = %lld among the options  -- reads it, if you trust the file",
                static_cast<long long>(pixels)));
  p->pixels = std::make_unique_for_overwrite<uint8_t[]>(p->row() * static_cast<size_t>(p->height));
}

Tensor decode_image(std::string_view bytes, const PictureLimits& limits, Channels channels,
                    bool wide) {
  Picture p;
  if (is_png(bytes))
    p = decode_png(bytes, limits);
  else if (is_jpeg(bytes))
    p = decode_jpeg(bytes, limits, channels == Channels::Gray);
  else if (is_pnm(bytes))
    p = decode_pnm(bytes, limits);
  else
    fail(Kind::Io, limits.name + (bytes.empty() ? " is empty" : " is no PNG, JPEG or PPM picture"));
  const int want = channels == Channels::AsInFile ? p.channels : static_cast<int>(channels);
  const bool keep = wide && p.bytes == 2;
  Tensor t = empty({want, p.height, p.width}, keep ? DType::Int32 : DType::UInt8);
  const int64_t plane = p.width * p.height;
  for (int64_t y = 0; y < p.height; ++y) {
    if (y % 64 == 0) check_interrupt();
    const uint8_t* const row = p.pixels.get() + static_cast<size_t>(y) * p.row();
    if (p.bytes == 1) {
      uint8_t* const out = t.host<uint8_t>() + y * p.width;
      split_row(row, out, plane, p.width, p.channels, want, [](uint32_t v) { return v; });
      continue;
    }
    const uint16_t* const in = reinterpret_cast<const uint16_t*>(row);
    if (keep)
      split_row(in, t.host<int32_t>() + y * p.width, plane, p.width, p.channels, want,
                [](uint32_t v) { return v; });
    else
      split_row(in, t.host<uint8_t>() + y * p.width, plane, p.width, p.channels, want,
                [](uint32_t v) { return (v * 255 + 32895) >> 16; });
  }
  return t;
}

}  // namespace tycho::io
