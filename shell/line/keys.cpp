// A small machine that eats one byte at a time.
#include "shell/line/keys.h"

#include <cstdlib>

#include "shell/line/text.h"

namespace tycho::line {
namespace {

constexpr char kPasteEnd[] = "\x1b[201~";
constexpr size_t kPasteEndSize = sizeof kPasteEnd - 1;
constexpr size_t kLongestSequence = 64, kLongestString = 1 << 16;

struct Named {
  int number;  // before "~", or the last byte of a sequence
  Key key;
};
constexpr Named kTilde[] = {{1, kHome},   {2, kInsert},   {3, kDelete}, {4, kEnd},
                            {5, kPageUp}, {6, kPageDown}, {7, kHome},   {8, kEnd}};
constexpr Named kFinal[] = {{'A', kUp},   {'B', kDown}, {'C', kRight},  {'D', kLeft},
                            {'H', kHome}, {'F', kEnd},  {'Z', kBackTab}};
// rxvt: small letters are the arrows with Shift, after Esc O with Ctrl.
constexpr Named kSmall[] = {{'a', kUp}, {'b', kDown}, {'c', kRight}, {'d', kLeft}};

template <size_t n>
Key find(const Named (&table)[n], int number) {
  for (const Named& row : table)
    if (row.number == number) return row.key;
  return 0;
}

// xterm's modifier number: 1 + Shift 1, Alt 2, Ctrl 4, Meta 8.
Key modifiers(int number) {
  const int bits = number > 0 ? number - 1 : 0;
  return (bits & 1 ? kShift : 0) | (bits & 10 ? kMeta : 0) | (bits & 4 ? kCtrl : 0);
}

// A character reported with its modifiers (CSI u, modifyOtherKeys) as the older terminals send it.
Key reported(int code, Key with) {
  if (code <= 0 || code >= 0x110000) return 0;
  Key k = static_cast<Key>(code);
  if (code == 13 && with & kShift) return meta(13);
  if (code == 9 && with & kShift) return kBackTab;
  if (with & kCtrl && ((k | 32) >= 'a' && (k | 32) <= 'z'))
    k &= 0x1f;
  else if (with & kCtrl && k >= '@' && k <= '_')
    k &= 0x1f;
  else if (with & kCtrl && k == '/')
    k = 0x1f;
  return k | (with & kMeta);
}

}  // namespace

bool Keys::next(Key* key) {
  while (at_ < input_.size()) {
    const bool found = take(static_cast<unsigned char>(input_[at_++]), key);
    if (at_ == input_.size()) input_.clear(), at_ = 0;
    if (found) return true;
  }
  return false;
}

std::string Keys::rest() {
  std::string left = input_.substr(at_);
  input_.clear();
  at_ = 0;
  return left;
}

bool Keys::waiting() const {
  switch (state_) {
    case State::Escape:
      return !late_;
    case State::Sequence:
    case State::Function:
      return late_ && pending_.empty();
    case State::String:
      return pending_.size() == 1;
    default:
      return false;
  }
}

bool Keys::quiet(bool wanted, Key* key) {
  if (state_ == State::Escape && !late_ && wanted) {
    late_ = true;
    *key = kEscape;
    return true;
  }
  if ((state_ == State::Sequence || state_ == State::Function) && late_ && pending_.empty()) {
    meta_ = false;
    return done(state_ == State::Sequence ? '[' : 'O', key);
  }
  if (state_ == State::String && pending_.size() == 1)  // M-] and the like, typed by hand
    return done(meta(static_cast<unsigned char>(pending_[0])), key);
  return false;
}

bool Keys::done(Key k, Key* key) {
  *key = k | (meta_ ? kMeta : 0);
  state_ = State::Ground;
  meta_ = late_ = string_end_ = false;
  pending_.clear();
  return k != 0;
}

bool Keys::take(unsigned char c, Key* key) {
  switch (state_) {
    case State::Ground:
      return begin(c, key);
    case State::Character:
      return character(c, key);
    case State::Escape:
      return escape(c, key);
    case State::Paste:
      return paste(c, key);
    case State::Linux:
      return done(0, key);
    case State::String:
      return inside_string(c, key);
    case State::Sequence:
    case State::Function:
      break;
  }
  // A sequence goes on with 0x20..0x3f and ends with 0x40..0x7e; anything else breaks it off.
  if (c < 0x20 || c > 0x7e) {
    done(0, key);
    return begin(c, key);
  }
  if (state_ == State::Sequence && c == '[' && pending_.empty()) {
    state_ = State::Linux;
    return false;
  }
  if (c >= 0x40) return finish_sequence(c, key);
  if (pending_.size() < kLongestSequence) pending_ += static_cast<char>(c);
  return false;
}

bool Keys::begin(unsigned char c, Key* key) {
  if (quoting_) {
    quoting_ = false;
    if (c < 0x20 || c == 0x7f) {
      byte_ = c;
      return done(kByte, key);
    }
  }
  if (c == 0x1b) {
    state_ = State::Escape;
    return false;
  }
  if (c < 0x80) return done(c ? Key{c} : Key{kNull}, key);
  pending_.assign(1, static_cast<char>(c));
  if (bytes_missing(pending_) > 0) {
    state_ = State::Character;
    return false;
  }
  byte_ = c;
  return done(kByte, key);
}

bool Keys::character(unsigned char c, Key* key) {
  pending_ += static_cast<char>(c);
  if (bytes_missing(pending_) > 0) return false;
  const Decoded d = decode(pending_, 0);
  if (d.valid && d.bytes == pending_.size()) return done(d.code, key);
  // Broken: its first byte is one of its own, the others get another chance.
  byte_ = static_cast<unsigned char>(pending_[0]);
  input_.insert(at_, pending_, 1, std::string::npos);
  return done(kByte, key);
}

bool Keys::escape(unsigned char c, Key* key) {
  if (c == 0x1b) {
    meta_ = !late_;
    late_ = false;
    return false;
  }
  if (c == '[' || c == 'O') {
    state_ = c == '[' ? State::Sequence : State::Function;
    return false;
  }
  if (late_) {  // that Esc has done its work already
    done(0, key);
    return begin(c, key);
  }
  if (c == ']' || c == 'P' || c == '_' || c == '^' || c == 'X') {
    state_ = State::String;
    pending_.assign(1, static_cast<char>(c));
    return false;
  }
  meta_ = true;
  if (c >= 0x80) return begin(c, key);
  return done(c ? Key{c} : Key{kNull}, key);
}

// What a terminal reports in a string (colours, titles) is not for us: up to BEL or Esc "\".
bool Keys::inside_string(unsigned char c, Key* key) {
  if (string_end_) {
    done(0, key);
    if (c == '\\') return false;
    state_ = State::Escape;
    return escape(c, key);
  }
  if (c == 0x1b) {
    string_end_ = true;
    return false;
  }
  if (c == 0x07 || pending_.size() >= kLongestString) return done(0, key);
  if (c < 0x20) {  // not a report after all
    done(0, key);
    return begin(c, key);
  }
  pending_ += static_cast<char>(c);
  return false;
}

bool Keys::finish_sequence(unsigned char last, Key* key) {
  int numbers[3] = {0, 0, 0};
  size_t n = 0;
  bool foreign = false;
  for (char c : pending_) {
    if (c >= '0' && c <= '9' && n < 3)
      numbers[n] = numbers[n] < 1'000'000 ? numbers[n] * 10 + (c - '0') : numbers[n];
    else if (c == ';')
      ++n;
    else
      foreign = true;
  }
  if (foreign && last != '^') return done(0, key);
  if (state_ == State::Function) {
    if (last == 'M') return done(13, key);
    if (const Key k = find(kSmall, last)) return done(k | kCtrl, key);
    const Key k = find(kFinal, last);
    return done(k ? k | modifiers(n > 0 ? numbers[1] : numbers[0]) : 0, key);
  }
  if (last == '~' || last == '^') {
    if (numbers[0] == 200 && last == '~') {
      done(0, key);
      state_ = State::Paste;
      paste_.clear();
      return false;
    }
    if (numbers[0] == 27) return done(reported(numbers[2], modifiers(numbers[1])), key);
    const Key k = find(kTilde, numbers[0]);
    return done(k ? k | modifiers(numbers[1]) | (last == '^' ? kCtrl : 0) : 0, key);
  }
  if (last == 'u') return done(reported(numbers[0], modifiers(numbers[1])), key);
  if (const Key k = find(kSmall, last)) return done(k | kShift, key);
  const Key k = find(kFinal, last);
  return done(k ? k | modifiers(numbers[1]) : 0, key);
}

bool Keys::paste(unsigned char c, Key* key) {
  paste_ += static_cast<char>(c);
  if (c != '~' || paste_.size() < kPasteEndSize ||
      paste_.compare(paste_.size() - kPasteEndSize, kPasteEndSize, kPasteEnd) != 0)
    return false;
  paste_.resize(paste_.size() - kPasteEndSize);
  return done(kPaste, key);
}

}  // namespace tycho::line
