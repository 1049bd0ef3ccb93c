// Errors: every failure a user can cause is thrown as one `Error` with a kind (DIALECT: "Errors"),
// a sentence that holds the values, and, where there is one, a fix to paste.
#pragma once
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace tycho {

enum class Kind : uint8_t {
  Shape,
  Broadcast,
  Dim,
  Index,
  DType,
  Device,
  Argument,
  Value,
  Autograd,
  Linalg,
  Oom,
  Io,
  Distributed,
  Interrupt
};
const char* kind_name(Kind kind);  // "shape", "broadcast", ... as scripts read it in err.kind

struct Error : std::exception {
  Kind kind;
  std::string text;  // one sentence: what failed, with the values, and why
  std::string op;    // the operation's name; filled in by apply when empty
  std::string hint;  // a fix that works when pasted, or empty
  Error(Kind kind, std::string text, std::string hint = {})
      : kind(kind), text(std::move(text)), hint(std::move(hint)) {}
  const char* what() const noexcept override { return text.c_str(); }
};

// printf-style; the slow path only.
[[gnu::format(printf, 1, 2)]] std::string format(const char* fmt, ...);
[[noreturn]] void fail(Kind kind, std::string text, std::string hint = {});

}  // namespace tycho

// Raises unless `cond` holds: CHECK(Kind::Shape, n > 0, "message with %d", n).
#define TYCHO_CHECK(kind, cond, ...)                     \
  do {                                                   \
    if (!(cond)) [[unlikely]]                            \
      ::tycho::fail(kind, ::tycho::format(__VA_ARGS__)); \
  } while (0)
