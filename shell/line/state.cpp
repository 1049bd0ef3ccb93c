// From a key to its command, and what all commands share.
#include "shell/line/state.h"

#include <algorithm>

#include "shell/line/text.h"

namespace tycho::line {
namespace {

constexpr int kLargestNumber = 9999;
constexpr size_t kMostText = 16 << 20;  // a person's entry; larger ones are files

// Text from elsewhere: its line ends become ours, and it ends with no empty line.
std::string pasted_text(const std::string& s) {
  std::string out;
  out.reserve(s.size());
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '\r')
      out += s[i];
    else if (i + 1 == s.size() || s[i + 1] != '\n')
      out += '\n';
  }
  out.resize(out.find_last_not_of('\n') + 1);
  return out;
}

}  // namespace

State::State(const Prompt& prompt, const Reader& reader, History& history, Memory& memory)
    : prompt_(prompt), reader_(reader), history_(history), memory_(memory) {}

void State::start(std::string text, size_t cursor) {
  buffer_.reset(std::move(text), cursor);
  if (memory_.next_entry != kDraft && buffer_.size() == 0) {
    place_ = memory_.next_entry;
    buffer_.reset(history_.text(place_), std::string::npos);
  }
  memory_.next_entry = History::npos;
}

void State::press(Key key, Keys& keys) {
  if (recording_ && recorded_.size() < 10'000) recorded_.push_back(key);
  now_ = Kind::Other;
  const bool in_search = search_ && search_key(key, keys);
  if (!in_search && !(menu_.is_open() && menu_key(key)) && !special(key, keys) &&
      !number_key(key)) {
    Command command = nullptr;
    if (after_x_) {
      command = find(kAfterX, key);
      after_x_ = false;
      if (command) run(command);
    } else {
      command = find(kBindings, key);
      // Without rows of their own: Meta with a capital, and keys with Shift.
      const Key plain = key & ~kModifiers;
      if (!command && key == (plain | kMeta) && plain >= 'A' && plain <= 'Z')
        command = find(kBindings, meta(plain | 32));
      if (!command && key & kShift) command = find(kBindings, key & ~kShift);
      if (command)
        run(command);
      else if (key == kPaste)
        insert(pasted_text(keys.pasted()), 1);
      else
        type_key(key, keys.byte());
    }
    if (!after_x_) number_.reset(), minus_ = false;
  }
  if (wait_ == Wait::Quote) keys.quote();
  last_ = now_;
  if (now_ != Kind::Type) buffer_.end_run();
}

State::Command State::find(const Binding* table, Key key) {
  for (; table->command; ++table)
    if (table->key == key) return table->command;
  return nullptr;
}

void State::run(Command command) {
  const int size = number_.value_or(1);
  (this->*command)(minus_ ? -size : size);
}

bool State::number_key(Key key) {
  const Key plain = key & ~kMeta;
  const bool begun = number_.has_value() || minus_;
  if (after_x_) return false;
  if (plain >= '0' && plain <= '9' && (key & kMeta || begun)) {
    number_ = std::min(kLargestNumber, number_.value_or(0) * 10 + static_cast<int>(plain - '0'));
  } else if (key == meta('-') && !begun) {
    minus_ = true;
  } else {
    return false;
  }
  now_ = last_;
  return true;
}

bool State::special(Key key, Keys& keys) {
  if (wait_ == Wait::Nothing) return false;
  const Wait wait = wait_;
  wait_ = Wait::Nothing;
  std::string wanted;
  if (key == kByte)
    wanted = std::string(1, static_cast<char>(keys.byte()));
  else if (key < 0x110000)
    append_utf8(&wanted, key);
  else
    return true;
  if (wait == Wait::Quote) {
    insert(wanted, wait_count_);
    return true;
  }
  const std::string& text = buffer_.text();
  const bool back = (wait == Wait::CharBack) != (wait_count_ < 0);
  size_t at = buffer_.cursor();
  for (int k = std::abs(wait_count_); k > 0; --k) {
    const size_t from = back ? at - 1 : buffer_.right(at);
    if (back && at == 0) return true;
    const size_t found = back ? text.rfind(wanted, from) : text.find(wanted, from);
    if (found == std::string::npos) return true;
    at = found;
  }
  buffer_.move(at);
  return true;
}

void State::type_key(Key key, unsigned char byte) {
  std::string s;
  if (key == kByte)
    s = std::string(1, static_cast<char>(byte));
  else if (key >= 0x20 && key < 0x110000 && key != 0x7f)
    append_utf8(&s, key);
  else
    return;
  const int count = minus_ ? 0 : number_.value_or(1);
  if (count != 1) return insert(s, count);
  if (buffer_.size() >= kMostText) return;
  now_ = Kind::Type;
  buffer_.type(s);
  reindent();
}

void State::insert(std::string_view s, int count) {
  if (count <= 0 || s.empty()) return;
  const size_t room = kMostText > buffer_.size() ? kMostText - buffer_.size() : 0;
  const size_t times = std::min(static_cast<size_t>(count), room / s.size());
  std::string all;
  for (size_t k = 0; k < times; ++k) all += s;
  buffer_.insert(all);
}

// The line that holds the cursor gets the indentation that the reader wants for it.
void State::indent_line() {
  if (!reader_.indent) return;
  const size_t begin = buffer_.line_begin(buffer_.cursor());
  const int columns = std::clamp(reader_.indent(buffer_.text(), buffer_.cursor()), 0, 200);
  const std::string& text = buffer_.text();
  size_t end = begin;
  while (end < text.size() && (text[end] == ' ' || text[end] == '\t')) ++end;
  const size_t behind = buffer_.cursor() > end ? buffer_.cursor() - end : 0;
  if (end - begin != static_cast<size_t>(columns) || text.find('\t', begin) < end) {
    buffer_.replace(begin, end, std::string(static_cast<size_t>(columns), ' '));
    buffer_.move(begin + static_cast<size_t>(columns) + behind);
  } else if (buffer_.cursor() < end) {
    buffer_.move(end);
  }
  auto_line_ = begin;
  auto_columns_ = columns;
}

// `end` moves out when its last letter is typed, and back in when it becomes `ending`.
void State::reindent() {
  if (!reader_.indent || auto_line_ == std::string::npos) return;
  const std::string& text = buffer_.text();
  const size_t at = buffer_.cursor(), begin = buffer_.line_begin(at);
  if (begin != auto_line_) return;
  const size_t word = begin + static_cast<size_t>(auto_columns_);
  constexpr size_t kLongestWord = 12;
  if (word >= at || at - word > kLongestWord) return;
  for (size_t i = begin; i < at; ++i)
    if ((text[i] == ' ') != (i < word)) return;
  indent_line();
}

void State::edited_outside(std::string text) { buffer_.set(std::move(text), std::string::npos); }

void State::prefix(int) { after_x_ = true; }
void State::clear(int) { wish = Wish::ClearScreen; }
void State::suspend(int) { wish = Wish::Suspend; }
void State::edit_outside(int) { wish = Wish::EditOutside; }
void State::cancel(int) { wish = Wish::Cancel; }
void State::abort(int) { minus_ = false; }

void State::enter(int) {
  if (!reader_.is_done || buffer_.text().find_first_not_of(" \t\n") == std::string::npos ||
      reader_.is_done(buffer_.text()))
    wish = Wish::Accept;
  else
    new_line(1);
}

void State::enter_and_next(int) {
  const size_t place = place_;
  enter(1);
  if (wish == Wish::Accept && place != kDraft && place + 1 < history_.size())
    memory_.next_entry = place + 1;
}

void State::new_line(int count) {
  const Buffer::Step step(&buffer_);
  const std::string& text = buffer_.text();
  size_t from = buffer_.cursor(), to = from;
  while (to < text.size() && text[to] == ' ') ++to;
  // A line with nothing but our own indentation is left empty.
  const size_t begin = buffer_.line_begin(from);
  if (begin == auto_line_ && text.find_first_not_of(' ', begin) >= from &&
      (to == text.size() || text[to] == '\n'))
    from = begin;
  buffer_.replace(from, to, "\n");
  insert("\n", count - 1);
  indent_line();
}

void State::begin_macro(int) {
  recording_ = !playing_;
  recorded_.clear();
}

void State::end_macro(int) {
  if (!recording_) return;
  recording_ = false;
  // Without the two keys that ended it.
  recorded_.resize(recorded_.size() - std::min<size_t>(2, recorded_.size()));
  memory_.macro = recorded_;
}

void State::play_macro(int count) {
  if (playing_ || recording_) return;
  playing_ = true;
  number_.reset();
  minus_ = false;
  Keys none;
  const std::vector<Key> macro = memory_.macro;
  constexpr size_t kMostKeys = 20'000;
  for (size_t k = 0, played = 0; k < static_cast<size_t>(std::max(0, count)); ++k)
    for (Key key : macro) {
      if (++played > kMostKeys || wish != Wish::Nothing) break;
      press(key, none);
    }
  playing_ = false;
}

}  // namespace tycho::line
