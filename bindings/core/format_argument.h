// memory_format as an argument of methods that are no operations.
#pragma once
#include "bindings/core/lua.h"

namespace tycho::lua {

// The name in x:method(format) or x:method{memory_format = format}; null where there is none. The
// stack holds it. Raises Kind::Argument for anything else, where `who` begins the text.
const char* to_memory_format(lua_State* L, int i, const char* who);

}  // namespace tycho::lua
