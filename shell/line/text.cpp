// Decoding that survives broken bytes, and what belongs together as one character.
#include "shell/line/text.h"

#include <cstdio>

namespace tycho::line {
namespace {

unsigned char byte(std::string_view s, size_t i) { return static_cast<unsigned char>(s[i]); }
bool continues(unsigned char c) { return (c & 0xc0) == 0x80; }

size_t length_of(unsigned char first) {
  if (first < 0x80) return 1;
  if (first >= 0xc2 && first < 0xe0) return 2;
  if (first >= 0xe0 && first < 0xf0) return 3;
  if (first >= 0xf0 && first < 0xf5) return 4;
  return 0;
}

// The second byte decides whether a sequence is overlong, a surrogate or too large.
bool second_fits(unsigned char first, unsigned char second) {
  if (!continues(second)) return false;
  switch (first) {
    case 0xe0:
      return second >= 0xa0;
    case 0xed:
      return second < 0xa0;
    case 0xf0:
      return second >= 0x90;
    case 0xf4:
      return second < 0x90;
    default:
      return true;
  }
}

constexpr char32_t kJoiner = 0x200d;
bool regional(char32_t c) { return c >= 0x1f1e6 && c <= 0x1f1ff; }
bool skin(char32_t c) { return c >= 0x1f3fb && c <= 0x1f3ff; }

}  // namespace

Decoded decode(std::string_view s, size_t i) {
  const unsigned char first = byte(s, i);
  if (first < 0x80) return {first, 1, true};
  const size_t n = length_of(first);
  const Decoded broken = {first, 1, false};
  if (n == 0 || i + n > s.size() || !second_fits(first, byte(s, i + 1))) return broken;
  char32_t code = first & (0xff >> (n + 1));
  for (size_t k = 1; k < n; ++k) {
    if (!continues(byte(s, i + k))) return broken;
    code = code << 6 | (byte(s, i + k) & 0x3f);
  }
  return {code, n, true};
}

void append_utf8(std::string* out, char32_t c) {
  const auto put = [out](char32_t b) { *out += static_cast<char>(b); };
  if (c < 0x80) return put(c);
  if (c < 0x800) {
    put(0xc0 | c >> 6);
  } else {
    if (c < 0x10000) {
      put(0xe0 | c >> 12);
    } else {
      put(0xf0 | c >> 18);
      put(0x80 | (c >> 12 & 0x3f));
    }
    put(0x80 | (c >> 6 & 0x3f));
  }
  put(0x80 | (c & 0x3f));
}

size_t bytes_missing(std::string_view s) {
  const size_t n = s.empty() ? 0 : length_of(byte(s, 0));
  if (n <= s.size()) return 0;
  if (s.size() > 1 && !second_fits(byte(s, 0), byte(s, 1))) return 0;
  for (size_t k = 2; k < s.size(); ++k)
    if (!continues(byte(s, k))) return 0;
  return n - s.size();
}

Character character_at(std::string_view s, size_t i) {
  const unsigned char first = byte(s, i);
  // The usual case at once: ASCII before ASCII.
  if (first >= 0x20 && first < 0x7f && (i + 1 == s.size() || byte(s, i + 1) < 0x80))
    return {.bytes = 1, .columns = 1};
  const Decoded d = decode(s, i);
  char room[16];
  const auto written = [&](const char* format, unsigned code) {
    std::snprintf(room, sizeof room, format, code);
    Character c = {.bytes = d.bytes, .plain = false, .shown = room};
    c.columns = static_cast<int>(c.shown.size());
    return c;
  };
  if (!d.valid) return written("<%02x>", d.code);
  if (d.code < 0x20 || d.code == 0x7f) return written("^%c", d.code ^ 0x40);
  const int width = code_width(d.code);
  if (width < 0) return written("<%x>", d.code);
  Character c = {.bytes = d.bytes, .columns = width, .certain = d.code < 0x2000 || width == 2};
  char32_t last = d.code;
  // Up to a bound: a thousand marks on one letter are no longer one letter.
  for (int marks = 0; i + c.bytes < s.size() && marks < 16; ++marks) {
    if (byte(s, i + c.bytes) < 0x80) break;
    const Decoded m = decode(s, i + c.bytes);
    if (!m.valid) break;
    const int w = code_width(m.code);
    const bool joined = last == kJoiner && w == 2 && m.code >= 0x1f000;
    const bool flag = regional(last) && regional(m.code) && marks == 0;
    if (w != 0 && !joined && !flag && !(skin(m.code) && code_width(d.code) == 2)) break;
    c.bytes += m.bytes;
    c.columns += w;
    c.certain = false;
    last = m.code;
  }
  if (width == 0) {  // a mark without a base stands on a blank
    c.plain = false;
    ++c.columns;
    c.certain = false;
    c.shown = " " + std::string(s.substr(i, c.bytes));
  }
  return c;
}

size_t next_character(std::string_view s, size_t i) {
  return i < s.size() ? i + character_at(s, i).bytes : s.size();
}

size_t previous_character(std::string_view s, size_t i) {
  if (i == 0) return 0;
  // ASCII and ideographs always begin a character. Go back to one and step forward from there.
  size_t from = i - 1;
  const auto begins = [&] { return byte(s, from) < 0x80 || (byte(s, from) & 0xfe) == 0xe6; };
  while (from > 0 && !begins()) --from;
  while (true) {
    const size_t next = next_character(s, from);
    if (next >= i) return from;
    from = next;
  }
}

int columns_of(std::string_view s) {
  int n = 0;
  for (size_t i = 0; i < s.size();) {
    const Character c = character_at(s, i);
    n += c.columns;
    i += c.bytes;
  }
  return n;
}

bool is_word(std::string_view s, size_t i) {
  const unsigned char c = byte(s, i);
  if (c < 0x80) return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_';
  const Decoded d = decode(s, i);
  const char32_t u = d.code;
  const bool mark = (u >= 0x2000 && u <= 0x206f) || (u >= 0x3000 && u <= 0x303f) ||
                    (u >= 0xff00 && u <= 0xff0f) || u == 0xa0 || u == 0xd7 || u == 0xf7;
  return d.valid && !mark;
}

}  // namespace tycho::line
