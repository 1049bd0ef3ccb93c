// Portable anymaps: PBM (black and white), PGM (grey) and PPM (RGB), as text (P1, P2, P3) or as
// bytes (P4, P5, P6); see image.h.
#include <cstring>

#include "engine/base/interrupt.h"
#include "engine/io/file.h"
#include "engine/io/image.h"

namespace tycho::io {
namespace {

class Header {
 public:
  Header(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  // The next number, after white space and comments.
  int64_t number(const char* what) {
    skip_space();
    int64_t n = 0;
    const size_t start = at;
    for (; at < bytes_.size() && bytes_[at] >= '0' && bytes_[at] <= '9'; ++at) {
      n = n * 10 + (bytes_[at] - '0');
      if (n > INT32_MAX) damaged(name_, std::string("its ") + what + " is too large");
    }
    if (at == start)
      damaged(name_, std::string(at < bytes_.size() ? "there is no number where its "
                                                    : "it ends where its ") +
                         what + " should stand");
    return n;
  }
  void skip_space() {
    for (; at < bytes_.size(); ++at) {
      if (bytes_[at] == '#')
        at = std::min(bytes_.find('\n', at), bytes_.size() - 1);
      else if (!std::strchr(" \t\r\n\v\f", bytes_[at]) || bytes_[at] == 0)
        return;
    }
  }

  size_t at = 2;

 private:
  std::string_view bytes_;
  const std::string& name_;
};

}  // namespace

bool is_pnm(std::string_view bytes) {
  return bytes.size() > 2 && bytes[0] == 'P' && bytes[1] >= '1' && bytes[1] <= '6' &&
         (std::strchr(" \t\r\n#", bytes[2]) && bytes[2] != 0);
}

Picture decode_pnm(std::string_view bytes, const PictureLimits& limits) {
  Header h(bytes, limits.name);
  const int kind = bytes[1] - '0';
  const bool text = kind <= 3, bits = kind == 1 || kind == 4;
  Picture p;
  p.width = h.number("width");
  p.height = h.number("height");
  const int64_t most = bits ? 1 : h.number("largest value");
  if (most < 1 || most > 65535) damaged(limits.name, "its largest value must be 1 to 65535");
  p.channels = kind == 3 || kind == 6 ? 3 : 1;
  p.bytes = most > 255 ? 2 : 1;
  if (!text && h.at < bytes.size()) ++h.at;  // exactly one byte of white space
  const int64_t left = static_cast<int64_t>(bytes.size() - h.at);
  const int64_t row =
      bits && !text ? (p.width + 7) / 8 : p.width * p.channels * (text ? 1 : p.bytes);
  if (p.height > 0 && row > left / p.height)
    damaged(limits.name, format("it says that it has %lld x %lld pixels, but ends too early",
                                static_cast<long long>(p.width), static_cast<long long>(p.height)));
  make_room(&p, limits);
  const auto put = [&](int64_t i, int64_t v) {
    if (v > most) damaged(limits.name, "a pixel is above its largest value");
    if (p.bytes == 1)
      p.pixels[i] = static_cast<uint8_t>(most == 255 ? v : (v * 255 + most / 2) / most);
    else
      reinterpret_cast<uint16_t*>(p.pixels.get())[i] =
          static_cast<uint16_t>((v * 65535 + most / 2) / most);
  };
  const auto* const in = reinterpret_cast<const uint8_t*>(bytes.data());
  const int64_t samples = p.width * p.channels;
  for (int64_t y = 0, i = 0; y < p.height; ++y) {
    check_interrupt();
    for (int64_t x = 0; x < samples; ++x, ++i) {
      if (bits && text) {  // digits need no space between them
        h.skip_space();
        if (h.at >= bytes.size() || in[h.at] < '0' || in[h.at] > '1')
          damaged(limits.name, "a pixel is neither 0 nor 1");
        put(i, in[h.at++] == '0');
      } else if (text) {
        put(i, h.number("next pixel"));
      } else if (bits) {
        put(i, !(in[h.at + static_cast<size_t>(y * row + x / 8)] >> (7 - x % 8) & 1));
      } else if (p.bytes == 1) {
        put(i, in[h.at + static_cast<size_t>(i)]);
      } else {
        const size_t k = h.at + 2 * static_cast<size_t>(i);
        put(i, in[k] << 8 | in[k + 1]);
      }
    }
  }
  return p;
}

std::string encode_pnm(const Picture& p) {
  TYCHO_CHECK(Kind::Value, p.channels == 1 || p.channels == 3,
              "PGM and PPM files have 1 or 3 channels, not %d", p.channels);
  std::string out =
      format("P%d\n%lld %lld\n%d\n", p.channels == 1 ? 5 : 6, static_cast<long long>(p.width),
             static_cast<long long>(p.height), p.bytes == 1 ? 255 : 65535);
  const size_t head = out.size(), bytes = p.row() * static_cast<size_t>(p.height);
  out.append(reinterpret_cast<const char*>(p.pixels.get()), bytes);
  if (p.bytes == 2) swap_bytes(out.data() + head, 2, static_cast<int64_t>(bytes / 2));
  return out;
}

}  // namespace tycho::io
