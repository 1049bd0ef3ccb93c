// The line editor: reads one entry of one or several lines from a person at a terminal, with
// readline's Emacs keys; reads plain lines from pipes and terminals that cannot move a cursor.
// It knows nothing of Lua: what it needs to know of an entry it asks its Reader.
#pragma once
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "shell/line/history.h"
#include "shell/line/style.h"

namespace tycho::line {

struct Prompt {
  std::string first, next;  // "[12]> ", and "...> " before further lines; plain text
};

struct Span {
  size_t begin, end;  // bytes of the text; where spans overlap, the later one counts
  Style style;
};

struct Candidate {
  std::string text, note;  // what is put in, and a few words shown beside it (may be empty)
};

struct Completion {
  size_t begin = 0;  // the candidates replace text[begin, cursor)
  std::vector<Candidate> items;
};

// What the editor asks while somebody types. Each may be empty. They are called once per drawing,
// not once per byte, should answer within a millisecond, and must not throw.
struct Reader {
  std::function<Completion(const std::string& text, size_t cursor)> complete;
  std::function<std::vector<Span>(const std::string& text, size_t cursor)> highlight;
  // Lines shown below the entry, wrapped where the window is too narrow.
  std::function<std::vector<std::string>(const std::string& text, size_t cursor)> hint;
  // Enter accepts an entry that is complete, or wrong (the caller then says what is wrong);
  // otherwise it begins a new line.
  std::function<bool(const std::string& text)> is_done;
  // Columns of indentation for the line that holds the cursor. What that line itself begins with
  // counts: `end`, `else`, `until`, `}` stand further left than what they close.
  std::function<int(const std::string& text, size_t cursor)> indent;
  // Called once, when the first prompt is there and nobody types yet: what takes its time at first.
  std::function<void()> warm_up;
};

enum class Ended {
  Entry,   // accepted; the cursor is at the beginning of a row
  End,     // Ctrl-D on an empty entry, or the input ended
  Cancel,  // Ctrl-C; `*entry` holds what was typed, and the cursor stands behind "^C"
};

// `*entry` may hold text to begin with: a wrong entry comes back for editing, its cursor at byte
// `cursor` (its end when beyond). The plain back end starts afresh instead.
Ended read_entry(const Prompt& prompt, const Reader& reader, History& history, std::string* entry,
                 size_t cursor = std::string::npos);

// True when a terminal is there that can move its cursor: otherwise plain lines are read.
bool can_edit();

// Puts the terminal back as it was before the read in progress, if any. May be called from a
// signal handler; leaving read_entry in any way, exit() included, does it by itself.
void restore_terminal();

// What the keys do, from the table that binds them: {"Ctrl-A  Home", "beginning of the line"}.
struct KeyHelp {
  std::string keys, does;
};
std::vector<KeyHelp> key_help();

struct WindowSize {
  int columns, rows;
};
WindowSize window_size();  // of the terminal on standard output; 80 x 24 when there is none

}  // namespace tycho::line
