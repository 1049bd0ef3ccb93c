// Reading the text of a table's column at compile time: which of its names a gradient mentions.
#pragma once

namespace tycho {

// Does `name` stand alone as a word in the text?
consteval bool mentions(const char* text, char name) {
  const auto word = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  for (const char* p = text; *p; ++p)
    if (*p == name && (p == text || !word(p[-1])) && !word(p[1]) && p[1] != '(') return true;
  return false;
}
// Is the text that word?
consteval bool is_word(const char* text, const char* word) {
  while (*text && *text == *word) ++text, ++word;
  return *text == *word;
}

}  // namespace tycho
