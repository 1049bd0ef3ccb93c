// Running a chunk for a person: Ctrl-C, error reports, exit status.
#pragma once
#include "bindings/core/lua.h"

namespace tycho::shell {

enum class Outcome { Ok, Failed, Interrupted };

void install_interrupts();  // Ctrl-C stops what `call` runs
void stay_on_interrupts();  // from here on no number of Ctrl-C ends the process
void stop_listening();      // from here on Ctrl-C ends the process at once

// Calls the function below `arguments` values. Leaves its results, or the error, on the stack.
// Calls may nest; an interrupt ends all of them.
Outcome call(lua_State* L, int arguments, int results);

// Pushes what the last failed call was doing: {frames = {{source=, line=, name=, what=,
// locals={..}}}}, innermost first, the user's functions only, values as text ("float32 [2, 3]").
void push_trace(lua_State* L);
void keep_frame_values(bool yes);  // traces hold the values of locals too, for %debug

}  // namespace tycho::shell
