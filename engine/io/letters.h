// What kind of character a code point is, as regular expressions see it: \p{L}, \p{N}, \s.
#pragma once
#include <cstdint>

namespace tycho::io {

enum class Letter : uint8_t { Other, Letter, Number, Space };

Letter letter_beyond_ascii(uint32_t c);  // c >= 128

inline Letter letter(uint32_t c) {
  if (c >= 128) return letter_beyond_ascii(c);
  const uint32_t low = c | 32;
  if (low >= 'a' && low <= 'z') return Letter::Letter;
  if (c >= '0' && c <= '9') return Letter::Number;
  return c == ' ' || (c >= '\t' && c <= '\r') ? Letter::Space : Letter::Other;
}

}  // namespace tycho::io
