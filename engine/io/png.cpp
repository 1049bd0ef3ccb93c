// PNG files through libpng; see png.h and image.h.
#include "engine/io/png.h"

#include <png.h>

#include <cstring>

#include "engine/base/interrupt.h"
#include "engine/io/file.h"
#include "engine/io/image.h"

namespace tycho::io {
namespace {

// libpng reports errors by a function that must not return; C++ exceptions may pass through it.
[[noreturn]] void give_up(png_structp, png_const_charp why) {
  fail(Kind::Io, std::string("the PNG cannot be written: ") + why);
}

void append(png_structp png, png_bytep data, size_t bytes) {
  static_cast<std::string*>(png_get_io_ptr(png))->append(reinterpret_cast<char*>(data), bytes);
}

struct PngWriter {
  png_structp png = nullptr;
  png_infop info = nullptr;
  ~PngWriter() { png_destroy_write_struct(&png, &info); }
};

// What is left of the file that is read.
struct Source {
  std::string_view left;
  const std::string& name;
};

[[noreturn]] void bad_file(png_structp png, png_const_charp why) {
  damaged(static_cast<Source*>(png_get_error_ptr(png))->name, why);
}
void no_matter(png_structp, png_const_charp) {}

void take(png_structp png, png_bytep data, size_t bytes) {
  Source* const source = static_cast<Source*>(png_get_io_ptr(png));
  if (bytes > source->left.size()) damaged(source->name, "it ends too early");
  std::memcpy(data, source->left.data(), bytes);
  source->left.remove_prefix(bytes);
}

struct PngReader {
  png_structp png = nullptr;
  png_infop info = nullptr;
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
};

}  // namespace

bool is_png(std::string_view bytes) { return bytes.starts_with("\x89PNG\r\n\x1a\n"); }

Picture decode_png(std::string_view bytes, const PictureLimits& limits) {
  Source source{bytes, limits.name};
  PngReader r;
  r.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source, bad_file, no_matter);
  if (r.png) r.info = png_create_info_struct(r.png);
  if (!r.info) throw std::bad_alloc();
  png_set_read_fn(r.png, &source, take);
  png_read_info(r.png, r.info);
  Picture p;
  p.width = png_get_image_width(r.png, r.info);
  p.height = png_get_image_height(r.png, r.info);
  // deflate makes at most 1032 bytes of one.
  const int64_t raw = p.height * (static_cast<int64_t>(png_get_rowbytes(r.png, r.info)) + 1);
  if (raw / 1032 > static_cast<int64_t>(bytes.size()))
    damaged(limits.name, format("it says that it has %lld x %lld pixels, for which its %zu bytes "
                                "are too few",
                                static_cast<long long>(p.width), static_cast<long long>(p.height),
                                bytes.size()));
  png_set_expand(r.png);  // palettes to RGB, 1, 2 and 4 bits to 8, a transparent colour to alpha
  png_set_swap(r.png);    // 16 bits in this machine's order
  const int passes = png_set_interlace_handling(r.png);
  png_read_update_info(r.png, r.info);
  p.channels = png_get_channels(r.png, r.info);
  p.bytes = png_get_bit_depth(r.png, r.info) == 16 ? 2 : 1;
  make_room(&p, limits);
  for (int pass = 0; pass < passes; ++pass)
    for (int64_t y = 0; y < p.height; ++y) {
      if (y % 16 == 0) check_interrupt();
      png_read_row(r.png, p.pixels.get() + static_cast<size_t>(y) * p.row(), nullptr);
    }
  png_read_end(r.png, nullptr);
  return p;
}

std::string encode_png(const Picture& p) {
  return encode_png(p.width, p.height, p.channels, p.pixels.get(), p.bytes);
}

std::string encode_png(int64_t width, int64_t height, int channels, const uint8_t* pixels,
                       int bytes) {
  constexpr int64_t kMost = 1000000;
  TYCHO_CHECK(Kind::Value, width > 0 && height > 0 && width <= kMost && height <= kMost,
              "a PNG cannot have %lld x %lld pixels", static_cast<long long>(width),
              static_cast<long long>(height));
  TYCHO_CHECK(Kind::Value, channels >= 1 && channels <= 4, "a PNG has 1 to 4 channels, not %d",
              channels);
  constexpr int kTypes[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                            PNG_COLOR_TYPE_RGB_ALPHA};
  std::string out;
  PngWriter w;
  w.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, give_up, no_matter);
  if (w.png) w.info = png_create_info_struct(w.png);
  if (!w.info) fail(Kind::Oom, "out of memory");
  png_set_write_fn(w.png, &out, append, nullptr);
  png_set_IHDR(w.png, w.info, static_cast<png_uint_32>(width), static_cast<png_uint_32>(height),
               8 * bytes, kTypes[channels - 1], PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_write_info(w.png, w.info);
  if (bytes == 2) png_set_swap(w.png);
  for (int64_t y = 0; y < height; ++y) {
    if (y % 16 == 0) check_interrupt();
    png_write_row(w.png, pixels + y * width * channels * bytes);
  }
  png_write_end(w.png, nullptr);
  return out;
}

void write_png(const std::string& path, int64_t width, int64_t height, int channels,
               const uint8_t* pixels) {
  const std::string bytes = encode_png(width, height, channels, pixels);
  atomic_write(path, [&](Output& out) { out.write(bytes); });
}

}  // namespace tycho::io
