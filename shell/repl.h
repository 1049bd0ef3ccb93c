// The read-evaluate-print loop.
#pragma once
#include <string>

#include "bindings/core/lua.h"
#include "shell/line/history.h"

namespace tycho::shell {

// Until the end of input; the exit status. `interactive` prints values though the input is no
// terminal, `clean` leaves out the user's init.lua.
int repl(lua_State* L, bool interactive, bool clean);
line::History* repl_history();   // while the loop runs, else null
std::string library_versions();  // "oneDNN 2.6.3 with avx512_core, zlib 1.2.13"

}  // namespace tycho::shell
