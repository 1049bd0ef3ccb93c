// Commands that move the cursor. A count below zero turns them around.
#include <algorithm>
#include <cstdlib>

#include "shell/line/state.h"

namespace tycho::line {

// At the beginning of a line already: the beginning of the entry.
void State::line_start(int) {
  const size_t begin = buffer_.line_begin(buffer_.cursor());
  const bool again = begin == buffer_.cursor() && last_ == Kind::Ends;
  buffer_.move(again ? 0 : begin);
  now_ = Kind::Ends;
  goal_ = 0;
}

void State::line_finish(int) {
  const size_t at = buffer_.cursor(), end = buffer_.line_end(at);
  const bool again = end == at && last_ == Kind::Ends;
  if (at == buffer_.size()) {
    const std::string rest = ghost();
    if (!rest.empty()) return buffer_.insert(rest);
  }
  buffer_.move(again ? buffer_.size() : end);
  now_ = Kind::Ends;
  goal_ = 1 << 20;  // up and down keep to the ends
}

void State::char_left(int count) {
  if (count < 0) return char_right(-count);
  size_t at = buffer_.cursor();
  for (; count > 0 && at > 0; --count) at = buffer_.left(at);
  buffer_.move(at);
}

void State::char_right(int count) {
  if (count < 0) return char_left(-count);
  size_t at = buffer_.cursor();
  if (at == buffer_.size()) {
    const std::string rest = ghost();
    if (!rest.empty()) return buffer_.insert(rest);
  }
  for (; count > 0 && at < buffer_.size(); --count) at = buffer_.right(at);
  buffer_.move(at);
}

void State::word_left(int count) {
  if (count < 0) return word_right(-count);
  size_t at = buffer_.cursor();
  for (; count > 0 && at > 0; --count) at = buffer_.word_left(at);
  buffer_.move(at);
}

// At the end: a word of the suggestion.
void State::word_right(int count) {
  if (count < 0) return word_left(-count);
  size_t at = buffer_.cursor();
  if (at == buffer_.size()) {
    const std::string rest = ghost();
    if (rest.empty()) return;
    Buffer suggested;
    suggested.reset(rest, 0);
    size_t end = 0;
    for (; count > 0; --count) end = suggested.word_right(end);
    return buffer_.insert(rest.substr(0, end));
  }
  for (; count > 0 && at < buffer_.size(); --count) at = buffer_.word_right(at);
  buffer_.move(at);
}

void State::vertical(int by) {
  const std::string& text = buffer_.text();
  size_t begin = buffer_.line_begin(buffer_.cursor());
  if (last_ != Kind::Vertical && last_ != Kind::Ends)
    goal_ = column_in_line(text, begin, buffer_.cursor());
  for (; by < 0 && begin > 0; ++by) begin = buffer_.line_begin(begin - 1);
  for (; by > 0 && buffer_.line_end(begin) < text.size(); --by) begin = buffer_.line_end(begin) + 1;
  buffer_.move(at_column(text, begin, goal_));
  now_ = Kind::Vertical;
}

// Inside several lines, then through the history.
void State::up(int count) {
  if (count < 0) return down(-count);
  if (last_ != Kind::Walk && buffer_.line_begin(buffer_.cursor()) > 0) return vertical(-count);
  for (; count > 0; --count) walk(-1, true), last_ = Kind::Walk;
}

void State::down(int count) {
  if (count < 0) return up(-count);
  if (last_ != Kind::Walk && buffer_.line_end(buffer_.cursor()) < buffer_.size())
    return vertical(count);
  for (; count > 0; --count) walk(1, true), last_ = Kind::Walk;
}

void State::set_mark(int) { mark_ = buffer_.cursor(); }

void State::swap_mark(int) {
  const size_t at = buffer_.cursor();
  buffer_.move(mark_);
  mark_ = at;
}

void State::find_char(int count) {
  wait_ = Wait::CharOn;
  wait_count_ = count;
}

void State::find_char_back(int count) {
  wait_ = Wait::CharBack;
  wait_count_ = count;
}

}  // namespace tycho::line
