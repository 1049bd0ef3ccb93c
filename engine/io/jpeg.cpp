// JPEG files through libjpeg-turbo; see image.h. The orientation that a camera notes beside the
// picture (EXIF) is left alone.
#include <cstddef>
#include <cstdio>
#include <cstring>
// clang-format off
#include <jpeglib.h>
#include <jerror.h>
// clang-format on

#include "engine/base/interrupt.h"
#include "engine/io/file.h"
#include "engine/io/image.h"

namespace tycho::io {
namespace {

// libjpeg reports errors by a function that must not return; C++ exceptions may pass through it.
struct Errors {
  jpeg_error_mgr base;
  const std::string* name = nullptr;  // of a file that is read; null: one is written
};

[[noreturn]] void give_up(j_common_ptr info) {
  char text[JMSG_LENGTH_MAX];
  info->err->format_message(info, text);
  const std::string* const name = reinterpret_cast<Errors*>(info->err)->name;
  if (info->err->msg_code == JERR_OUT_OF_MEMORY) throw std::bad_alloc();
  if (!name) fail(Kind::Io, std::string("the JPEG cannot be written: ") + text);
  damaged(*name, text);
}

// Warnings: libjpeg would go on with invented pixels.
void heard(j_common_ptr info, int level) {
  if (level >= 0) return;
  switch (info->err->msg_code) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_JPEG_EOF:
    case JWRN_MUST_RESYNC:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_BOGUS_PROGRESSION:
      give_up(info);
    default:
      ++info->err->num_warnings;
  }
}

void use_errors(Errors* errors, const std::string* name) {
  jpeg_std_error(&errors->base);
  errors->base.error_exit = give_up;
  errors->base.emit_message = heard;
  errors->base.output_message = [](j_common_ptr) {};
  errors->name = name;
}

// A progressive picture may be sent in many scans, each of which costs a pass over all of it.
constexpr int kMostScans = 200;
void watch(j_common_ptr info) {
  check_interrupt();
  if (!info->is_decompressor) return;
  if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMostScans)
    damaged(*reinterpret_cast<Errors*>(info->err)->name,
            format("it has more than %d scans", kMostScans));
}

struct Reader {
  jpeg_decompress_struct info{};
  Errors errors;
  jpeg_progress_mgr progress{};
  ~Reader() { jpeg_destroy_decompress(&info); }
};

struct Writer {
  jpeg_compress_struct info{};
  Errors errors;
  unsigned char* out = nullptr;
  unsigned long bytes = 0;
  ~Writer() {
    jpeg_destroy_compress(&info);
    std::free(out);
  }
};

// Printing colours to RGB, in place. Adobe's programs, who mark their files, store them inverted.
void from_cmyk(const uint8_t* in, uint8_t* out, int64_t width, bool inverted) {
  for (int64_t x = 0; x < width; ++x, in += 4)
    for (int c = 0; c < 3; ++c) {
      const int ink = inverted ? in[c] : 255 - in[c], black = inverted ? in[3] : 255 - in[3];
      *out++ = static_cast<uint8_t>((ink * black + 127) / 255);
    }
}

}  // namespace

bool is_jpeg(std::string_view bytes) { return bytes.starts_with("\xff\xd8\xff"); }

Picture decode_jpeg(std::string_view bytes, const PictureLimits& limits, bool gray) {
  Reader r;
  r.info.err = &r.errors.base;
  use_errors(&r.errors, &limits.name);
  jpeg_create_decompress(&r.info);
  r.progress.progress_monitor = watch;
  r.info.progress = &r.progress;
  jpeg_mem_src(&r.info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(&r.info, TRUE);
  Picture p;
  p.width = r.info.image_width;
  p.height = r.info.image_height;
  const bool four = r.info.jpeg_color_space == JCS_CMYK || r.info.jpeg_color_space == JCS_YCCK;
  const bool grey =
      r.info.jpeg_color_space == JCS_GRAYSCALE || (gray && r.info.jpeg_color_space == JCS_YCbCr);
  r.info.out_color_space = four ? JCS_CMYK : grey ? JCS_GRAYSCALE : JCS_RGB;
  p.channels = grey ? 1 : 3;
  // Huffman codes spend at least one bit on each block of 8 x 8 pixels.
  if (!r.info.arith_code && p.width * p.height / 512 > static_cast<int64_t>(bytes.size()))
    damaged(
        limits.name,
        format("it says that it has %lld x %lld pixels, for which its %zu bytes are too few",
               static_cast<long long>(p.width), static_cast<long long>(p.height), bytes.size()));
  make_room(&p, limits);
  jpeg_start_decompress(&r.info);
  const auto line = std::make_unique<uint8_t[]>(four ? static_cast<size_t>(p.width) * 4 : 1);
  while (r.info.output_scanline < r.info.output_height) {
    check_interrupt();
    uint8_t* const row = p.pixels.get() + r.info.output_scanline * p.row();
    uint8_t* into = four ? line.get() : row;
    jpeg_read_scanlines(&r.info, &into, 1);
    if (four) from_cmyk(line.get(), row, p.width, r.info.saw_Adobe_marker);
  }
  jpeg_finish_decompress(&r.info);
  return p;
}

std::string encode_jpeg(const Picture& p, int quality) {
  TYCHO_CHECK(Kind::Value, p.channels == 1 || p.channels == 3, "a JPEG has 1 or 3 channels, not %d",
              p.channels);
  TYCHO_CHECK(Kind::Value, p.width > 0 && p.height > 0 && p.width <= 65500 && p.height <= 65500,
              "a JPEG cannot have %lld x %lld pixels", static_cast<long long>(p.width),
              static_cast<long long>(p.height));
  TYCHO_CHECK(Kind::Value, quality >= 1 && quality <= 100,
              "the quality of a JPEG is 1 to 100, not %d", quality);
  Writer w;
  w.info.err = &w.errors.base;
  use_errors(&w.errors, nullptr);
  jpeg_create_compress(&w.info);
  jpeg_mem_dest(&w.info, &w.out, &w.bytes);
  w.info.image_width = static_cast<JDIMENSION>(p.width);
  w.info.image_height = static_cast<JDIMENSION>(p.height);
  w.info.input_components = p.channels;
  w.info.in_color_space = p.channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&w.info);
  jpeg_set_quality(&w.info, quality, TRUE);
  jpeg_start_compress(&w.info, TRUE);
  while (w.info.next_scanline < w.info.image_height) {
    check_interrupt();
    uint8_t* row = p.pixels.get() + w.info.next_scanline * p.row();
    jpeg_write_scanlines(&w.info, &row, 1);
  }
  jpeg_finish_compress(&w.info);
  return {reinterpret_cast<char*>(w.out), w.bytes};
}

}  // namespace tycho::io
