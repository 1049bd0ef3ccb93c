// Commands that change the text.
#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "shell/line/state.h"
#include "shell/line/text.h"

namespace tycho::line {

void State::erase_left(int count) {
  if (count < 0) return erase_right(-count);
  const bool kills = number_.has_value();
  size_t from = buffer_.cursor();
  for (; count > 0 && from > 0; --count) from = buffer_.left(from);
  if (kills) return kill(from, buffer_.cursor(), true);
  // In the indentation, one step of it.
  const size_t begin = buffer_.line_begin(buffer_.cursor()), at = buffer_.cursor();
  const bool indentation = begin > 0 && at > begin + 1 &&
                           buffer_.text().find_first_not_of(' ', begin) >= at &&
                           (at - begin) % 2 == 0;
  if (indentation) from = at - 2;
  buffer_.erase(from, at);
}

void State::erase_right(int count) {
  if (count < 0) return erase_left(-count);
  const bool kills = number_.has_value();
  size_t to = buffer_.cursor();
  for (; count > 0 && to < buffer_.size(); --count) to = buffer_.right(to);
  if (kills) return kill(buffer_.cursor(), to, false);
  buffer_.erase(buffer_.cursor(), to);
}

void State::erase_or_end(int count) {
  if (buffer_.size() == 0)
    wish = Wish::End;
  else
    erase_right(count);
}

// Kills in a row are one: what was killed backwards goes before, the rest behind.
void State::kill(size_t begin, size_t end, bool back) {
  const bool append = last_ == Kind::KillBack || last_ == Kind::KillOn;
  now_ = back ? Kind::KillBack : Kind::KillOn;
  memory_.kills.add(std::string_view(buffer_.text()).substr(begin, end - begin), append, back);
  buffer_.erase(begin, end);
}

void State::kill_line(int count) {
  const size_t at = buffer_.cursor();
  if (count <= 0) return kill(buffer_.line_begin(at), at, true);
  size_t end = buffer_.line_end(at);
  if (number_)  // so many lines
    for (; count > 0 && end < buffer_.size(); --count) end = buffer_.line_end(end + 1);
  if (end == at && end < buffer_.size()) ++end;  // at a line's end: the line break
  kill(at, end, false);
}

void State::kill_line_back(int count) {
  if (count <= 0) return kill_line(1);
  const size_t at = buffer_.cursor();
  size_t begin = buffer_.line_begin(at);
  if (begin == at && begin > 0) --begin;
  kill(begin, at, true);
}

void State::kill_all(int) { kill(0, buffer_.size(), false); }

void State::kill_word(int count) {
  if (count < 0) return kill_word_back(-count);
  size_t to = buffer_.cursor();
  for (; count > 0 && to < buffer_.size(); --count) to = buffer_.word_right(to);
  kill(buffer_.cursor(), to, false);
}

void State::kill_word_back(int count) {
  if (count < 0) return kill_word(-count);
  size_t from = buffer_.cursor();
  for (; count > 0 && from > 0; --count) from = buffer_.word_left(from);
  kill(from, buffer_.cursor(), true);
}

void State::kill_big_word(int count) {
  if (count < 0) return kill_word(-count);
  size_t from = buffer_.cursor();
  for (; count > 0 && from > 0; --count) from = buffer_.big_word_left(from);
  kill(from, buffer_.cursor(), true);
}

void State::kill_region(int) {
  const size_t at = buffer_.cursor();
  buffer_.move(mark_);  // to where a character begins
  const size_t mark = buffer_.cursor();
  buffer_.move(at);
  kill(std::min(at, mark), std::max(at, mark), mark < at);
}

void State::yank(int count) {
  const std::string* s = memory_.kills.newest();
  if (!s) return;
  yank_begin_ = buffer_.cursor();
  insert(*s, std::max(1, count));
  now_ = Kind::Yank;
}

void State::yank_pop(int count) {
  if (last_ != Kind::Yank) return;
  const std::string* s = memory_.kills.rotate(count);
  buffer_.replace(yank_begin_, buffer_.cursor(), *s);
  now_ = Kind::Yank;
}

void State::undo(int count) {
  for (; count > 0; --count)
    if (!buffer_.undo()) break;
}

void State::revert(int) { buffer_.undo_all(); }

void State::swap_chars(int) {
  const std::string& text = buffer_.text();
  size_t at = buffer_.cursor();
  if (at == 0) return;
  if (at == buffer_.line_end(at)) at = buffer_.left(at);
  if (at == 0) return;
  const size_t from = buffer_.left(at), to = buffer_.right(at);
  buffer_.replace(from, to, text.substr(at, to - at) + text.substr(from, at - from));
}

// The word at or before the cursor goes over the next one.
void State::swap_words(int count) {
  if (count <= 0) return;
  const Buffer::Step step(&buffer_);
  const std::string text = buffer_.text();
  const size_t second_end = buffer_.word_right(buffer_.cursor());
  const size_t second = buffer_.word_left(second_end), first = buffer_.word_left(second);
  const size_t first_end = buffer_.word_right(first);
  if (first_end > second || first == second || !is_word(text, first)) return;
  buffer_.replace(first, second_end,
                  text.substr(second, second_end - second) +
                      text.substr(first_end, second - first_end) +
                      text.substr(first, first_end - first));
}

// ASCII letters only: what else has a case is the locale's affair.
void State::change_words(int count, int how) {
  const size_t at = buffer_.cursor();
  size_t from = at, to = at;
  for (; count > 0 && to < buffer_.size(); --count) to = buffer_.word_right(to);
  for (; count < 0 && from > 0; ++count) from = buffer_.word_left(from);
  std::string s = buffer_.text().substr(from, to - from);
  bool inside = false;
  for (size_t i = 0; i < s.size(); ++i) {
    const auto c = static_cast<unsigned char>(s[i]);
    const bool up = how > 0 || (how == 0 && !inside);
    inside = c >= 0x80 || std::isalnum(c) || c == '_';
    if (c < 0x80) s[i] = static_cast<char>(up ? std::toupper(c) : std::tolower(c));
  }
  buffer_.replace(from, to, s);
  buffer_.move(to);
}

void State::upper(int count) { change_words(count, 1); }
void State::lower(int count) { change_words(count, -1); }
void State::capital(int count) { change_words(count, 0); }

void State::erase_blanks(int) {
  const std::string& text = buffer_.text();
  const auto blank = [&text](size_t i) { return text[i] == ' ' || text[i] == '\t'; };
  size_t from = buffer_.cursor(), to = from;
  while (from > 0 && blank(from - 1)) --from;
  while (to < text.size() && blank(to)) ++to;
  buffer_.erase(from, to);
}

// The line becomes a comment, or is one no longer; the entry is kept without being run.
void State::comment(int) {
  const size_t begin = buffer_.line_begin(buffer_.cursor()), at = buffer_.cursor();
  size_t text = buffer_.text().find_first_not_of(" \t", begin);
  if (text == std::string::npos) text = begin;
  const bool is_one = buffer_.text().compare(text, 3, "-- ") == 0;
  if (is_one)
    buffer_.erase(text, text + 3);
  else
    buffer_.replace(text, text, "-- ");
  buffer_.move(is_one ? std::max(begin, at - std::min<size_t>(at, 3)) : at + 3);
}

void State::quote(int count) {
  wait_ = Wait::Quote;
  wait_count_ = count;
}

void State::insert_tab(int count) { insert("\t", count); }

}  // namespace tycho::line
