// Writing pickles (see pickle.h).
#include <bit>

#include "engine/io/file.h"
#include "engine/io/pickle.h"
#include "engine/io/utf8.h"

namespace tycho::io {
namespace {
template <class T>
void append_little(std::string* s, T x) {
  for (size_t k = 0; k < sizeof(T); ++k) *s += static_cast<char>(x >> 8 * k);
}
}  // namespace

void PickleWriter::integer(int64_t x) {
  if (x >= 0 && x < 256) {
    op('K');
    append_little(&bytes, static_cast<uint8_t>(x));
  } else if (x == static_cast<int32_t>(x)) {
    op('J');
    append_little(&bytes, static_cast<uint32_t>(x));
  } else {
    op('\x8a');
    op(8);
    append_little(&bytes, static_cast<uint64_t>(x));
  }
}

void PickleWriter::real(double x) {
  op('G');
  append_little(&bytes, __builtin_bswap64(std::bit_cast<uint64_t>(x)));
}

void PickleWriter::text(std::string_view s) {
  if (s.size() > 0x7fffffff) fail(Kind::Io, "a string of more than 2 GB cannot be saved");
  const bool plain = is_utf8(s);
  std::string wide;
  if (!plain) {
    // Bytes, as Python writes them in protocol 2: the text with these code points, encoded.
    for (const char c : s) append_utf8(&wide, static_cast<uint8_t>(c));
    s = wide;
    global("_codecs encode");
  }
  op('X');
  append_little(&bytes, static_cast<uint32_t>(s.size()));
  bytes += s;
  if (plain) return;
  text("latin1");
  bytes += "\x86R";
}

void PickleWriter::global(const std::string& name) {
  const auto it = globals_.find(name);
  if (it != globals_.end()) return again(it->second);
  const size_t space = name.find(' ');
  bytes += "c" + name.substr(0, space) + "\n" + name.substr(space + 1) + "\n";
  const uint32_t number = keep();
  globals_.emplace(name, number);
}

uint32_t PickleWriter::keep() {
  op('r');
  append_little(&bytes, kept_);
  return kept_++;
}

void PickleWriter::again(uint32_t number) {
  op('j');
  append_little(&bytes, number);
}

}  // namespace tycho::io
