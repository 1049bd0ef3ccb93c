// UTF-8: what is, and one character of it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tycho::io {

void append_utf8(std::string* out, uint32_t character);
// Shortest forms only, and no halves of surrogate pairs.
bool is_utf8(std::string_view s);

}  // namespace tycho::io
