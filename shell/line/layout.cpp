// Wrapping. A line is its prompt followed by its text; its rows are found by one walk over it.
#include "shell/line/layout.h"

#include <algorithm>
#include <deque>

#include "shell/line/text.h"

namespace tycho::line {
namespace {

constexpr int kTab = 4;

struct RowStart {
  size_t offset;    // in prompt + line
  int text_column;  // columns of the line's text before it: tabs count from there
};

struct Line {
  size_t begin = 0, end = 0;  // in the text
  std::string content;        // prompt + line
  size_t prompt = 0;          // bytes of the prompt
  std::vector<RowStart> rows;
};

// The character as it is shown when `room` columns are left in a row `width` wide.
Character shown_at(std::string_view s, size_t at, int text_column, int room, int width) {
  if (s[at] == '\t') {
    Character c = {.bytes = 1, .columns = kTab - text_column % kTab, .plain = false};
    c.columns = std::max(1, std::min(c.columns, room));
    c.shown.assign(static_cast<size_t>(c.columns), ' ');
    return c;
  }
  Character c = character_at(s, at);
  if (c.columns > width) {  // a window narrower than the character
    c.columns = 1;
    c.plain = false;
    c.certain = true;
    c.shown.assign(1, '?');
  }
  return c;
}

// Of one column whatever follows, unless a mark does: the caller looks at the next byte too.
bool simple(char c) { return c >= 0x20 && c < 0x7f; }

// Finds the rows of a line, and where byte `cursor` of its content stands, when inside.
void find_rows(Line* line, int width, size_t cursor, int* row, int* column) {
  const std::string_view s = line->content;
  line->rows = {{0, 0}};
  int x = 0, text_column = 0;
  size_t i = 0;
  for (; i < s.size();) {
    // Letters of one column, as many as fit the row, at once.
    size_t run = 0;
    const size_t room = std::min(static_cast<size_t>(width - x), s.size() - i - 1);
    while (run < room && simple(s[i + run]) && simple(s[i + run + 1])) ++run;
    if (i >= line->prompt && run > 1) {
      if (i <= cursor && cursor < i + run) {
        *row = static_cast<int>(line->rows.size()) - 1;
        *column = x + static_cast<int>(cursor - i);
      }
      x += static_cast<int>(run);
      text_column += static_cast<int>(run);
      i += run;
      continue;
    }
    Character c = shown_at(s, i, text_column, width - x, width);
    if (x + c.columns > width) {
      line->rows.push_back({i, text_column});
      x = 0;
      c = shown_at(s, i, text_column, width, width);
    }
    if (i <= cursor && cursor < i + c.bytes) {
      *row = static_cast<int>(line->rows.size()) - 1;
      *column = x;
    }
    x += c.columns;
    if (i >= line->prompt) text_column += c.columns;
    i += c.bytes;
  }
  if (cursor == s.size()) {
    if (x >= width) {  // behind a full row: the cursor waits in the next one
      line->rows.push_back({i, text_column});
      x = 0;
    }
    *row = static_cast<int>(line->rows.size()) - 1;
    *column = x;
  }
}

Line line_at(const Shown& shown, size_t begin, size_t end) {
  Line line;
  line.begin = begin;
  line.end = end;
  const std::string_view prompt = begin == 0 ? shown.first : shown.next;
  line.prompt = prompt.size();
  line.content.reserve(prompt.size() + end - begin);
  line.content.append(prompt).append(shown.text.substr(begin, end - begin));
  return line;
}

size_t end_of_line(std::string_view text, size_t begin) {
  return std::min(text.find('\n', begin), text.size());
}

Row cells_of(const Shown& shown, const Line& line, size_t row, int width) {
  Row out;
  const std::string_view s = line.content;
  const size_t end = row + 1 < line.rows.size() ? line.rows[row + 1].offset : s.size();
  int text_column = line.rows[row].text_column;
  for (size_t i = line.rows[row].offset; i < end;) {
    Character c = shown_at(s, i, text_column, width - out.columns, width);
    Cell cell = {.text = c.plain ? std::string(s.substr(i, c.bytes)) : std::move(c.shown),
                 .columns = c.columns,
                 .style = Style::Prompt,
                 .certain = c.certain};
    if (i >= line.prompt) {
      const size_t at = line.begin + i - line.prompt;
      cell.style = shown.styles && at < shown.styles->size() ? (*shown.styles)[at] : Style::Plain;
      if (!c.plain && s[i] != '\t' && c.certain) cell.style = Style::Harmless;
      text_column += c.columns;
    }
    out.add(std::move(cell));
    i += c.bytes;
  }
  return out;
}

// The part of a suggestion that fits behind the text's end.
void add_ghost(Row* row, std::string_view ghost, int width) {
  const size_t newline = ghost.find('\n');
  const Row tail = text_row(ghost.substr(0, newline), width - row->columns, Style::Ghost);
  for (const Cell& c : tail.cells) row->add(c);
  if (newline != ghost.npos && row->columns + 3 <= width)
    for (int k = 0; k < 3; ++k) row->add({.text = k ? "." : " ", .style = Style::Ghost});
}

}  // namespace

View lay_out(const Shown& shown, int width, int height, Top* top) {
  const std::string_view text = shown.text;
  const size_t cursor = std::min(shown.cursor, text.size());
  size_t begin = 0;
  if (cursor > 0) {
    const size_t newline = text.rfind('\n', cursor - 1);
    if (newline != text.npos) begin = newline + 1;
  }
  // The cursor's line, then neighbours until the window is full on both sides.
  std::deque<Line> lines = {line_at(shown, begin, end_of_line(text, begin))};
  int cursor_row = 0, column = 0, unused;
  find_rows(&lines[0], width, lines[0].prompt + cursor - begin, &cursor_row, &column);
  int rows = static_cast<int>(lines[0].rows.size());
  for (size_t at = begin; at > 0 && cursor_row < height;) {
    const size_t newline = at >= 2 ? text.rfind('\n', at - 2) : text.npos;
    const size_t previous = newline == text.npos ? 0 : newline + 1;
    Line line = line_at(shown, previous, at - 1);
    find_rows(&line, width, std::string::npos, &unused, &unused);
    const int n = static_cast<int>(line.rows.size());
    cursor_row += n;
    rows += n;
    lines.push_front(std::move(line));
    at = previous;
  }
  for (size_t end = lines.back().end; end < text.size() && rows - cursor_row <= height;) {
    Line line = line_at(shown, end + 1, end_of_line(text, end + 1));
    find_rows(&line, width, std::string::npos, &unused, &unused);
    rows += static_cast<int>(line.rows.size());
    end = line.end;
    lines.push_back(std::move(line));
  }
  // The window stays where it was as far as the cursor lets it, and holds no empty rows.
  int first = 0, r = 0;
  for (const Line& line : lines)
    for (const RowStart& start : line.rows) {
      if (line.begin < top->line || (line.begin == top->line && start.offset <= top->offset))
        first = r;
      ++r;
    }
  first = std::min(first, std::max(0, rows - height));
  first = std::clamp(first, std::max(0, cursor_row - height + 1), cursor_row);
  View view;
  view.cursor_row = cursor_row - first;
  view.cursor_column = column;
  r = 0;
  for (const Line& line : lines)
    for (size_t k = 0; k < line.rows.size(); ++k, ++r) {
      if (r < first || r >= first + height) continue;
      if (r == first) *top = {line.begin, line.rows[k].offset};
      view.rows.push_back(cells_of(shown, line, k, width));
      const bool at_end = line.end == text.size() && k + 1 == line.rows.size();
      if (at_end && !shown.ghost.empty()) add_ghost(&view.rows.back(), shown.ghost, width);
    }
  return view;
}

Row text_row(std::string_view text, int width, Style style) {
  Row row;
  for (size_t i = 0; i < text.size();) {
    Character c = character_at(text, i);
    if (row.columns + c.columns > width) break;
    row.add({.text = c.plain ? std::string(text.substr(i, c.bytes)) : std::move(c.shown),
             .columns = c.columns,
             .style = style,
             .certain = c.certain});
    i += c.bytes;
  }
  return row;
}

int column_in_line(std::string_view text, size_t begin, size_t at) {
  int x = 0;
  for (size_t i = begin; i < at && text[i] != '\n';) {
    const Character c = shown_at(text, i, x, kTab, kTab * 100);
    x += c.columns;
    i += c.bytes;
  }
  return x;
}

size_t at_column(std::string_view text, size_t begin, int column) {
  int x = 0;
  size_t i = begin;
  while (i < text.size() && text[i] != '\n') {
    const Character c = shown_at(text, i, x, kTab, kTab * 100);
    if (x + c.columns > column) break;
    x += c.columns;
    i += c.bytes;
  }
  return i;
}

}  // namespace tycho::line
