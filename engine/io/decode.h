// Texts that are not UTF-8: decoding them with the C library's iconv, and telling GBK, in which Chinese programs write.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace tycho::io {

class Decoder {
 public:
  // For a text called `name` in messages. Raises Kind::Value for an encoding that the machine does not know.
  Decoder(const std::string& encoding, std::string name);
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Appends what `bytes` say as UTF-8 and returns how many of them were used: what is left is the beginning of a
  // character. With `last` nothing may be left. Raises Kind::Io for bytes that the encoding does not have.
  size_t decode(std::string_view bytes, std::string* out, bool last);

 private:
  std::string encoding_, name_;
  void* state_;
  size_t before_ = 0;  // bytes of the text that were used by earlier calls
};

// Is a text that is no UTF-8 most likely GBK? All its pairs of bytes are such, nearly all of frequent characters.
bool looks_like_gbk(std::string_view bytes);

// Raises Kind::Io where the text called `name` is no UTF-8 but GBK, and says how it is read.
void check_not_gbk(std::string_view bytes, const std::string& name);

// A whole file, plain or packed, as UTF-8; without an encoding it must be UTF-8 already. A mark at its beginning goes.
std::string read_text(const std::string& path, const std::string& encoding);

}  // namespace tycho::io
