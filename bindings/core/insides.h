// What is read of Lua beyond its public header, because the public way costs too much: the place of
// a userdata's bytes in its block, the caller's program counter, the form of dumped functions. Each
// was read in the source of Lua 5.4 and is tried on a known value before it is relied on; where
// it does not fit, the public interface does the work, slower or less exactly.
// TYCHO_PUBLIC_LUA=1 takes the public interface everywhere (tests do).
#pragma once
#include <string_view>

#include "bindings/core/lua.h"

namespace tycho::lua::insides {

// Whether anything but the public interface may be tried at all.
bool allowed();

// The program counter of the function at a level that lua_getstack has found.
const void* program_counter(const lua_Debug& ar);
// Whether that is what program_counter gives: tried on a function that calls from three places.
bool knows_program_counter(lua_State* L);

// Whether find_globals (codec/codec.h) reads what lua_dump writes: tried once, on a known function.
bool knows_dumps(lua_State* L);

}  // namespace tycho::lua::insides
