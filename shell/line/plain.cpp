// Reading without a terminal that can move its cursor: lines as they come, and no escape byte.
// Through stdio, so that what follows an entry is still there for the entry to read.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include "shell/line/terminal.h"

namespace tycho::line {
namespace {

enum class Got { Line, End, Interrupt };

Got read_line(std::string* text) {
  size_t before = text->size();
  for (int c; (c = std::getc(stdin)) != EOF;) {
    if (c == '\n') {
      if (text->size() > before && text->back() == '\r') text->pop_back();
      return Got::Line;
    }
    *text += static_cast<char>(c);
  }
  if (std::ferror(stdin) && errno == EINTR) {
    std::clearerr(stdin);
    return Got::Interrupt;
  }
  return text->size() > before ? Got::Line : Got::End;
}

}  // namespace

Ended read_plain(const Prompt& prompt, const Reader& reader, std::string* entry) {
  const bool prompts = isatty(0) || std::getenv("INSIDE_EMACS");
  entry->clear();
  for (bool first = true;; first = false) {
    if (prompts) std::fputs((first ? prompt.first : prompt.next).c_str(), stdout);
    std::fflush(stdout);
    switch (read_line(entry)) {
      case Got::End:
        // What is there goes to the caller; whether it is an entry is known only now.
        if (!entry->empty()) entry->pop_back();
        if (isatty(0)) std::fputc('\n', stdout);
        return Ended::End;
      case Got::Interrupt:
        return Ended::Cancel;
      case Got::Line:
        break;
    }
    if (!reader.is_done || reader.is_done(*entry)) return Ended::Entry;
    *entry += '\n';
  }
}

}  // namespace tycho::line
