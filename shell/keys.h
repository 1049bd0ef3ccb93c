// The line editor's keys, for %keys.
#pragma once
#include "bindings/core/lua.h"

namespace tycho::shell {

int lua_keys(lua_State* L);  // () -> {{keys=, does=}, ..}

}  // namespace tycho::shell
