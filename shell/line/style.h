// The looks of text at the prompt, by name, and how a terminal is told about them.
#pragma once
#include <cstdint>
#include <string>

namespace tycho::line {

enum class Style : uint8_t {
  Plain,
  Keyword,
  String,
  Number,
  Comment,
  Name,
  Function,
  Unknown,  // a name that nothing defines
  Bracket,  // the bracket at the cursor and its partner
  Error,
  Command,   // %who, !ls, ?help
  Prompt,    // "[12]> "
  Ghost,     // a suggestion not yet taken
  Hint,      // lines below the entry
  Note,      // what stands beside a candidate
  Selected,  // the candidate that Tab chose
  Match,     // what a search found
  Harmless,  // a control character or broken byte, written out
  Count
};

const char* sgr(Style);                  // "1;34", or "" for text without a look of its own
void set_sgr(Style, const char* codes);  // a theme; `codes` must live on
void use_colours(bool yes);              // false leaves bold, dim, underline and reverse
bool environment_wants_colours();        // NO_COLOR and TERM

}  // namespace tycho::line
