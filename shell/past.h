// The entries of earlier sessions, for %hist.
#pragma once
#include "bindings/core/lua.h"

namespace tycho::shell {

// (part, most) -> {{text=, time=, directory=, ok=, stamp=}, ..}, oldest first; the stamp
// is what remember gave
int lua_history(lua_State* L);

}  // namespace tycho::shell
