// The terminal itself: raw mode, signals, bytes in and out.
#pragma once
#include <string>

#include "shell/line/editor.h"

namespace tycho::line {

// Raw mode and the signals of a read while it lives.
class RawMode {
 public:
  RawMode();
  ~RawMode();
  RawMode(const RawMode&) = delete;
  void accept_pastes();  // from now on pasted text comes between marks
  void leave();          // for an external editor or a stop
  void enter();
  void set_again();  // somebody may have changed the mode
  // Stops the process group as Ctrl-Z does elsewhere; returns when it goes on.
  void stop();
};

struct Happened {
  bool input = false, resized = false, continued = false, stop = false;
};
// Waits for bytes or a signal; with a limit in milliseconds unless it is negative.
Happened wait_for_terminal(int milliseconds);
bool input_waiting(int milliseconds = 0);
// Bytes from standard input, at most `most`; false at its end.
bool read_bytes(std::string* out, size_t most);
void write_bytes(const std::string& bytes);
bool terminal_reflows();  // whether it wraps rows anew when its width changes

// Lets somebody edit the text in $VISUAL or $EDITOR; false when that did not work.
bool edit_in_editor(std::string* text, std::string* message);

Ended read_plain(const Prompt& prompt, const Reader& reader, std::string* entry);

}  // namespace tycho::line
