// UTF-8 as a terminal shows it: characters that the cursor steps over as one, and their columns.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace tycho::line {

// A code point, or one byte that begins none (then `valid` is false and `code` the byte).
struct Decoded {
  char32_t code = 0;
  size_t bytes = 0;
  bool valid = false;
};
Decoded decode(std::string_view text, size_t at);
void append_utf8(std::string* out, char32_t code);
// How many bytes more the character needs whose first bytes these are; 0 when whole or broken.
size_t bytes_missing(std::string_view start);

// Columns of a code point: 0 combining, 2 wide, -1 not to be shown as it is.
int code_width(char32_t c);

// One character for the person: a base with its combining marks, or one byte that is no text.
struct Character {
  size_t bytes = 0;
  int columns = 0;         // as shown
  bool plain = true;       // shown by its own bytes; otherwise by `shown`
  bool certain = true;     // terminals agree on its width
  std::string shown = {};  // "^A", "<ff>", "<202e>"
};
Character character_at(std::string_view text, size_t at);
size_t next_character(std::string_view text, size_t at);      // where the one at `at` ends
size_t previous_character(std::string_view text, size_t at);  // where the one before `at` begins
int columns_of(std::string_view text);                        // without newlines

// Letters, digits, underscore and all beyond ASCII that is no punctuation of its own.
bool is_word(std::string_view text, size_t at);

}  // namespace tycho::line
