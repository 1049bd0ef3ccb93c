// The entries of earlier sessions, for %hist.
#pragma once
#include "bindings/core/lua.h"

namespace tycho::shell {

// (part, most) -> {{text=, time=, directory=, ok=}, ..}, oldest first
int lua_history(lua_State* L);

}  // namespace tycho::shell
