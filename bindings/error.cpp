// Error objects: what the engine throws becomes a table with kind, op, hint, where and the text.
#include <cstring>

#include "bindings/lua.h"

namespace tycho::lua {
namespace {

const char kMeta[] = "tycho.error";

int error_tostring(lua_State* L) {
  std::string text;
  const auto field = [&](const char* name) -> const char* {
    lua_getfield(L, 1, name);
    const char* s = lua_tostring(L, -1);
    lua_pop(L, 1);  // the table keeps the string
    return s;
  };
  if (const char* where = field("where"); where && *where) text = std::string(where) + ": ";
  if (const char* message = field("message")) text += message;
  if (const char* hint = field("hint"); hint && *hint) text += std::string("\n  try: ") + hint;
  lua_pushlstring(L, text.data(), text.size());
  return 1;
}

// "file.lua:12" of the innermost function that is the user's: not C, not part of torch itself.
std::string place(lua_State* L) {
  lua_Debug ar;
  for (int level = 0; lua_getstack(L, level, &ar); ++level) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline > 0 && std::string_view(ar.source).substr(0, 7) != "=torch/")
      return std::string(ar.short_src) + ":" + std::to_string(ar.currentline);
  }
  return {};
}

}  // namespace

void push_error(lua_State* L, const Error& e) {
  lua_createtable(L, 0, 5);
  const auto set = [&](const char* name, const std::string& value) {
    lua_pushlstring(L, value.data(), value.size());
    lua_setfield(L, -2, name);
  };
  set("kind", kind_name(e.kind));
  std::string op = e.op, text = e.text;
  if (op.empty()) {  // the text begins with the name, when it has one
    const size_t colon = text.find(": ");
    if (colon != text.npos && text.find(' ') > colon) op = text.substr(0, colon);
    if (!op.empty() && op.back() == '_') op.pop_back();
  } else if (text.compare(0, op.size(), op) != 0 ||
             (text[op.size()] != ':' && text[op.size()] != '_')) {
    text = op + ": " + text;
  }
  set("op", op);
  set("message", text);
  set("hint", e.hint);
  set("where", place(L));
  luaL_setmetatable(L, kMeta);
}

int raise(lua_State* L, const Error& e) {
  if (e.kind == Kind::Oom) {
    Error more = e;
    if (const std::string holders = largest_holders(L); !holders.empty())
      more.text += "; most is held by " + holders;
    push_error(L, more);
    return lua_error(L);
  }
  push_error(L, e);
  return lua_error(L);
}

// torch._raise(text, level, kind), which stands for `error` in the half written in Lua: the text
// becomes an error object; the level is not needed, because the place is the user's line.
int raise_text(lua_State* L) {
  if (lua_type(L, 1) == LUA_TTABLE && luaL_getmetafield(L, 1, "__name") != LUA_TNIL) {
    lua_settop(L, 1);  // an error object on its way up
    return lua_error(L);
  }
  std::string room;
  TYCHO_CHECK(Kind::Argument, lua_type(L, 1) == LUA_TSTRING, "error: wants a text, not %s",
              describe_value(L, 1, &room));
  Kind kind = Kind::Argument;
  if (const char* name = lua_tostring(L, 3))
    for (int k = 0; k <= static_cast<int>(Kind::Interrupt); ++k)
      if (!std::strcmp(name, kind_name(static_cast<Kind>(k)))) kind = static_cast<Kind>(k);
  return raise(L, Error(kind, lua_tostring(L, 1)));
}

void open_error(lua_State* L) {
  luaL_newmetatable(L, kMeta);
  lua_pushcfunction(L, error_tostring);
  lua_setfield(L, -2, "__tostring");
  lua_pushliteral(L, "error");
  lua_setfield(L, -2, "__name");
  lua_pop(L, 1);
}

}  // namespace tycho::lua
