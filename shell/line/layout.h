// Where everything goes: the entry with its prompts wrapped to the window's width, as much of it
// as the window holds. Only lines near the cursor are looked at, so a long entry costs no more.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "shell/line/style.h"

namespace tycho::line {

struct Cell {
  std::string text;  // one character as the terminal gets it
  int columns = 1;
  Style style = Style::Plain;
  bool certain = true;  // terminals agree on its width
  bool operator==(const Cell&) const = default;
};

struct Row {
  std::vector<Cell> cells;
  int columns = 0;
  void add(Cell c) {
    columns += c.columns;
    cells.push_back(std::move(c));
  }
  bool operator==(const Row&) const = default;
};

struct View {
  std::vector<Row> rows;
  int cursor_row = 0, cursor_column = 0;
};

// What is shown of an entry.
struct Shown {
  std::string_view text;
  size_t cursor = 0;
  std::string_view first, next;                // prompts
  const std::vector<Style>* styles = nullptr;  // of each byte, or null
  std::string_view ghost;                      // a suggestion behind the end
};

// The row at the top of the window: which it is, so that it stays while the cursor moves.
struct Top {
  size_t line = 0, offset = 0;
};

// At most `height` rows of the entry. `*top` is where the window was and will be.
View lay_out(const Shown& shown, int width, int height, Top* top);

// One row of text, cut at the width; control characters made harmless.
Row text_row(std::string_view text, int width, Style style);

// The column in its line of byte `at`, and the byte of the line at `begin` nearest to a column.
int column_in_line(std::string_view text, size_t begin, size_t at);
size_t at_column(std::string_view text, size_t begin, int column);

}  // namespace tycho::line
