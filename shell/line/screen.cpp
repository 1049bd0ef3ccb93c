// Rows end by a motion of ours, never by the terminal's own wrapping, so that terminals agree.
#include "shell/line/screen.h"

#include <algorithm>
#include <cstring>

namespace tycho::line {
namespace {

void motion(int n, char direction, std::string* out) {
  if (n <= 0) return;
  *out += "\x1b[";
  if (n > 1) *out += std::to_string(n);
  *out += direction;
}

}  // namespace

std::string Screen::begin(int width) {
  forget();
  width_ = width;
  // A mark and blanks that fill a row: from a row's beginning they stay in it, from elsewhere they
  // run into the next one.
  return "\x1b[7m%\x1b[m" + std::string(static_cast<size_t>(width - 1), ' ') + "\r\x1b[J";
}

void Screen::forget() {
  rows_.clear();
  held_ = 1;
  row_ = column_ = 0;
  style_ = Style::Plain;
}

void Screen::set_style(Style style, std::string* out) {
  if (style == style_) return;
  const char *now = sgr(style_), *wanted = sgr(style);
  style_ = style;
  if (!std::strcmp(now, wanted)) return;
  *out += "\x1b[";
  if (*wanted) {
    if (*now) *out += "0;";
    *out += wanted;
  }
  *out += 'm';
}

void Screen::go(int row, int column, std::string* out) {
  if (column_ >= width_) column_ = -1;  // the terminal may have wrapped in its mind
  if (row >= held_) {
    go(held_ - 1, 0, out);
    set_style(Style::Plain, out);
    for (; held_ <= row; ++held_) *out += "\r\n";
    row_ = row;
    column_ = 0;
  }
  if (row != row_) {
    if (column_ < 0 || column == 0) {
      *out += '\r';
      column_ = 0;
    }
    motion(row_ - row, 'A', out);
    motion(row - row_, 'B', out);
    row_ = row;
  }
  if (column_ == column) return;
  if (column_ < 0 || column == 0) {
    *out += '\r';
    column_ = 0;
  }
  if (column_ > column && column_ - column <= 3)
    out->append(static_cast<size_t>(column_ - column), '\b');
  else
    motion(column_ - column, 'D', out);
  motion(column - column_, 'C', out);
  column_ = column;
}

void Screen::put(const Row& row, size_t from, size_t to, std::string* out) {
  int x = 0;
  for (size_t i = 0; i < from; ++i) x += row.cells[i].columns;
  for (size_t i = from; i < to; ++i) {
    const Cell& cell = row.cells[i];
    go(row_, x, out);
    set_style(cell.style, out);
    *out += cell.text;
    x += cell.columns;
    column_ = cell.certain ? x : -1;
  }
}

void Screen::update_row(int r, const Row& now, std::string* out) {
  static const Row empty;
  const Row& old = static_cast<size_t>(r) < rows_.size() ? rows_[static_cast<size_t>(r)] : empty;
  if (old == now) return;
  const size_t both = std::min(old.cells.size(), now.cells.size());
  size_t from = 0;
  while (from < both && old.cells[from] == now.cells[from]) ++from;
  size_t to = now.cells.size();
  if (old.columns == now.columns)
    for (size_t end = old.cells.size(); to > from && end > from; --to, --end)
      if (old.cells[end - 1] != now.cells[to - 1]) break;
  // Whether a terminal draws a character together with its neighbour is its own affair.
  if (from > 0 && !now.cells[from - 1].certain) --from;
  int x = 0;
  for (size_t i = 0; i < from; ++i) x += now.cells[i].columns;
  go(r, x, out);
  put(now, from, to, out);
  if (now.columns < old.columns) {
    go(r, now.columns, out);
    set_style(Style::Plain, out);
    *out += "\x1b[K";
  }
}

std::string Screen::draw(const View& view, int width) {
  std::string out;
  width_ = width;
  const int n = static_cast<int>(view.rows.size());
  for (int r = 0; r < n; ++r) update_row(r, view.rows[static_cast<size_t>(r)], &out);
  if (n > held_) go(n - 1, 0, &out);  // an empty row takes its place, too
  if (n < static_cast<int>(rows_.size())) {
    go(n, 0, &out);
    set_style(Style::Plain, &out);
    out += "\x1b[J";
  }
  set_style(Style::Plain, &out);
  go(view.cursor_row, view.cursor_column, &out);
  rows_ = view.rows;
  return out;
}

std::string Screen::erase() {
  std::string out;
  set_style(Style::Plain, &out);
  go(0, 0, &out);
  out += "\x1b[J";
  forget();
  return out;
}

std::string Screen::resized(int width, int height, bool reflows) {
  int up = row_;
  if (reflows) {
    const auto pieces = [width](int columns) { return std::max(1, (columns + width - 1) / width); };
    up = 0;
    for (int r = 0; r < row_ && static_cast<size_t>(r) < rows_.size(); ++r)
      up += pieces(rows_[static_cast<size_t>(r)].columns);
    up += std::max(0, column_) / width;
  }
  std::string out = "\r";
  motion(std::min(up, height - 1), 'A', &out);
  out += "\x1b[J";
  forget();
  return out;
}

std::string Screen::to_end() {
  std::string out;
  if (!rows_.empty()) go(static_cast<int>(rows_.size()) - 1, rows_.back().columns, &out);
  return out;
}

}  // namespace tycho::line
