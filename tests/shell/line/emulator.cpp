// Only what programs of this kind use: anything else is noted as trouble.
#include "tests/shell/line/emulator.h"

#include <algorithm>
#include <clocale>
#include <cwchar>

namespace {

size_t at(int i) { return static_cast<size_t>(i); }

size_t length(unsigned char first) {
  return first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

std::string trimmed(std::string s) {
  s.resize(s.find_last_not_of(' ') + 1);
  return s;
}

// The C library's opinion of widths, not the editor's.
int width_of(std::string_view s) {
  static const bool set = std::setlocale(LC_CTYPE, "C.UTF-8") != nullptr;
  (void)set;
  wchar_t c = 0;
  std::mbstate_t state = {};
  if (std::mbrtowc(&c, s.data(), s.size(), &state) > s.size()) return -1;
  if (c >= 0x4dc0 && c <= 0x4dff) return 1;  // hexagrams: its opinion is its own
  if (c >= 0x20000 && c <= 0x3fffd) return 2;
  const int width = wcwidth(c);
  return width < 0 && c >= 0xa0 ? 1 : width;  // not assigned yet
}

}  // namespace

Emulator::Emulator(int columns, int rows) : columns_(columns), height_(rows) {
  rows_.assign(at(rows), blank());
}

void Emulator::feed(std::string_view bytes) {
  for (char c : bytes) {
    const auto b = static_cast<unsigned char>(c);
    if (!partial_.empty() && partial_[0] == '\x1b') {
      partial_ += c;
      if (partial_.size() == 2 && c != '[') {
        trouble += "ESC " + std::string(1, c) + "\n";
        partial_.clear();
      } else if (partial_.size() > 2 && b >= 0x40) {
        sequence();
        partial_.clear();
      }
    } else if (!partial_.empty()) {
      partial_ += c;
      if (partial_.size() == length(static_cast<unsigned char>(partial_[0]))) {
        put(partial_, width_of(partial_));
        partial_.clear();
      }
    } else if (b == 0x1b || b >= 0xc0) {
      partial_ = c;
    } else if (b >= 0x80) {
      trouble += "a broken byte\n";
    } else if (b < 0x20 || b == 0x7f) {
      control(c);
    } else {
      put(std::string_view(&c, 1), 1);
    }
  }
}

void Emulator::clear_cell(int column) {
  auto& cells = rows_[at(y_)].cells;
  // Half a wide character cannot stay.
  if (cells[at(column)].text.empty() && column > 0) cells[at(column - 1)] = {};
  if (column + 1 < columns_ && cells[at(column + 1)].text.empty()) cells[at(column + 1)] = {};
  cells[at(column)] = {};
}

void Emulator::put(std::string_view character, int width) {
  if (width < 0) {
    trouble += "a character without a width\n";
    return;
  }
  if (width == 0) {
    const int column = pending_ ? x_ : x_ - 1;
    if (column < 0) return;
    auto& cells = rows_[at(y_)].cells;
    const int base = cells[at(column)].text.empty() && column > 0 ? column - 1 : column;
    cells[at(base)].text += character;
    return;
  }
  if (width > columns_) return;
  if (pending_ || x_ + width > columns_) {
    rows_[at(y_)].goes_on = true;
    x_ = 0;
    pending_ = false;
    line_feed();
  }
  for (int k = 0; k < width; ++k) clear_cell(x_ + k);
  auto& cells = rows_[at(y_)].cells;
  cells[at(x_)] = {std::string(character), look_};
  if (width == 2) cells[at(x_ + 1)] = {"", look_};
  x_ += width;
  if (x_ == columns_) {
    --x_;
    pending_ = true;
  }
}

void Emulator::line_feed() {
  if (++y_ < height_) return;
  y_ = height_ - 1;
  gone_.push_back(rows_.front());
  rows_.erase(rows_.begin());
  rows_.push_back(blank());
}

void Emulator::control(char c) {
  if (c == '\r') x_ = 0;
  if (c == '\b' && x_ > 0) --x_;
  if (c == '\n') line_feed();
  if (c != '\r' && c != '\b' && c != '\n') trouble += "a control character\n";
  pending_ = false;
}

void Emulator::set_look() {
  const std::string codes = partial_.substr(2, partial_.size() - 3);
  if (codes.empty() || codes == "0")
    look_.clear();
  else if (codes.compare(0, 2, "0;") == 0)
    look_ = codes.substr(2);
  else
    look_ += (look_.empty() ? "" : ";") + codes;
}

void Emulator::sequence() {
  const char last = partial_.back();
  const std::string middle = partial_.substr(2, partial_.size() - 3);
  if (middle == "?2004") {
    bracketed_ = last == 'h';
    return;
  }
  if (last == 'm') return set_look();
  const int n = std::max(1, std::atoi(middle.c_str()));
  const auto clear = [this](int row, int from, int to) {
    for (int c = from; c < to; ++c) {
      if (c == from) {
        const int keep = y_;
        y_ = row;
        clear_cell(c);
        y_ = keep;
      }
      rows_[at(row)].cells[at(c)] = {};
    }
    rows_[at(row)].goes_on = false;
  };
  switch (last) {
    case 'A':
      y_ = std::max(0, y_ - n);
      break;
    case 'B':
      y_ = std::min(height_ - 1, y_ + n);
      break;
    case 'C':
      x_ = std::min(columns_ - 1, x_ + n);
      break;
    case 'D':
      x_ = std::max(0, x_ - n);
      break;
    case 'H':
      x_ = y_ = 0;
      if (!middle.empty()) trouble += "a place\n";
      break;
    case 'J':
      if (middle != "2" && !middle.empty()) trouble += "J" + middle + "\n";
      if (middle.empty()) {
        if (pending_) trouble += "erased behind a full row\n";
        clear(y_, x_, columns_);
      }
      for (int r = middle.empty() ? y_ + 1 : 0; r < height_; ++r) clear(r, 0, columns_);
      break;
    case 'K':
      if (pending_) trouble += "erased behind a full row\n";
      clear(y_, x_, columns_);
      break;
    default:
      trouble += "sequence " + partial_.substr(1) + "\n";
  }
  pending_ = false;
}

void Emulator::resize(int columns, int rows) {
  // Lines as they were before any wrapping, the cursor's place among them.
  std::vector<std::vector<Cell>> lines;
  size_t cursor_line = 0, cursor_at = 0;
  bool goes_on = false;
  int last = height_ - 1;
  while (last > y_ && text(last).empty()) --last;
  for (int r = 0; r <= last; ++r) {
    if (!goes_on) lines.emplace_back();
    auto cells = rows_[at(r)].cells;
    goes_on = rows_[at(r)].goes_on;
    if (r == y_) {
      cursor_line = lines.size() - 1;
      cursor_at = lines.back().size() + at(x_);
    }
    if (!goes_on)
      while (!cells.empty() && cells.back().text == " ") cells.pop_back();
    lines.back().insert(lines.back().end(), cells.begin(), cells.end());
  }
  columns_ = columns;
  height_ = rows;
  rows_.clear();
  y_ = x_ = 0;
  for (size_t l = 0; l < lines.size(); ++l) {
    const auto& line = lines[l];
    size_t from = 0;
    do {
      Row row = blank();
      size_t n = 0;
      while (from + n < line.size() && n < at(columns)) {
        const bool wide = from + n + 1 < line.size() && line[from + n + 1].text.empty();
        if (wide && n + 2 > at(columns)) break;
        for (size_t k = 0; k < (wide ? 2 : 1); ++k, ++n)
          if (n < at(columns)) row.cells[n] = line[from + n];
      }
      n = std::max<size_t>(n, 1);
      const bool more = from + n < line.size();
      const bool here = l == cursor_line && cursor_at >= from && (cursor_at < from + n || !more);
      if (here) {
        y_ = static_cast<int>(rows_.size());
        x_ = std::min(columns - 1, static_cast<int>(cursor_at - from));
      }
      row.goes_on = more;
      rows_.push_back(row);
      from += n;
    } while (from < line.size());
  }
  while (static_cast<int>(rows_.size()) > rows) {
    if (y_ < static_cast<int>(rows_.size()) - 1 && static_cast<int>(rows_.size()) - y_ > rows) {
      rows_.pop_back();
      continue;
    }
    gone_.push_back(rows_.front());
    rows_.erase(rows_.begin());
    --y_;
  }
  y_ = std::max(0, y_);
  while (static_cast<int>(rows_.size()) < rows) rows_.push_back(blank());
  pending_ = false;
}

std::string Emulator::text(int row) const {
  std::string s;
  for (const Cell& c : rows_[at(row)].cells) s += c.text;
  return trimmed(s);
}

std::string Emulator::look(int row, int column) const {
  return rows_[at(row)].cells[at(column)].look;
}

std::string Emulator::all() const {
  std::string s;
  for (int r = 0; r < height_; ++r) s += text(r) + "\n";
  s.resize(s.find_last_not_of('\n') + 1);
  return s;
}

std::string Emulator::lines() const {
  std::string s;
  for (const Row& r : gone_) {
    std::string row;
    for (const Cell& c : r.cells) row += c.text;
    s += trimmed(row) + "\n";
  }
  return s + all();
}
