// Bytes from a terminal become keys. Bytes may come in any pieces; sequences that nobody knows are
// swallowed whole.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace tycho::line {

// A key is a code point, a control byte (1..31, 127), or a named key, with modifiers.
using Key = uint32_t;
constexpr Key kMeta = 1u << 24, kCtrl = 1u << 25, kShift = 1u << 26;
constexpr Key kModifiers = kMeta | kCtrl | kShift;
enum : Key {
  kUp = 0x110000,
  kDown,
  kLeft,
  kRight,
  kHome,
  kEnd,
  kInsert,
  kDelete,
  kPageUp,
  kPageDown,
  kBackTab,
  kPaste,            // Keys::pasted() is what was pasted
  kEscape,           // Esc alone, after a short wait
  kByte,             // one byte that is no text: Keys::byte()
  kNull = 0x200000,  // Ctrl-@
};
constexpr Key ctrl(char c) { return static_cast<Key>(c & 0x1f); }
constexpr Key meta(Key k) { return k | kMeta; }

class Keys {
 public:
  void feed(std::string_view bytes) { input_ += bytes; }
  // The next key, or false when more bytes are needed.
  bool next(Key* key);
  // Nothing came for a while: Esc alone counts, as far as it is `wanted` (a menu is open);
  // otherwise it waits to be the Meta of the next key, however late that comes.
  bool waiting() const;
  bool quiet(bool wanted, Key* key);
  bool pasting() const { return state_ == State::Paste; }
  // Takes back what was fed and not yet used: bytes of the next entry.
  std::string rest();

  // The next byte as it is, for C-q.
  void quote() { quoting_ = true; }
  std::string& pasted() { return paste_; }
  unsigned char byte() const { return byte_; }

 private:
  enum class State { Ground, Character, Escape, Sequence, Function, Linux, String, Paste };
  bool take(unsigned char c, Key* key);
  bool begin(unsigned char c, Key* key);
  bool character(unsigned char c, Key* key);
  bool escape(unsigned char c, Key* key);
  bool finish_sequence(unsigned char last, Key* key);
  bool paste(unsigned char c, Key* key);
  bool done(Key k, Key* key);
  bool inside_string(unsigned char c, Key* key);

  std::string input_;
  size_t at_ = 0;
  State state_ = State::Ground;
  bool meta_ = false, late_ = false, quoting_ = false;
  bool string_end_ = false;  // an Esc came inside a string: "\" ends it
  std::string pending_;      // the bytes of the character or sequence begun
  std::string paste_;
  unsigned char byte_ = 0;
};

}  // namespace tycho::line
