// The lexer of Lua 5.4's tokens, for text that may be unfinished or wrong: what the prompt colours
// and rewrites, and what error messages point at.
#pragma once
#include <cstddef>
#include <string_view>
#include <vector>

namespace tycho::lua {

enum class TokenKind { Name, Keyword, Number, String, Comment, Op, Space, Error };

struct Token {
  TokenKind kind;
  size_t begin, end;        // bytes of the text
  bool unfinished = false;  // a string or a comment that reaches the end without its closing mark
};

// All bytes of the text, in order, as tokens.
std::vector<Token> lex(std::string_view text);
const char* token_kind_name(TokenKind kind);
bool is_lua_keyword(std::string_view word);

}  // namespace tycho::lua
