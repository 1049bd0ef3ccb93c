// What is shown: the entry with its colours and suggestion, and below it a search, a menu or hints.
#include <algorithm>

#include "shell/line/state.h"
#include "shell/line/text.h"

namespace tycho::line {
namespace {
constexpr size_t kLively = 1 << 16;  // larger entries do without colours and hints
constexpr size_t kMostSuggested = 4096;
constexpr int kMostHintRows = 8, kMostMenuRows = 8;  // a menu may take half the window as well

// A line in as many rows as it needs, broken at blanks where there are some.
void add_wrapped(std::string_view text, int width, int most, std::vector<Row>* rows) {
  do {
    if (static_cast<int>(rows->size()) >= most) return;
    const Row whole = text_row(text, width, Style::Hint);
    size_t bytes = 0;
    for (size_t k = 0; k < whole.cells.size(); ++k) bytes = next_character(text, bytes);
    if (bytes == 0) return;
    const size_t blank = text.rfind(' ', bytes);
    const size_t content = text.find_first_not_of(' ');
    if (bytes < text.size() && blank != text.npos && blank > content && blank > bytes / 2)
      bytes = blank;
    rows->push_back(text_row(text.substr(0, bytes), width, Style::Hint));
    text.remove_prefix(bytes);
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  } while (!text.empty());
}

}  // namespace

std::string State::ghost() {
  const std::string& text = buffer_.text();
  if (text.empty() || text.size() > kMostSuggested || buffer_.cursor() != text.size()) return {};
  // What was recalled is complete already; End shall not make it longer.
  if (last_ == Kind::Walk) return {};
  if (menu_.is_open() || search_ || text.find_first_not_of(" \t\n") == text.npos) return {};
  for (size_t at = history_.size(); (at = history_.find_prefix(text, at)) != History::npos;) {
    const std::string entry = history_.text(at);
    if (entry.size() > text.size()) return entry.substr(text.size());
  }
  return {};
}

std::vector<Style> State::styles() {
  const std::string& text = buffer_.text();
  std::vector<Style> out;
  if (text.size() > kLively) return out;
  out.assign(text.size(), Style::Plain);
  const auto paint = [&out](size_t begin, size_t end, Style style) {
    for (size_t i = begin; i < std::min(end, out.size()); ++i) out[i] = style;
  };
  if (reader_.highlight)
    for (const Span& s : reader_.highlight(text, buffer_.cursor())) paint(s.begin, s.end, s.style);
  if (search_ && !failing_ && !query_.empty()) paint(match_, match_ + query_.size(), Style::Match);
  return out;
}

std::vector<Row> State::lower_rows(int width, int height, int most) {
  std::vector<Row> rows;
  if (most <= 0) return rows;
  if (search_) {
    const std::string what = direction_ < 0 ? "search: " : "search on: ";
    rows.push_back(text_row((failing_ ? "not found: " : what) + query_, width, Style::Hint));
  } else if (menu_.is_open()) {
    rows = menu_.rows(width, std::min(most, std::max(kMostMenuRows, height / 2)));
  } else if (number_ || minus_) {
    const std::string n = number_ ? std::to_string(*number_) : "";
    rows.push_back(text_row("number: " + std::string(minus_ ? "-" : "") + n, width, Style::Hint));
  } else if (reader_.hint && buffer_.size() <= kLively) {
    for (const std::string& line : reader_.hint(buffer_.text(), buffer_.cursor()))
      add_wrapped(line, width, std::min(most, kMostHintRows), &rows);
  }
  return rows;
}

View State::view(int width, int height) {
  const std::vector<Style> look = styles();
  const std::string suggestion = ghost();
  const Shown shown = {buffer_.text(), buffer_.cursor(), prompt_.first, prompt_.next,
                       &look,          suggestion};
  Top top = top_;
  View view = lay_out(shown, width, height, &top);
  // Below, what room is left, but up to half the window if it is wanted.
  const int left = height - static_cast<int>(view.rows.size());
  std::vector<Row> lower = lower_rows(width, height, std::max(left, height / 2));
  if (static_cast<int>(lower.size()) > left) {
    top = top_;
    view = lay_out(shown, width, height - static_cast<int>(lower.size()), &top);
  }
  top_ = top;
  for (Row& row : lower) view.rows.push_back(std::move(row));
  return view;
}

View State::last_view(int width) {
  constexpr int kMostRows = 1000;
  menu_.close();
  search_ = false;
  buffer_.move(buffer_.size());
  const std::vector<Style> look = styles();
  const Shown shown = {buffer_.text(), buffer_.size(), prompt_.first, prompt_.next, &look, {}};
  Top top;
  return lay_out(shown, width, kMostRows, &top);
}

}  // namespace tycho::line
