// The entries of earlier sessions, for %hist.
#pragma once
#include "bindings/core/lua.h"

namespace tycho::shell {

int lua_history(
    lua_State* L);  // (part, most) -> {{text=, time=, directory=, ok=}, ..}, oldest first

}  // namespace tycho::shell
