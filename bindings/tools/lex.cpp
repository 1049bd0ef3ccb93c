// The lexer of Lua 5.4's tokens (reference manual, section 3.1); never fails.
#include "bindings/tools/lex.h"

#include <algorithm>
#include <iterator>

#include "bindings/tools/check.h"

namespace tycho::lua {
namespace {

bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  Token next() {
    const size_t begin = at_;
    unfinished_ = false;
    const TokenKind kind = scan();
    return {kind, begin, at_, unfinished_};
  }
  bool done() const { return at_ >= text_.size(); }

 private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  template <class P>
  void skip(P p) {
    while (at_ < text_.size() && p(text_[at_])) ++at_;
  }

  // The level of a long bracket that opens here, or -1.
  int long_level() const {
    size_t i = 1;
    while (peek(i) == '=') ++i;
    return peek(i) == '[' ? static_cast<int>(i) - 1 : -1;
  }
  void long_text(int level) {
    at_ += static_cast<size_t>(level) + 2;
    const std::string close = "]" + std::string(static_cast<size_t>(level), '=') + "]";
    const size_t end = text_.find(close, at_);
    unfinished_ = end == text_.npos;
    at_ = unfinished_ ? text_.size() : end + close.size();
  }

  TokenKind comment() {
    at_ += 2;
    if (peek() == '[')
      if (const int level = long_level(); level >= 0) return long_text(level), TokenKind::Comment;
    skip([](char c) { return c != '\n'; });
    return TokenKind::Comment;
  }

  TokenKind quoted(char quote) {
    for (++at_; !done(); ++at_) {
      const char c = text_[at_];
      if (c == quote) return ++at_, TokenKind::String;
      if (c == '\n') return unfinished_ = true, TokenKind::Error;
      if (c != '\\') continue;
      if (++at_; at_ >= text_.size()) break;
      if (text_[at_] == 'z') {  // skips the white space that follows, lines included
        ++at_;
        skip(is_space);
        --at_;
      } else if (text_[at_] == '\r' && peek(1) == '\n') {
        ++at_;
      }
    }
    at_ = text_.size();
    unfinished_ = true;
    return TokenKind::String;
  }

  TokenKind number() {
    const bool hex = peek() == '0' && (peek(1) == 'x' || peek(1) == 'X');
    if (hex) at_ += 2;
    while (!done()) {
      const char c = text_[at_];
      const bool exponent = hex ? c == 'p' || c == 'P' : c == 'e' || c == 'E';
      ++at_;
      if (exponent && (peek() == '+' || peek() == '-')) ++at_;
      if (!exponent && !is_hex(c) && c != '.') {
        --at_;
        break;
      }
    }
    if (is_letter(peek())) {  // 3x: one wrong token
      skip([](char c) { return is_letter(c) || is_digit(c); });
      return TokenKind::Error;
    }
    return TokenKind::Number;
  }

  TokenKind scan() {
    const char c = peek();
    if (is_space(c)) return skip(is_space), TokenKind::Space;
    if (at_ == 0 && c == '#' && peek(1) == '!')
      return skip([](char d) { return d != '\n'; }), TokenKind::Comment;
    if (c == '-' && peek(1) == '-') return comment();
    if (c == '[')
      if (const int level = long_level(); level >= 0) return long_text(level), TokenKind::String;
    if (c == '"' || c == '\'') return quoted(c);
    if (is_digit(c) || (c == '.' && is_digit(peek(1)))) return number();
    if (is_letter(c)) {
      const size_t begin = at_;
      skip([](char d) { return is_letter(d) || is_digit(d); });
      return is_lua_keyword(text_.substr(begin, at_ - begin)) ? TokenKind::Keyword
                                                              : TokenKind::Name;
    }
    static constexpr std::string_view kOps[] = {
        "...", "..", "==", "~=", "<=", ">=", "//", "::", "<<", ">>", "+",
        "-",   "*",  "/",  "%",  "^",  "#",  "&",  "~",  "|",  "<",  ">",
        "=",   "(",  ")",  "{",  "}",  "[",  "]",  ";",  ":",  ",",  "."};
    for (std::string_view op : kOps)
      if (text_.substr(at_, op.size()) == op) return at_ += op.size(), TokenKind::Op;
    ++at_;
    skip(
        [](char d) { return static_cast<unsigned char>(d) >= 0x80; });  // one word of other letters
    return TokenKind::Error;
  }

  std::string_view text_;
  size_t at_ = 0;
  bool unfinished_ = false;
};

}  // namespace

bool is_lua_keyword(std::string_view word) {
  static constexpr std::string_view kWords[] = {
      "and",      "break",  "do",   "else", "elseif", "end",  "false", "for",
      "function", "goto",   "if",   "in",   "local",  "nil",  "not",   "or",
      "repeat",   "return", "then", "true", "until",  "while"};
  return std::binary_search(std::begin(kWords), std::end(kWords), word);
}

const char* token_kind_name(TokenKind kind) {
  static constexpr const char* kNames[] = {"name",    "keyword", "number", "string",
                                           "comment", "op",      "space",  "error"};
  return kNames[static_cast<int>(kind)];
}

std::vector<Token> lex(std::string_view text) {
  std::vector<Token> out;
  Lexer lexer(text);
  while (!lexer.done()) out.push_back(lexer.next());
  return out;
}

// torch._lex(text): a list of {kind=, first=, last=, unfinished=}; spaces are left out.
int lua_lex(lua_State* L) {
  const std::string_view text = check_text(L, 1, "_lex");
  lua_newtable(L);
  int count = 0;
  for (const Token& t : lex(text)) {
    if (t.kind == TokenKind::Space) continue;
    lua_createtable(L, 0, 4);
    lua_pushstring(L, token_kind_name(t.kind));
    lua_setfield(L, -2, "kind");
    lua_pushinteger(L, static_cast<lua_Integer>(t.begin) + 1);
    lua_setfield(L, -2, "first");
    lua_pushinteger(L, static_cast<lua_Integer>(t.end));
    lua_setfield(L, -2, "last");
    if (t.unfinished) {
      lua_pushboolean(L, true);
      lua_setfield(L, -2, "unfinished");
    }
    lua_rawseti(L, -2, ++count);
  }
  return 1;
}

}  // namespace tycho::lua
