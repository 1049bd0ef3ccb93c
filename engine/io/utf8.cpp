// Characters as bytes (see utf8.h).
#include "engine/io/utf8.h"

namespace tycho::io {

void append_utf8(std::string* out, uint32_t c) {
  const auto add = [&](uint32_t byte) { *out += static_cast<char>(byte); };
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xc0 | c >> 6), add(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    add(0xe0 | c >> 12), add(0x80 | (c >> 6 & 0x3f)), add(0x80 | (c & 0x3f));
  } else {
    add(0xf0 | c >> 18), add(0x80 | (c >> 12 & 0x3f));
    add(0x80 | (c >> 6 & 0x3f)), add(0x80 | (c & 0x3f));
  }
}

bool is_utf8(std::string_view s) {
  for (size_t i = 0; i < s.size();) {
    const uint8_t c = static_cast<uint8_t>(s[i]);
    const int more = c < 0x80 ? 0 : c >> 5 == 6 ? 1 : c >> 4 == 14 ? 2 : c >> 3 == 30 ? 3 : -1;
    if (more < 0 || i + more >= s.size()) return false;
    uint32_t code = more == 0 ? c : c & (0x3f >> more);
    for (int k = 1; k <= more; ++k) {
      const uint8_t next = static_cast<uint8_t>(s[i + k]);
      if (next >> 6 != 2) return false;
      code = code << 6 | (next & 0x3f);
    }
    constexpr uint32_t least[] = {0, 0x80, 0x800, 0x10000};
    if (code < least[more] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)) return false;
    i += 1 + more;
  }
  return true;
}

}  // namespace tycho::io
