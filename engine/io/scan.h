// A cursor over the text of a file's header, which never reads past the end. What it does not
// expect raises Kind::Io.
#pragma once
#include <string>
#include <string_view>

#include "engine/io/file.h"

namespace tycho::io {

class Scanner {
 public:
  // `what` names the part in errors: "its header".
  Scanner(std::string_view text, const std::string& name, const char* what)
      : text_(text), name_(name), what_(what) {}

  [[noreturn]] void wrong(const std::string& why) const {
    damaged(name_, format("%s, at character %zu: %s", what_, at_ + 1, why.c_str()));
  }
  bool done() const { return at_ == text_.size(); }
  char peek() const { return done() ? '\0' : text_[at_]; }
  char take() {
    if (done()) wrong("it ends too early");
    return text_[at_++];
  }
  void skip_space() {
    while (!done() && (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r')) ++at_;
  }
  // Skips space, then takes `c` if it is next.
  bool eat(char c) {
    skip_space();
    if (done() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!eat(c)) wrong(std::string("expected ") + c);
  }
  bool eat_word(std::string_view word) {
    skip_space();
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  // A whole number that is not negative.
  int64_t integer() {
    skip_space();
    int64_t n = 0;
    const size_t start = at_;
    for (; peek() >= '0' && peek() <= '9'; ++at_)
      if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, peek() - '0', &n))
        wrong("the number is too large");
    if (at_ == start) wrong("expected a number of 0 or more");
    return n;
  }
  size_t position() const { return at_; }
  std::string_view since(size_t start) const { return text_.substr(start, at_ - start); }

 private:
  std::string_view text_;
  const std::string& name_;
  const char* what_;
  size_t at_ = 0;
};

}  // namespace tycho::io
