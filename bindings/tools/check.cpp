// Arguments of the functions for the prompt's own Lua code (see check.h).
#include "bindings/tools/check.h"

#include <algorithm>

namespace tycho::lua {
namespace {

void want(lua_State* L, bool fits, int i, const char* who, const char* what) {
  std::string room;
  TYCHO_CHECK(Kind::Argument, fits, "%s: argument %d must be %s, not %s", who, i, what,
              describe_value(L, i, &room));
}

}  // namespace

void check_function(lua_State* L, int i, const char* who) {
  const bool callable = lua_isfunction(L, i) || luaL_getmetafield(L, i, "__call") != LUA_TNIL;
  if (callable && !lua_isfunction(L, i)) lua_pop(L, 1);
  want(L, callable, i, who, "a function");
}

std::string_view check_text(lua_State* L, int i, const char* who) {
  want(L, lua_type(L, i) == LUA_TSTRING, i, who, "a string");
  size_t n;
  const char* text = lua_tolstring(L, i, &n);
  return {text, n};
}

int64_t check_integer(lua_State* L, int i, const char* who) {
  int fits;
  const lua_Integer n = lua_tointegerx(L, i, &fits);
  want(L, fits, i, who, "an integer");
  return n;
}

double check_seconds(lua_State* L, int i, const char* who) {
  const double seconds = check_number(L, i, who);
  return seconds > 0 ? std::min(seconds, 1e9) : 0;
}

double check_number(lua_State* L, int i, const char* who) {
  want(L, lua_type(L, i) == LUA_TNUMBER, i, who, "a number");
  return lua_tonumber(L, i);
}

}  // namespace tycho::lua
