// Files in the user's own directories that nobody else may read.
#pragma once
#include "bindings/core/lua.h"

namespace tycho::shell {

// write_private(path, text): the file holds the text, or what it held before, never a part; its
// directories are made. true, or nil and why not.
int lua_write_private(lua_State* L);

}  // namespace tycho::shell
