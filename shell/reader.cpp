// The editor's questions go to Lua, bounded in time; a failure there never reaches the editor.
#include "shell/reader.h"

#include <cstring>
#include <map>

#include "shell/native.h"

namespace tycho::shell {
namespace {

std::string failure;

void stop(lua_State* L, lua_Debug*) {
  lua_sethook(L, nullptr, 0, 0);
  luaL_error(L, "took too long");
}

// Calls the function on the stack below its arguments; false when it raised, or ran too long.
bool ask(lua_State* L, const char* name, int arguments, int results) {
  constexpr int kMostInstructions = 20'000'000;  // about 0.1 s
  lua_sethook(L, stop, LUA_MASKCOUNT, kMostInstructions);
  const int status = lua_pcall(L, arguments, results, 0);
  lua_sethook(L, nullptr, 0, 0);
  if (status == LUA_OK) return true;
  const char* text = lua_tostring(L, -1);
  if (failure.empty()) failure = std::string(name) + ": " + (text ? text : "failed");
  lua_pop(L, 1);
  return false;
}

// A part of the prompt that may be missing: pushes its function.
class Part {
 public:
  Part(lua_State* L, const char* name) : L_(L), name_(name) {}

  // Calls it with the text and the cursor.
  bool ask(const std::string& text, size_t cursor, int results) {
    if (missing_ || !lua_checkstack(L_, 20)) return false;
    if (!load()) return false;
    lua_pushlstring(L_, text.data(), text.size());
    lua_pushinteger(L_, static_cast<lua_Integer>(cursor));
    return shell::ask(L_, name_, 2, results);
  }

 private:
  bool load() {
    if (push_module(L_, name_)) return true;
    const char* text = lua_tostring(L_, -1);
    if (failure.empty() && text && !std::strstr(text, "no embedded file")) failure = text;
    lua_pop(L_, 1);
    missing_ = true;
    return false;
  }
  lua_State* L_;
  const char* name_;
  bool missing_ = false;
};

const std::map<std::string, line::Style, std::less<>>& styles() {
  using line::Style;
  static const std::map<std::string, Style, std::less<>> all = {
      {"plain", Style::Plain},       {"keyword", Style::Keyword},   {"string", Style::String},
      {"number", Style::Number},     {"comment", Style::Comment},   {"name", Style::Name},
      {"function", Style::Function}, {"unknown", Style::Unknown},   {"bracket", Style::Bracket},
      {"error", Style::Error},       {"command", Style::Command},   {"hint", Style::Hint},
      {"note", Style::Note},         {"selected", Style::Selected}, {"match", Style::Match}};
  return all;
}

size_t byte_field(lua_State* L, int list, lua_Integer i) {
  lua_rawgeti(L, list, i);
  const lua_Integer n = lua_tointeger(L, -1);
  lua_pop(L, 1);
  return n > 0 ? static_cast<size_t>(n) : 0;
}

std::string text_of(lua_State* L, int i) {
  size_t n = 0;
  const char* s = lua_tolstring(L, i, &n);
  return s ? std::string(s, n) : std::string();
}

std::vector<line::Span> spans(lua_State* L, int list, size_t size) {
  std::vector<line::Span> out;
  if (!lua_istable(L, list)) return out;
  for (lua_Integer i = 1, n = static_cast<lua_Integer>(lua_rawlen(L, list)); i + 2 <= n; i += 3) {
    const size_t first = byte_field(L, list, i), last = byte_field(L, list, i + 1);
    lua_rawgeti(L, list, i + 2);
    const auto style = styles().find(text_of(L, -1));
    lua_pop(L, 1);
    if (style != styles().end() && first >= 1 && first <= last && last <= size)
      out.push_back({first - 1, last, style->second});
  }
  return out;
}

line::Completion completion(lua_State* L, size_t cursor) {
  line::Completion out;
  const lua_Integer first = lua_tointeger(L, -2);
  out.begin = first >= 1 && static_cast<size_t>(first) <= cursor + 1
                  ? static_cast<size_t>(first) - 1
                  : cursor;
  if (!lua_istable(L, -1)) return out;
  for (lua_Integer i = 1, n = static_cast<lua_Integer>(lua_rawlen(L, -1)); i <= n; ++i) {
    lua_rawgeti(L, -1, i);
    line::Candidate candidate;
    if (lua_istable(L, -1)) {
      lua_getfield(L, -1, "text");
      lua_getfield(L, -2, "note");
      candidate = {text_of(L, -2), text_of(L, -1)};
      lua_pop(L, 2);
    } else {
      candidate.text = text_of(L, -1);
    }
    lua_pop(L, 1);
    if (!candidate.text.empty()) out.items.push_back(std::move(candidate));
  }
  return out;
}

std::vector<std::string> lines(lua_State* L, int i) {
  std::vector<std::string> out;
  if (lua_istable(L, i)) {
    for (lua_Integer k = 1, n = static_cast<lua_Integer>(lua_rawlen(L, i)); k <= n; ++k) {
      lua_rawgeti(L, i, k);
      out.push_back(text_of(L, -1));
      lua_pop(L, 1);
    }
  } else if (lua_isstring(L, i)) {
    const std::string text = text_of(L, i);
    for (size_t from = 0; from <= text.size();) {
      const size_t to = std::min(text.find('\n', from), text.size());
      out.push_back(text.substr(from, to - from));
      from = to + 1;
    }
  }
  return out;
}

}  // namespace

line::Reader make_reader(lua_State* L, int session) {
  line::Reader reader;
  reader.complete = [L, part = Part(L, "shell.complete")](const std::string& text,
                                                          size_t cursor) mutable {
    const int top = lua_gettop(L);
    line::Completion out;
    out.begin = cursor;
    if (part.ask(text, cursor, 2)) out = completion(L, cursor);
    lua_settop(L, top);
    return out;
  };
  reader.highlight = [L, part = Part(L, "shell.highlight")](const std::string& text,
                                                            size_t cursor) mutable {
    const int top = lua_gettop(L);
    std::vector<line::Span> out;
    if (part.ask(text, cursor, 1)) out = spans(L, lua_gettop(L), text.size());
    lua_settop(L, top);
    return out;
  };
  reader.hint = [L, part = Part(L, "shell.hint")](const std::string& text, size_t cursor) mutable {
    const int top = lua_gettop(L);
    std::vector<std::string> out;
    if (part.ask(text, cursor, 1)) out = lines(L, lua_gettop(L));
    lua_settop(L, top);
    return out;
  };
  reader.indent = [L, part = Part(L, "shell.indent")](const std::string& text,
                                                      size_t cursor) mutable {
    const int top = lua_gettop(L);
    int columns = 0;
    if (part.ask(text, cursor, 1)) columns = static_cast<int>(lua_tointeger(L, -1));
    lua_settop(L, top);
    return columns > 0 && columns < 200 ? columns : 0;
  };
  reader.is_done = [L, session](const std::string& text) {
    const int top = lua_gettop(L);
    lua_getfield(L, session, "is_done");
    lua_pushlstring(L, text.data(), text.size());
    const bool done = !ask(L, "is_done", 1, 1) || lua_toboolean(L, -1);
    lua_settop(L, top);
    return done;
  };
  // Their first use loads what they are made of.
  reader.warm_up = [reader] {
    const std::string sample = "torch.ones(";
    reader.highlight(sample, sample.size());
    reader.hint(sample, sample.size());
    reader.complete("torch.on", 8);
  };
  return reader;
}

std::string reader_failure() { return std::exchange(failure, {}); }

}  // namespace tycho::shell
