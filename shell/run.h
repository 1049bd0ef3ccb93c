// Running a chunk for a person: Ctrl-C, error reports, exit status.
#pragma once
#include "bindings/lua.h"

namespace tycho::shell {

enum class Outcome { Ok, Failed, Interrupted };

void install_interrupts();  // Ctrl-C stops what `call` runs
void stop_listening();      // from here on Ctrl-C ends the process at once

// Calls the function below `arguments` values. Leaves its results, or the error, on the stack.
Outcome call(lua_State* L, int arguments, int results);

// Prints the error on top of the stack to stderr after `prefix`, with the traceback of the last
// `call` when wanted, and pops it.
void report(lua_State* L, const char* prefix, bool traceback);

}  // namespace tycho::shell
