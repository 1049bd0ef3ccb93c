// What the functions for the prompt's own Lua code (torch._lex and its kin) ask of their arguments:
// users reach them too, so a wrong one is an error object as everywhere.
#pragma once
#include <string_view>

#include "bindings/core/lua.h"

namespace tycho::lua {

void check_function(lua_State* L, int i, const char* who);  // or what can be called like one
std::string_view check_text(lua_State* L, int i, const char* who);
int64_t check_integer(lua_State* L, int i, const char* who);
double check_number(lua_State* L, int i, const char* who);
// 0 to 1e9, of any number: what is below, or none at all (nan), is 0.
double check_seconds(lua_State* L, int i, const char* who);

}  // namespace tycho::lua
