// string.format with tensors: one of a single element stands for its number where the format wants a number, as a
// 0-dimensional array does in Python's "%.3f". All else is Lua's own.
#include "bindings/core/format.h"

#include <cstring>

namespace tycho::lua {
namespace {

// Puts numbers in the place of tensors where the format wants numbers. The format is the first value.
void numbers_for_tensors(lua_State* L) {
  size_t size;
  const char* at = lua_tolstring(L, 1, &size);
  const char* const end = at + size;
  const int top = lua_gettop(L);
  for (int argument = 2; argument <= top; ++argument) {
    for (; at < end && (at[0] != '%' || at[1] == '%'); ++at)
      if (*at == '%') ++at;
    if (at >= end) return;
    const char* const spec = at++;
    while (at < end && std::strchr("-+ #0123456789.", *at)) ++at;
    if (at >= end) return;
    const Impl* t = lua_type(L, argument) == LUA_TUSERDATA ? to_impl(L, argument) : nullptr;
    if (!t || !std::strchr("diuoxXcaAeEfFgG", *at)) continue;
    const std::string wanted(spec, static_cast<size_t>(at - spec) + 1);
    const std::string shape = to_string(Sizes(t->shape, t->rank));
    TYCHO_CHECK(Kind::Argument, t->numel == 1,
                "format: \"%s\" wants one number, and argument %d is a tensor of shape %s",
                wanted.c_str(), argument, shape.c_str());
    lua_getfield(L, argument, "item");
    lua_pushvalue(L, argument);
    lua_call(L, 1, 1);
    if (lua_type(L, -1) == LUA_TBOOLEAN) {
      lua_pushinteger(L, lua_toboolean(L, -1));
      lua_remove(L, -2);
    }
    lua_replace(L, argument);
  }
}

int format_tensors(lua_State* L) {
  const int top = lua_gettop(L);
  if (lua_type(L, 1) == LUA_TSTRING)
    for (int i = 2; i <= top; ++i)
      if (lua_type(L, i) == LUA_TUSERDATA) {
        numbers_for_tensors(L);
        break;
      }
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, top, 1);
  return 1;
}

}  // namespace

void open_format(lua_State* L) {
  lua_getglobal(L, "string");
  lua_getfield(L, -1, "format");
  lua_pushcclosure(L, guarded<format_tensors>, 1);
  lua_setfield(L, -2, "format");
  lua_pop(L, 1);
}

}  // namespace tycho::lua
