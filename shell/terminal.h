// The terminal's settings, which user code may change, and must not leave changed.
#pragma once

namespace tycho::shell {

// Remembers the settings, and puts them back whatever ends the process.
void guard_terminal();
void restore_settings();  // as they were; may be called from a signal handler

}  // namespace tycho::shell
