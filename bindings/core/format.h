// string.format that takes tensors of one element for numbers.
#pragma once
#include "bindings/core/lua.h"

namespace tycho::lua {

void open_format(lua_State* L);

}  // namespace tycho::lua
