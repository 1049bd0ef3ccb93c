// Candidates run down the columns; one with a note has a row of its own while they all fit.
#include "shell/line/menu.h"

#include <algorithm>

#include "shell/line/text.h"

namespace tycho::line {
namespace {

constexpr int kGap = 2;

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

std::vector<Row> Menu::rows(int width, int most) {
  std::vector<Row> out;
  const int n = static_cast<int>(count());
  if (n == 0 || most <= 0) return out;
  int widest = 1;
  for (const Candidate& c : completion_.items) widest = std::max(widest, columns_of(c.text));
  widest = std::min(widest, width);
  const bool list = has_notes() && n <= most && width >= 20;
  const int columns = list ? 1 : std::max(1, (width + kGap) / (widest + kGap));
  int high = std::min(most, (n + columns - 1) / columns);
  // A last row says how many there are, or what the chosen one is, when there is more to say.
  const bool paged = high * columns < n;
  const bool foot = !list && most >= 2 && (paged || has_notes());
  if (foot) high = std::min(high, most - 1);
  grid_rows_ = high;
  const int page = high * columns, first = selected_ < 0 ? 0 : selected_ / page * page;
  for (int r = 0; r < high; ++r) {
    Row row;
    for (int c = 0; c < columns; ++c) {
      const int i = first + c * high + r;
      if (i >= n) break;
      fill(&row, c * (widest + kGap), Style::Plain);
      const Style style = i == selected_ ? Style::Selected : Style::Plain;
      append(&row, text_row(item(i).text, std::min(widest, width - row.columns), style));
      if (list && !item(i).note.empty()) {
        fill(&row, std::min(width, widest + kGap), Style::Plain);
        append(&row, text_row(item(i).note, width - row.columns, Style::Note));
      }
    }
    out.push_back(std::move(row));
  }
  if (foot) {
    std::string text;
    if (paged)
      text = std::to_string(selected_ + 1 > 0 ? selected_ + 1 : 1) + "/" + std::to_string(n) + "  ";
    if (selected_ >= 0) text += item(selected_).note;
    out.push_back(text_row(text, width, Style::Note));
  }
  return out;
}

}  // namespace tycho::line
