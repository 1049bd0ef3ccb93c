// Pictures as PNG files; see the header.
#include "engine/io/png.h"

#include <png.h>

#include "engine/io/file.h"

namespace tycho::io {
namespace {

// libpng reports errors by a function that must not return; C++ exceptions may pass through it.
[[noreturn]] void give_up(png_structp, png_const_charp why) {
  fail(Kind::Io, std::string("the PNG cannot be written: ") + why);
}

void append(png_structp png, png_bytep data, size_t bytes) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<char*>(data), bytes);
}

struct Writer {
  png_structp png = nullptr;
  png_infop info = nullptr;
  ~Writer() { png_destroy_write_struct(&png, &info); }
};

}  // namespace

std::string encode_png(int64_t width, int64_t height, int channels, const uint8_t* pixels) {
  constexpr int64_t kMost = 1000000;
  TYCHO_CHECK(Kind::Value, width > 0 && height > 0 && width <= kMost && height <= kMost,
              "a PNG cannot have %lld x %lld pixels", static_cast<long long>(width),
              static_cast<long long>(height));
  TYCHO_CHECK(Kind::Value, channels == 1 || channels == 3 || channels == 4,
              "a PNG has 1, 3 or 4 channels, not %d", channels);
  std::string out;
  Writer w;
  w.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, give_up, nullptr);
  if (w.png) w.info = png_create_info_struct(w.png);
  if (!w.info) fail(Kind::Oom, "out of memory");
  png_set_write_fn(w.png, &out, append, nullptr);
  png_set_IHDR(w.png, w.info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height), 8,
               channels == 1   ? PNG_COLOR_TYPE_GRAY
               : channels == 3 ? PNG_COLOR_TYPE_RGB
                               : PNG_COLOR_TYPE_RGB_ALPHA,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(w.png, w.info);
  for (int64_t y = 0; y < height; ++y) png_write_row(w.png, pixels + y * width * channels);
  png_write_end(w.png, nullptr);
  return out;
}

void write_png(const std::string& path, int64_t width, int64_t height, int channels,
               const uint8_t* pixels) {
  const std::string bytes = encode_png(width, height, channels, pixels);
  atomic_write(path, [&](Output& out) { out.write(bytes); });
}

}  // namespace tycho::io
