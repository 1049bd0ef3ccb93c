// Candidates run down the columns; one with a note has a row of its own while they all fit.
#include "shell/line/menu.h"

#include <algorithm>

#include "shell/line/text.h"

namespace tycho::line {
namespace {

constexpr int kGap = 2;

size_t at(int i) { return static_cast<size_t>(i); }

// Blanks up to a column, in one style.
void fill(Row* row, int column, Style style) {
  while (row->columns < column) row->add({.text = " ", .style = style});
}

void append(Row* row, const Row& more) {
  for (const Cell& c : more.cells) row->add(c);
}

}  // namespace

void Menu::open(Completion completion, std::string typed) {
  completion_ = std::move(completion);
  typed_ = std::move(typed);
  open_ = true;
  selected_ = -1;
  widths_.clear();
  for (const Candidate& c : completion_.items) widths_.push_back(columns_of(c.text));
}

std::string Menu::common_part() const {
  if (completion_.items.empty()) return {};
  std::string common = completion_.items[0].text;
  for (const Candidate& c : completion_.items) {
    size_t n = 0;
    while (n < common.size() && n < c.text.size() && common[n] == c.text[n]) ++n;
    common.resize(n);
  }
  // Never half a character.
  size_t end = 0;
  while (end < common.size()) {
    const Decoded d = decode(common, end);
    if (!d.valid) break;
    end += d.bytes;
  }
  common.resize(end);
  return common;
}

void Menu::step(int by) {
  const int n = static_cast<int>(count());
  if (n == 0) return;
  if (selected_ < 0)
    selected_ = by > 0 ? 0 : n - 1;
  else
    selected_ = ((selected_ + by) % n + n) % n;
}

void Menu::move(int columns, int rows) {
  const int wanted = selected_ + columns * grid_rows_ + rows;
  if (wanted >= 0 && wanted < static_cast<int>(count())) selected_ = wanted;
}

bool Menu::has_notes() const {
  return std::any_of(completion_.items.begin(), completion_.items.end(),
                     [](const Candidate& c) { return !c.note.empty(); });
}

// The widths of the columns when they are so many, or nothing when they do not fit.
std::vector<int> Menu::columns_when(int high, int first, int width) const {
  std::vector<int> widths;
  const int n = static_cast<int>(count());
  int sum = 0;
  for (int i = first; i < n; i += high) {
    int widest = 1;
    for (int k = i; k < std::min(i + high, n); ++k) widest = std::max(widest, widths_[at(k)]);
    const int gap = widths.empty() ? 0 : kGap;
    if (sum + gap + widest > width) break;
    sum += gap + widest;
    widths.push_back(widest);
  }
  if (widths.empty()) widths.push_back(width);
  return widths;
}

std::vector<Row> Menu::rows(int width, int most) {
  std::vector<Row> out;
  const int n = static_cast<int>(count());
  if (n == 0 || most <= 0) return out;
  const bool list = has_notes() && n <= most && width >= 20;
  if (list) return list_rows(width);
  // As few rows as will do; when even `most` do not, pages.
  int high = 1, first = 0;
  bool foot = has_notes() && most >= 2;
  const int room = foot ? most - 1 : most;
  while (high < room && static_cast<int>(columns_when(high, 0, width).size()) * high < n) ++high;
  std::vector<int> widths = columns_when(high, 0, width);
  const bool paged = static_cast<int>(widths.size()) * high < n;
  if (paged) {
    foot = most >= 2;
    high = foot ? most - 1 : most;
    for (widths = columns_when(high, first, width);; widths = columns_when(high, first, width)) {
      const int next = first + static_cast<int>(widths.size()) * high;
      if (selected_ < next || next >= n) break;
      first = next;
    }
  }
  grid_rows_ = high;
  for (int r = 0; r < high; ++r) {
    Row row;
    int column = 0;
    for (size_t c = 0; c < widths.size(); ++c) {
      const int i = first + static_cast<int>(c) * high + r;
      if (i >= n) break;
      fill(&row, column, Style::Plain);
      const Style style = i == selected_ ? Style::Selected : Style::Plain;
      append(&row, text_row(item(i).text, std::min(widths[c], width - row.columns), style));
      column += widths[c] + kGap;
    }
    if (!row.cells.empty()) out.push_back(std::move(row));
  }
  if (foot) {
    std::string text;
    if (paged) text = std::to_string(std::max(selected_, 0) + 1) + "/" + std::to_string(n) + "  ";
    if (selected_ >= 0) text += item(selected_).note;
    out.push_back(text_row(text, width, Style::Note));
  }
  return out;
}

// Every candidate in a row of its own, its note beside it.
std::vector<Row> Menu::list_rows(int width) {
  std::vector<Row> out;
  const int widest = std::min(width, *std::max_element(widths_.begin(), widths_.end()));
  grid_rows_ = static_cast<int>(count());
  for (int i = 0; i < grid_rows_; ++i) {
    Row row = text_row(item(i).text, widest, i == selected_ ? Style::Selected : Style::Plain);
    if (!item(i).note.empty()) {
      fill(&row, std::min(width, widest + kGap), Style::Plain);
      append(&row, text_row(item(i).note, width - row.columns, Style::Note));
    }
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace tycho::line
