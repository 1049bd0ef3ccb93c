// Pictures in files: PNG (png.cpp), JPEG (jpeg.cpp) and the portable anymaps PBM, PGM and PPM
// (pnm.cpp), read by what they begin with. Whatever a file holds, its size is checked before memory
// is taken, and what is wrong with it raises Kind::Io and names it.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "engine/tensor/tensor.h"

namespace tycho::io {

// Rows from the top, without gaps; the channels of a pixel lie side by side.
struct Picture {
  int64_t width = 0, height = 0;
  int channels = 0;  // 1 (grey), 2 (grey, alpha), 3 (RGB) or 4 (RGBA)
  int bytes = 1;     // of one sample: 1 (up to 255) or 2 (up to 65535, this machine's byte order)
  std::unique_ptr<uint8_t[]> pixels;

  size_t row() const { return static_cast<size_t>(width * channels * bytes); }
};

enum class Channels : uint8_t { AsInFile = 0, Gray = 1, Rgb = 3, Rgba = 4 };

// What a reader is told: the file's name for errors, and the most pixels that a picture may have.
struct PictureLimits {
  const std::string& name;
  int64_t pixels;
};

// Takes memory for a picture of this size, or raises because it is too large.
void make_room(Picture* p, const PictureLimits& limits);

bool is_png(std::string_view bytes);
bool is_jpeg(std::string_view bytes);
bool is_pnm(std::string_view bytes);
Picture decode_png(std::string_view bytes, const PictureLimits& limits);
// `gray`: only the brightness is wanted, which JPEG keeps apart.
Picture decode_jpeg(std::string_view bytes, const PictureLimits& limits, bool gray);
Picture decode_pnm(std::string_view bytes, const PictureLimits& limits);

// Any of them, as a tensor [channels, height, width] of uint8; with `wide`, pictures of two bytes
// per sample become int32 with values up to 65535 instead of losing their lower half.
Tensor decode_image(std::string_view bytes, const PictureLimits& limits, Channels channels,
                    bool wide);

// The bytes of a file, from a picture of 1, 3 or (PNG) 2 and 4 channels; JPEG has one byte per
// sample and a quality of 1 to 100.
std::string encode_png(const Picture& p);
std::string encode_jpeg(const Picture& p, int quality);
std::string encode_pnm(const Picture& p);

}  // namespace tycho::io
