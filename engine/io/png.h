// Pictures as PNG files, from the bytes of their pixels (those of tensors: image.h).
#pragma once
#include <cstdint>
#include <string>

namespace tycho::io {

// The bytes of a PNG of 8 bits per channel: 1 (grey), 2 (grey and alpha), 3 (RGB) or 4 (RGBA)
// channels, rows from the top without gaps; with `bytes` = 2, of 16 bits in this machine's order.
// Raises Kind::Value for sizes that no PNG has, Kind::Io where libpng gives up.
std::string encode_png(int64_t width, int64_t height, int channels, const uint8_t* pixels,
                       int bytes = 1);

// The same into a file, which is whole or untouched.
void write_png(const std::string& path, int64_t width, int64_t height, int channels,
               const uint8_t* pixels);

}  // namespace tycho::io
