// Incremental search: what is typed is looked for in the history, the newest match first.
#include <algorithm>

#include "shell/line/state.h"
#include "shell/line/text.h"

namespace tycho::line {

void State::search_back(int) { begin_search(-1); }
void State::search_on(int) { begin_search(1); }

void State::begin_search(int direction) {
  search_ = true;
  failing_ = false;
  direction_ = direction;
  query_.clear();
  before_search_ = buffer_.text();
  cursor_before_ = buffer_.cursor();
  found_ = from_ = before_search_.empty() ? kDraft : place_;
  match_ = cursor_before_;
}

// Looks for the query in the entry shown and then, in the direction, in the others.
void State::search_again(int direction, bool from_here) {
  direction_ = direction;
  failing_ = false;
  if (query_.empty()) return;
  const std::string& text = buffer_.text();
  size_t inside;
  if (direction < 0) {
    if (from_here)
      inside = text.rfind(query_, match_);
    else
      inside = match_ > 0 ? text.rfind(query_, match_ - 1) : text.npos;
  } else {
    inside = text.find(query_, from_here ? match_ : match_ + 1);
  }
  if (inside != text.npos) {
    match_ = inside;
    return buffer_.move(match_);
  }
  size_t at = found_;
  do {
    if (direction < 0)
      at = history_.find(query_, at);
    else
      at = at < history_.size() ? history_.find_forward(query_, at + 1) : History::npos;
  } while (at != History::npos && history_.text(at) == text);
  if (at == History::npos) {
    failing_ = true;
    return;
  }
  found_ = at;
  std::string entry = history_.text(at);
  match_ = direction < 0 ? entry.rfind(query_) : entry.find(query_);
  buffer_.set(std::move(entry), match_);
}

// True when the search took the key; otherwise it has ended and the key counts as usual.
bool State::search_key(Key key, Keys& keys) {
  const auto grow = [&](const std::string& s) {
    query_ += s;
    search_again(direction_, true);
    return true;
  };
  if (key == ctrl('r') || key == ctrl('s')) {
    if (query_.empty()) {
      query_ = memory_.last_search;
      search_again(key == ctrl('r') ? -1 : 1, true);
    } else {
      search_again(key == ctrl('r') ? -1 : 1, false);
    }
    return true;
  }
  if (key == 0x7f || key == ctrl('h')) {
    if (!query_.empty()) query_.resize(previous_character(query_, query_.size()));
    // From the start again, so that it finds what it found before.
    buffer_.set(before_search_, cursor_before_);
    found_ = from_;
    match_ = cursor_before_;
    search_again(direction_, true);
    return true;
  }
  if (key == ctrl('g')) {
    search_ = false;
    buffer_.set(before_search_, cursor_before_);
    return true;
  }
  if (key == ctrl('w')) {  // the rest of the word at the match
    const size_t end = match_ + query_.size();
    if (end > buffer_.size()) return true;
    return grow(buffer_.text().substr(end, buffer_.word_right(end) - end));
  }
  if (key == kPaste) return grow(keys.pasted().substr(0, keys.pasted().find_first_of("\r\n")));
  if (key >= 0x20 && key < 0x110000 && key != 0x7f) {
    std::string s;
    append_utf8(&s, key);
    return grow(s);
  }
  search_ = false;
  if (!query_.empty()) memory_.last_search = query_;
  // The entry found is where walking goes on from.
  if (found_ != from_) {
    if (place_ == kDraft) edits_[place_] = before_search_;
    place_ = found_;
  }
  return key == kEscape;
}

}  // namespace tycho::line
