// The plain read-evaluate-print loop.
#pragma once
#include <string>

#include "bindings/lua.h"

namespace tycho::shell {

int repl(lua_State* L, bool interactive);  // until end of input; the exit status
std::string library_versions();            // "oneDNN 2.6.3, zlib 1.2.13"

}  // namespace tycho::shell
