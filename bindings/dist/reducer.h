// What training on several ranks asks of C++: torch._reducer and its kin, for torch/nn/parallel.lua.
#pragma once
#include "bindings/core/lua.h"

namespace tycho::lua {

void open_reducer(lua_State* L, int torch);

}  // namespace tycho::lua
