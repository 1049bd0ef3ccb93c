// Colours while typing: the tokens of an entry with their looks, unknown variables, the bracket at
// the cursor and its partner. Called at every key, so it is C++ and reads tables raw: nothing of
// the user's runs here.
#include <algorithm>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "bindings/tools/lex.h"
#include "shell/native.h"

namespace tycho::shell {
namespace {

using lua::Token;
using lua::TokenKind;

struct Span {
  size_t first, last;  // bytes from 1, both included
  const char* style;
};

class Highlighter {
 public:
  Highlighter(lua_State* L, std::string_view text, size_t cursor)
      : L_(L), text_(text), cursor_(cursor) {}

  const std::vector<Span>& run() {
    size_t from = text_.find_first_not_of(" \t\n");
    if (from == text_.npos) return spans_;
    // What a continued value, a command or a question begins with is no Lua.
    if (text_[from] == '?') return add(from, text_.size(), "command"), spans_;
    if (text_[from] == '!') return add(from, text_.size(), "command"), spans_;
    if (text_[from] == '%') {
      size_t end = text_.find_first_of(" \t\n", from);
      if (end == text_.npos) end = text_.size();
      add(from, end, "command");
      from = end;
    }
    for (const Token& t : lua::lex(text_.substr(from)))
      if (t.kind != TokenKind::Space)
        tokens_.push_back({t.kind, t.begin + from, t.end + from, t.unfinished});
    declare();
    for (size_t i = 0; i < tokens_.size(); ++i) style(i);
    brackets();
    return spans_;
  }

 private:
  std::string_view word(size_t i) const {
    return i < tokens_.size() ? text_.substr(tokens_[i].begin, tokens_[i].end - tokens_[i].begin)
                              : std::string_view();
  }
  bool is_name(size_t i) const { return i < tokens_.size() && tokens_[i].kind == TokenKind::Name; }
  void add(size_t begin, size_t end, const char* style) {
    if (begin < end) spans_.push_back({begin + 1, end, style});
  }

  // Names that the entry itself makes: locals, parameters, loop variables, assignments.
  void declare() {
    for (size_t i = 0; i < tokens_.size(); ++i) {
      const std::string_view w = word(i);
      if (w == "local" || w == "for") {
        size_t k = i + 1;
        if (word(k) == "function") ++k;
        for (; k < tokens_.size(); ++k) {
          if (is_name(k))
            known_.insert(word(k));
          else if (word(k) != "," && word(k) != "<" && word(k) != ">")
            break;
        }
      } else if (w == "function") {
        size_t k = i + 1;
        if (is_name(k)) known_.insert(word(k));
        bool method = false;
        for (; k < tokens_.size() && word(k) != "("; ++k) method = method || word(k) == ":";
        if (method) known_.insert("self");
        for (++k; k < tokens_.size() && word(k) != ")"; ++k)
          if (is_name(k)) known_.insert(word(k));
      } else if (w == "=" || w == "goto" || w == "::") {
        if (w != "=" && is_name(i + 1)) known_.insert(word(i + 1));
        // a, b = ...: the names before it; further keys of a constructor count too, which does no
        // harm.
        for (size_t k = i; w == "=" && k > 0; k -= 2) {
          if (!is_name(k - 1)) break;
          const std::string_view before = k > 1 ? word(k - 2) : "";
          if (before != "." && before != ":" && before != "{") known_.insert(word(k - 1));
          if (before != "," || k < 3) break;
        }
      }
    }
  }

  bool in_table(const char* field, const char* inner, std::string_view name) {
    const int top = lua_gettop(L_);
    bool found = false;
    if (luaL_getsubtable(L_, LUA_REGISTRYINDEX, LUA_LOADED_TABLE)) {
      lua_pushstring(L_, "shell.session");
      if (lua_rawget(L_, -2) == LUA_TTABLE) {
        lua_pushstring(L_, field);
        if (lua_rawget(L_, -2) == LUA_TTABLE) {
          lua_pushstring(L_, inner);
          if (lua_rawget(L_, -2) == LUA_TTABLE) {
            lua_pushlstring(L_, name.data(), name.size());
            found = lua_rawget(L_, -2) != LUA_TNIL;
          }
        }
      }
    }
    lua_settop(L_, top);
    return found;
  }

  bool is_known(std::string_view name) {
    if (known_.count(name)) return true;
    if (name[0] == '_' && name.find_first_not_of("_0123456789") == name.npos)
      return true;  // _ __ _7
    lua_rawgeti(L_, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_pushlstring(L_, name.data(), name.size());
    const bool global = lua_rawget(L_, -2) != LUA_TNIL;
    lua_pop(L_, 2);
    return global || in_table("names", "shortcuts", name) || in_table("names", "constants", name);
  }

  void style(size_t i) {
    const Token& t = tokens_[i];
    switch (t.kind) {
      case TokenKind::Keyword:
        return add(t.begin, t.end, "keyword");
      case TokenKind::Number:
        return add(t.begin, t.end, "number");
      case TokenKind::String:
        return add(t.begin, t.end, "string");
      case TokenKind::Comment:
        return add(t.begin, t.end, "comment");
      case TokenKind::Error:
        // `name?` asks for help; a string that its line does not close is wrong only further down.
        if (word(i) == "?" && i + 1 >= tokens_.size()) return add(t.begin, t.end, "command");
        return add(t.begin, t.end, t.unfinished && t.end >= text_.size() ? "string" : "error");
      case TokenKind::Name:
        break;
      case TokenKind::Op:
        if (const char c = word(i)[0]; c == '(' || c == '[' || c == '{')
          open_ += c;
        else if ((c == ')' || c == ']' || c == '}') && !open_.empty())
          open_.pop_back();
        return;
      default:
        return;
    }
    const std::string_view before = i ? word(i - 1) : "", after = word(i + 1);
    const bool call = after == "(" || after == "{" ||
                      (i + 1 < tokens_.size() && tokens_[i + 1].kind == TokenKind::String);
    if (before == "." || before == ":") {
      if (call) add(t.begin, t.end, "function");
      return;
    }
    if (after == "=" && (before == "{" || before == ",") && !open_.empty() && open_.back() == '{')
      return;
    // The word that is being typed may become a known one.
    if (!is_known(word(i))) {
      if (cursor_ != t.end) add(t.begin, t.end, "unknown");
    } else if (call) {
      add(t.begin, t.end, "function");
    }
  }

  void brackets() {
    std::vector<size_t> open;
    size_t at[2] = {0, 0};
    bool found = false;
    for (size_t i = 0; i < tokens_.size(); ++i) {
      if (tokens_[i].kind != TokenKind::Op || word(i).size() != 1) continue;
      const char c = word(i)[0];
      if (c == '(' || c == '[' || c == '{') {
        open.push_back(i);
        continue;
      }
      if (c != ')' && c != ']' && c != '}') continue;
      const char want = c == ')' ? '(' : c == ']' ? '[' : '{';
      if (open.empty() || word(open.back())[0] != want) {
        add(tokens_[i].begin, tokens_[i].end, "error");
        continue;
      }
      const size_t a = tokens_[open.back()].begin, b = tokens_[i].begin;
      open.pop_back();
      // The bracket before the cursor counts before the one under it.
      if (cursor_ == a + 1 || cursor_ == b + 1)
        at[0] = a, at[1] = b, found = true;
      else if (!found && (cursor_ == a || cursor_ == b))
        at[0] = a, at[1] = b, found = true;
    }
    if (!found) return;
    add(at[0], at[0] + 1, "bracket");
    add(at[1], at[1] + 1, "bracket");
  }

  lua_State* L_;
  std::string_view text_;
  size_t cursor_;
  std::vector<Token> tokens_;
  std::vector<Span> spans_;
  std::unordered_set<std::string_view> known_;
  std::string open_;  // the brackets around the token that is looked at
};

}  // namespace

// highlight(text, cursor): a flat list {first, last, style, ..}; later spans count where they
// overlap.
int lua_highlight(lua_State* L) {
  size_t n;
  const char* text = luaL_checklstring(L, 1, &n);
  const lua_Integer cursor = luaL_optinteger(L, 2, -1);
  luaL_checkstack(L, 10, "highlight");
  constexpr size_t kMost = 200'000;  // more is pasted, not typed
  Highlighter h(L, {text, std::min(n, kMost)}, cursor < 0 ? n + 1 : static_cast<size_t>(cursor));
  const std::vector<Span>& spans = h.run();
  lua_createtable(L, static_cast<int>(3 * spans.size()), 0);
  lua_Integer k = 0;
  for (const Span& s : spans) {
    lua_pushinteger(L, static_cast<lua_Integer>(s.first));
    lua_rawseti(L, -2, ++k);
    lua_pushinteger(L, static_cast<lua_Integer>(s.last));
    lua_rawseti(L, -2, ++k);
    lua_pushstring(L, s.style);
    lua_rawseti(L, -2, ++k);
  }
  return 1;
}

}  // namespace tycho::shell
