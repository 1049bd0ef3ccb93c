// A person at the editor without a terminal: bytes are typed, the screen is looked at. Every
// drawing is compared with what should be seen.
#pragma once
#include <string>

#include "shell/line/keys.h"
#include "shell/line/screen.h"
#include "shell/line/state.h"
#include "tests/shell/line/emulator.h"

class Desk {
 public:
  using State = tycho::line::State;
  explicit Desk(int columns = 80, int rows = 24, std::vector<std::string> history = {});

  // Bytes as they come from the terminal, drawn after all of them, or after each.
  void type(const std::string& bytes);
  void type_slowly(const std::string& bytes);
  void wait();  // long enough for an Esc to count
  void resize(int columns, int rows);
  void check();  // what is seen against what should be
  bool over() const { return state.wish != State::Wish::Nothing; }

  std::string text() const { return state.buffer().text(); }
  std::string before() const { return text().substr(0, state.buffer().cursor()); }
  // The text with "|" where the cursor is.
  std::string shown() const { return before() + "|" + text().substr(state.buffer().cursor()); }

  tycho::line::Prompt prompt = {"[1]> ", "...> "};
  tycho::line::Reader reader;
  tycho::line::History history;
  tycho::line::Memory memory;
  tycho::line::Keys keys;
  State state;
  tycho::line::Screen screen;
  Emulator emulator;
  size_t written = 0;  // bytes to the terminal so far

 private:
  void draw();
  bool resized_ = false;
};

// A reader for a tiny language: `do` and `{` open, `end` and `}` close, candidates are names of
// operations, numbers are coloured.
tycho::line::Reader small_reader();
