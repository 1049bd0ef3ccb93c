// Pictures as PNG files, through libpng.
#pragma once
#include <cstdint>
#include <string>

namespace tycho::io {

// The bytes of a PNG of 8 bits per channel: 1 (grey), 3 (RGB) or 4 (RGBA) channels, rows from the
// top without gaps. Raises Kind::Value for sizes that no PNG has, Kind::Io where libpng gives up.
std::string encode_png(int64_t width, int64_t height, int channels, const uint8_t* pixels);

// The same into a file, which is whole or untouched.
void write_png(const std::string& path, int64_t width, int64_t height, int channels,
               const uint8_t* pixels);

}  // namespace tycho::io
