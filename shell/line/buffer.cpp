// Changes are kept as what was taken out and put in, never as copies of the text.
#include "shell/line/buffer.h"

#include <algorithm>

#include "shell/line/text.h"

namespace tycho::line {
namespace {
constexpr size_t kLongestRun = 20;  // characters that one undo takes back
constexpr size_t kMostChanges = 10'000, kMostKept = 64 << 20;
bool blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }
}  // namespace

void Buffer::move(size_t at) {
  at = std::min(at, text_.size());
  if (at < text_.size() && at > 0) {
    const size_t begin = previous_character(text_, at);
    if (next_character(text_, begin) != at) at = begin;
  }
  cursor_ = at;
}

void Buffer::open_step() {
  if (depth_++ == 0) step_begun_ = false, run_ = 0;
}

void Buffer::type(std::string_view s) {
  const bool joins = run_ > 0 && run_ < kLongestRun && depth_ == 0 && !changes_.empty() &&
                     changes_.back().at + changes_.back().inserted.size() == cursor_;
  if (!joins) {
    replace(cursor_, cursor_, s);
    run_ = 1;
    return;
  }
  text_.insert(cursor_, s);
  changes_.back().inserted += s;
  kept_ += s.size();
  ++run_;
  move_behind(cursor_ + s.size());
}

// A mark typed behind its base belongs to it: the cursor goes where a character ends.
void Buffer::move_behind(size_t at) {
  move(at);
  if (cursor_ < at) cursor_ = next_character(text_, cursor_);
}

void Buffer::replace(size_t begin, size_t end, std::string_view s) {
  run_ = 0;
  if (begin == end && s.empty()) return;
  const bool joined = depth_ > 0 && step_begun_;
  step_begun_ = true;
  kept_ += end - begin + s.size();
  if (changes_.size() >= kMostChanges || kept_ > kMostKept) forget_oldest();
  changes_.push_back({begin, text_.substr(begin, end - begin), std::string(s), cursor_, joined});
  text_.replace(begin, end - begin, s);
  move_behind(begin + s.size());
}

void Buffer::forget_oldest() {
  const auto half = static_cast<std::ptrdiff_t>((changes_.size() + 1) / 2);
  for (auto c = changes_.begin(); c != changes_.begin() + half; ++c)
    kept_ -= c->removed.size() + c->inserted.size();
  changes_.erase(changes_.begin(), changes_.begin() + half);
  if (!changes_.empty()) changes_.front().joined = false;
}

void Buffer::set(std::string text, size_t cursor) {
  const Step step(this);
  replace(0, text_.size(), text);
  move(cursor);
}

void Buffer::reset(std::string text, size_t cursor) {
  text_ = std::move(text);
  changes_.clear();
  kept_ = run_ = 0;
  move(cursor);
}

bool Buffer::undo() {
  run_ = 0;
  if (changes_.empty()) return false;
  for (bool more = true; more && !changes_.empty();) {
    const Change& c = changes_.back();
    text_.replace(c.at, c.inserted.size(), c.removed);
    cursor_ = c.cursor;
    more = c.joined;
    kept_ -= c.removed.size() + c.inserted.size();
    changes_.pop_back();
  }
  move(cursor_);
  return true;
}

bool Buffer::undo_all() {
  bool any = false;
  while (undo()) any = true;
  return any;
}

size_t Buffer::left(size_t at) const { return previous_character(text_, at); }
size_t Buffer::right(size_t at) const { return next_character(text_, at); }

size_t Buffer::word_left(size_t at) const {
  const auto before = [&] { return previous_character(text_, at); };
  while (at > 0 && !is_word(text_, before())) at = before();
  while (at > 0 && is_word(text_, before())) at = before();
  return at;
}

size_t Buffer::word_right(size_t at) const {
  while (at < text_.size() && !is_word(text_, at)) at = next_character(text_, at);
  while (at < text_.size() && is_word(text_, at)) at = next_character(text_, at);
  return at;
}

size_t Buffer::big_word_left(size_t at) const {
  while (at > 0 && blank(text_[at - 1])) --at;
  while (at > 0 && !blank(text_[at - 1])) --at;
  return at;
}

size_t Buffer::line_begin(size_t at) const {
  if (at == 0) return 0;
  const size_t newline = text_.rfind('\n', at - 1);
  return newline == std::string::npos ? 0 : newline + 1;
}

size_t Buffer::line_end(size_t at) const {
  const size_t newline = text_.find('\n', at);
  return newline == std::string::npos ? text_.size() : newline;
}

void KillRing::add(std::string_view s, bool append, bool before) {
  if (s.empty()) return;
  if (append && !ring_.empty()) {
    before ? ring_.back().insert(0, s) : ring_.back().append(s);
  } else {
    ring_.emplace_back(s);
    if (ring_.size() > kMost) ring_.pop_front();
  }
  at_ = ring_.size() - 1;
}

const std::string* KillRing::newest() {
  if (ring_.empty()) return nullptr;
  at_ = ring_.size() - 1;
  return &ring_[at_];
}

const std::string* KillRing::rotate(int by) {
  if (ring_.empty()) return nullptr;
  const int n = static_cast<int>(ring_.size());
  at_ = static_cast<size_t>((((static_cast<int>(at_) - by) % n) + n) % n);
  return &ring_[at_];
}

}  // namespace tycho::line
