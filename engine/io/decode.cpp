// Decoding of texts; see the header.
#include "engine/io/decode.h"

#include <iconv.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "engine/base/check.h"
#include "engine/io/stream.h"
#include "engine/io/utf8.h"

namespace tycho::io {
namespace {

// What is called GBK goes up to its superset, which other programs write under that name, too.
std::string known_as(std::string encoding) {
  std::transform(encoding.begin(), encoding.end(), encoding.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  for (const char* name : {"GBK", "GB2312", "CP936", "GB18030"})
    if (encoding == name) return "GB18030";
  return encoding;
}

}  // namespace

Decoder::Decoder(const std::string& encoding, std::string name)
    : encoding_(encoding),
      name_(std::move(name)),
      state_(::iconv_open("UTF-8", known_as(encoding).c_str())) {
  if (state_ == reinterpret_cast<iconv_t>(-1))
    fail(Kind::Value, "no encoding \"" + encoding + "\" is known on this machine",
         "encoding = \"gbk\"  -- or \"gb18030\", \"big5\", \"utf-16\", \"latin1\"; iconv -l lists "
         "them");
}

Decoder::~Decoder() { ::iconv_close(state_); }

size_t Decoder::decode(std::string_view bytes, std::string* out, bool last) {
  std::array<char, 16384> piece;
  char* from = const_cast<char*>(bytes.data());  // iconv does not write there
  size_t left = bytes.size();
  while (left > 0) {
    char* to = piece.data();
    size_t room = piece.size();
    const size_t result = ::iconv(state_, &from, &left, &to, &room);
    const int error = result == static_cast<size_t>(-1) ? errno : 0;
    out->append(piece.data(), piece.size() - room);
    if (error == EINVAL && !last) break;
    if (error == EILSEQ || error == EINVAL)
      fail(Kind::Io, format("%s: byte %zu is no text in %s", name_.c_str(),
                            before_ + (bytes.size() - left) + 1, encoding_.c_str()));
  }
  before_ += bytes.size() - left;
  return bytes.size() - left;
}

bool looks_like_gbk(std::string_view bytes) {
  size_t pairs = 0, frequent = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto lead = static_cast<uint8_t>(bytes[i]);
    if (lead < 0x80) continue;
    if (++i == bytes.size()) break;
    const auto trail = static_cast<uint8_t>(bytes[i]);
    if (lead == 0x80 || lead == 0xff || trail < 0x40 || trail == 0x7f || trail == 0xff)
      return false;
    ++pairs;
    frequent += trail >= 0xa1 && ((lead >= 0xa1 && lead <= 0xa3) || (lead >= 0xb0 && lead <= 0xf7));
  }
  return pairs > 0 && frequent * 10 >= pairs * 9;
}

void check_not_gbk(std::string_view bytes, const std::string& name) {
  if (!is_utf8(bytes) && looks_like_gbk(bytes))
    fail(Kind::Io, name + " is no UTF-8 text; it reads as GBK, which Chinese programs write",
         "encoding = \"gbk\"  -- among the options reads it");
}

std::string read_text(const std::string& path, const std::string& encoding) {
  InputStream stream(path, encoding);
  std::string out;
  for (size_t piece = size_t{1} << 16;; piece = std::min(2 * piece, size_t{1} << 24)) {
    const size_t had = out.size();
    out.resize(had + piece);
    const size_t got = stream.read(out.data() + had, piece);
    out.resize(had + got);
    if (got < piece) break;
  }
  if (out.starts_with("\xef\xbb\xbf")) out.erase(0, 3);
  if (!encoding.empty()) return out;
  check_not_gbk(out, path);
  if (!is_utf8(out))
    fail(Kind::Io, path + " is no UTF-8 text",
         "encoding = \"latin1\"  -- among the options, or what else it is written in");
  return out;
}

}  // namespace tycho::io
