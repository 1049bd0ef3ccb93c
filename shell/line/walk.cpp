// Commands that bring back entries of the history, whole or in part.
#include <algorithm>

#include "shell/line/state.h"

namespace tycho::line {
namespace {

bool opens(char c) { return c == '(' || c == '[' || c == '{'; }
bool closes(char c) { return c == ')' || c == ']' || c == '}'; }

// Goes over a string that begins at `i`; the place behind it.
size_t behind_string(const std::string& s, size_t i) {
  const char quote = s[i++];
  while (i < s.size() && s[i] != quote) i += s[i] == '\\' ? 2 : 1;
  return std::min(i + 1, s.size());
}

std::string trimmed(const std::string& s) {
  const size_t from = s.find_first_not_of(" \t\n;"), to = s.find_last_not_of(" \t\n;");
  return from == s.npos ? "" : s.substr(from, to - from + 1);
}

// What an entry was about: the arguments of the call that ends it, else its words.
std::vector<std::string> arguments_of(const std::string& entry) {
  const std::string s = trimmed(entry);
  size_t open = s.npos, last_open = s.npos, last_close = s.npos;
  int depth = 0;
  std::vector<std::string> words;
  size_t word = 0;
  for (size_t i = 0; i < s.size();) {
    const char c = s[i];
    if (c == '"' || c == '\'') {
      i = behind_string(s, i);
      continue;
    }
    if (opens(c) && depth++ == 0) open = i;
    if (closes(c) && depth > 0 && --depth == 0) last_open = open, last_close = i;
    if (depth == 0 && (c == ' ' || c == '\t' || c == '\n')) {
      if (i > word) words.push_back(s.substr(word, i - word));
      word = i + 1;
    }
    ++i;
  }
  if (word < s.size()) words.push_back(s.substr(word));
  const bool call = last_close != s.npos && last_close + 1 == s.size() && s.back() == ')';
  if (!call || last_close == last_open + 1) return words;
  std::vector<std::string> arguments;
  size_t begin = last_open + 1;
  depth = 0;
  for (size_t i = begin; i < last_close;) {
    const char c = s[i];
    if (c == '"' || c == '\'') {
      i = behind_string(s, i);
      continue;
    }
    if (opens(c)) ++depth;
    if (closes(c)) --depth;
    if (c == ',' && depth == 0) {
      arguments.push_back(trimmed(s.substr(begin, i - begin)));
      begin = i + 1;
    }
    ++i;
  }
  arguments.push_back(trimmed(s.substr(begin, last_close - begin)));
  return arguments;
}

}  // namespace

// Shows another entry; what was changed in this one waits there.
void State::go_to_entry(size_t position) {
  const std::string& text = buffer_.text();
  if (place_ == kDraft || text != history_.text(place_)) edits_[place_] = text;
  place_ = position;
  const auto edit = edits_.find(position);
  std::string next = edit != edits_.end() ? edit->second : history_.text(position);
  auto_line_ = std::string::npos;
  buffer_.set(std::move(next), std::string::npos);
}

// To the next entry in a direction that begins with what stands before the cursor. Entries that
// say the same are shown once.
void State::walk(int direction, bool by_prefix) {
  if (last_ != Kind::Walk) prefix_ = buffer_.text().substr(0, by_prefix ? buffer_.cursor() : 0);
  now_ = Kind::Walk;
  const std::string here = buffer_.text();
  size_t at = place_;
  while (true) {
    if (direction < 0) {
      at = history_.find_prefix(prefix_, at);
      if (at == History::npos) return;
    } else {
      if (at == kDraft) return;
      at = history_.find_prefix_forward(prefix_, at + 1);  // or what was typed
    }
    if (at == kDraft || edits_.count(at) || history_.text(at) != here) break;
  }
  go_to_entry(at);
}

void State::older(int count) {
  for (; count > 0; --count) walk(-1, false), last_ = Kind::Walk;
}

void State::newer(int count) {
  for (; count > 0; --count) walk(1, false), last_ = Kind::Walk;
}

void State::oldest(int) {
  if (history_.size() > 0) go_to_entry(0);
}

void State::newest(int) {
  if (place_ != kDraft) go_to_entry(kDraft);
}

// The last argument of the entry before; again, of the one before that. With a number, that one.
void State::last_argument(int count) {
  if (last_ != Kind::Argument) {
    argument_entry_ = history_.size();
    argument_begin_ = buffer_.cursor();
    argument_number_ = number_ ? count : 0;
  }
  now_ = Kind::Argument;
  while (argument_entry_ > 0) {
    const std::vector<std::string> all = arguments_of(history_.text(--argument_entry_));
    const int n = static_cast<int>(all.size());
    const int which = argument_number_ > 0 ? argument_number_ - 1 : n - 1 + argument_number_;
    if (which < 0 || which >= n) continue;
    if (last_ == Kind::Argument) buffer_.undo();
    buffer_.move(argument_begin_);
    const Buffer::Step step(&buffer_);
    buffer_.insert(all[static_cast<size_t>(which)]);
    return;
  }
}

void State::first_argument(int count) {
  const int n = number_ ? count : 1;
  number_ = n;
  last_argument(n);
}

}  // namespace tycho::line
