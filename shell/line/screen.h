// What the terminal shows of the entry now, and the fewest bytes that make it show something else.
#pragma once
#include <string>

#include "shell/line/layout.h"

namespace tycho::line {

class Screen {
 public:
  // The cursor stands somewhere, perhaps behind output without a newline: goes to the beginning of
  // an empty row, leaving a mark where output ended in mid-row.
  std::string begin(int width);
  // The cursor stands at the beginning of an empty row and nothing of ours is shown.
  void forget();
  std::string draw(const View& view, int width);
  // Takes everything away; the cursor is then where the first row began.
  std::string erase();
  // The window changed: takes away what the terminal made of the rows. `reflows` says that it
  // wraps rows anew.
  std::string resized(int width, int height, bool reflows);
  // The cursor goes behind the last row's text.
  std::string to_end();

 private:
  void go(int row, int column, std::string* out);
  void put(const Row& row, size_t from, size_t to, std::string* out);
  void set_style(Style style, std::string* out);
  void update_row(int r, const Row& now, std::string* out);
  std::vector<Row> rows_;
  int width_ = 80, held_ = 1;  // rows that the terminal has for us
  int row_ = 0, column_ = 0;   // column_ < 0: not known
  Style style_ = Style::Plain;
};

}  // namespace tycho::line
