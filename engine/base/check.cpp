// Error texts: kind names, formatting, and the one throw.
#include "engine/base/check.h"

#include <cstdarg>
#include <cstdio>

namespace tycho {

const char* kind_name(Kind kind) {
  static const char* const names[] = {"shape",  "broadcast", "dim",         "index",    "dtype",
                                      "device", "argument",  "value",       "autograd", "linalg",
                                      "oom",    "io",        "distributed", "interrupt"};
  return names[static_cast<int>(kind)];
}

std::string format(const char* fmt, ...) {
  va_list args, again;
  va_start(args, fmt);
  va_copy(again, args);
  const int n = vsnprintf(nullptr, 0, fmt, args);
  va_end(args);
  std::string text(n > 0 ? n : 0, '\0');
  vsnprintf(text.data(), text.size() + 1, fmt, again);
  va_end(again);
  return text;
}

void fail(Kind kind, std::string text, std::string hint) {
  throw Error(kind, std::move(text), std::move(hint));
}

}  // namespace tycho
