// The line that a long entry shows after two seconds: how long it has run, the operation, the line
// of Lua. It is gone before anything else is written.
#pragma once
#include "bindings/core/lua.h"

namespace tycho::shell {

// At a terminal, before Lua opens its libraries: standard output and error become streams that take
// the line away before they write.
void prepare_status();
void begin_status();  // something runs; on the main thread
void end_status();
bool status_was_shown();  // when it ended last
void start_of_line();     // begins a new line where an entry's output left one unfinished

}  // namespace tycho::shell
