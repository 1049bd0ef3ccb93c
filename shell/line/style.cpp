// The table of looks. 16-colour codes, so that the terminal's own palette decides.
#include "shell/line/style.h"

#include <array>
#include <cstdlib>
#include <cstring>

namespace tycho::line {
namespace {

struct Look {
  const char *colour, *plain;  // plain: where colours are not wanted
};
using Looks = std::array<Look, static_cast<size_t>(Style::Count)>;

Looks default_looks() {
  Looks t = {};
  const auto set = [&t](Style s, const char* colour, const char* plain = "") {
    t[static_cast<size_t>(s)] = {colour, plain};
  };
  set(Style::Plain, "");
  set(Style::Keyword, "35");
  set(Style::String, "32");
  set(Style::Number, "36");
  set(Style::Comment, "2", "2");
  set(Style::Name, "");
  set(Style::Function, "34");
  set(Style::Unknown, "4", "4");
  set(Style::Bracket, "1;33", "1");
  set(Style::Error, "31", "4");
  set(Style::Command, "33");
  set(Style::Prompt, "1;32", "1");
  set(Style::Ghost, "2", "2");
  set(Style::Hint, "2", "2");
  set(Style::Note, "2", "2");
  set(Style::Selected, "7", "7");
  set(Style::Match, "7", "7");
  set(Style::Harmless, "7", "7");
  return t;
}

Looks looks = default_looks();
bool colours = true;

}  // namespace

const char* sgr(Style s) {
  const Look& look = looks[static_cast<size_t>(s)];
  return colours ? look.colour : look.plain;
}

void set_sgr(Style s, const char* codes) { looks[static_cast<size_t>(s)].colour = codes; }
void use_colours(bool yes) { colours = yes; }

bool environment_wants_colours() {
  const char *no = std::getenv("NO_COLOR"), *term = std::getenv("TERM");
  if (no && *no) return false;
  return term && *term && std::strcmp(term, "dumb") != 0 && std::strncmp(term, "vt", 2) != 0;
}

}  // namespace tycho::line
