// The line editor: raw terminal mode only while a line is read, one key at a time.
#include "shell/line.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace tycho::shell {
namespace {

termios before_raw;  // the terminal as it was before this read

// Ends the process as the signal would have, with the terminal as it was.
void end_in_raw_mode(int signal) {
  tcsetattr(0, TCSADRAIN, &before_raw);
  std::signal(signal, SIG_DFL);
  raise(signal);
}

// Raw mode while it lives: whatever happens, the terminal comes back as it was.
class RawMode {
 public:
  RawMode() {
    tcgetattr(0, &before_raw);
    struct sigaction action = {};
    action.sa_handler = end_in_raw_mode;
    for (int i = 0; i < kSignals; ++i) sigaction(kEnding[i], &action, &old_[i]);
    termios raw = before_raw;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
    raw.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    tcsetattr(0, TCSADRAIN, &raw);
  }
  ~RawMode() {
    tcsetattr(0, TCSADRAIN, &before_raw);
    for (int i = 0; i < kSignals; ++i) sigaction(kEnding[i], &old_[i], nullptr);
  }
  RawMode(const RawMode&) = delete;

 private:
  static constexpr int kSignals = 2, kEnding[kSignals] = {SIGTERM, SIGHUP};
  struct sigaction old_[kSignals];
};

int read_byte() {
  unsigned char c;
  while (true) {
    const ssize_t n = ::read(0, &c, 1);
    if (n == 1) return c;
    if (n == 0 || errno != EINTR) return -1;
  }
}

bool continues(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}  // inside a UTF-8 character
size_t next(const std::string& s, size_t i) {
  if (i < s.size()) ++i;
  while (i < s.size() && continues(s[i])) ++i;
  return i;
}
size_t previous(const std::string& s, size_t i) {
  if (i > 0) --i;
  while (i > 0 && continues(s[i])) --i;
  return i;
}
bool word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || (c & 0x80); }
size_t word_left(const std::string& s, size_t i) {
  while (i > 0 && !word(s[i - 1])) --i;
  while (i > 0 && word(s[i - 1])) --i;
  return i;
}
size_t word_right(const std::string& s, size_t i) {
  while (i < s.size() && !word(s[i])) ++i;
  while (i < s.size() && word(s[i])) ++i;
  return i;
}
size_t columns_of(const std::string& s) {
  size_t n = 0;
  for (char c : s) n += !continues(c);
  return n;
}

constexpr int control(char c) { return c & 0x1f; }

// Named keys above the bytes.
enum : int { Up = 256, Down, Left, Right, Home, Delete, EndKey, WordLeft, WordRight, Nothing };

int escape_sequence() {
  int c = read_byte();
  if (c == 'b') return WordLeft;
  if (c == 'f') return WordRight;
  if (c != '[' && c != 'O') return Nothing;
  std::string digits;
  while ((c = read_byte()) >= 0 && ((c >= '0' && c <= '9') || c == ';'))
    digits += static_cast<char>(c);
  const bool with_control = digits == "1;5";
  switch (c) {
    case 'A':
      return Up;
    case 'B':
      return Down;
    case 'C':
      return with_control ? WordRight : Right;
    case 'D':
      return with_control ? WordLeft : Left;
    case 'H':
      return Home;
    case 'F':
      return EndKey;
    case '~':
      return digits == "3"                    ? Delete
             : digits == "1" || digits == "7" ? Home
             : digits == "4" || digits == "8" ? EndKey
                                              : Nothing;
    default:
      return Nothing;
  }
}

std::string history_file() {
  const char *state = std::getenv("XDG_STATE_HOME"), *home = std::getenv("HOME");
  std::string dir = state && *state ? state
                    : home && *home ? std::string(home) + "/.local/state"
                                    : "";
  if (dir.empty()) return {};
  for (size_t i = 1; i <= dir.size(); ++i)
    if (i == dir.size() || dir[i] == '/') mkdir(dir.substr(0, i).c_str(), 0700);
  dir += "/tycho";
  mkdir(dir.c_str(), 0700);
  return dir + "/history";
}

// One record per entry: newlines and backslashes are escaped, so that an entry is one line.
std::string escaped(const std::string& s) {
  std::string out;
  for (char c : s) out += c == '\n' ? "\\n" : c == '\\' ? "\\\\" : std::string(1, c);
  return out;
}
std::string unescaped(const std::string& s) {
  std::string out;
  for (size_t i = 0; i < s.size(); ++i)
    if (s[i] == '\\' && i + 1 < s.size())
      out += s[++i] == 'n' ? '\n' : s[i];
    else
      out += s[i];
  return out;
}

}  // namespace

LineEditor::LineEditor() {
  const char* term = std::getenv("TERM");
  usable_ = isatty(0) && isatty(1) && term && *term && std::strcmp(term, "dumb") != 0;
  if (!usable_) return;
  file_ = history_file();
  std::ifstream in(file_);
  for (std::string line; std::getline(in, line);) history_.push_back(unescaped(line));
}

void LineEditor::remember(const std::string& entry) {
  if (entry.empty() || (!history_.empty() && history_.back() == entry)) return;
  history_.push_back(entry);
  if (file_.empty()) return;
  // One write per record: two sessions at once do not mix their lines.
  const int fd = open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return;
  const std::string record = escaped(entry) + "\n";
  if (write(fd, record.data(), record.size()) < 0) file_.clear();
  close(fd);
}

void LineEditor::draw(const std::string& prompt, const std::string& text, size_t cursor) {
  winsize w = {};
  const size_t width = ioctl(1, TIOCGWINSZ, &w) == 0 && w.ws_col > 8 ? w.ws_col : 80;
  // One row, scrolled sideways so that the cursor stays in sight.
  const size_t room = width - columns_of(prompt) % width - 1;
  size_t from = 0;
  while (columns_of(text.substr(from, cursor - from)) > room) from = next(text, from);
  size_t to = from;
  while (to < text.size() && columns_of(text.substr(from, next(text, to) - from)) <= room)
    to = next(text, to);
  std::string shown = text.substr(from, to - from);
  for (char& c : shown)
    if (c == '\n') c = ' ';
  std::string out = "\r" + prompt + shown + "\x1b[K\r";
  const size_t right = columns_of(prompt) + columns_of(text.substr(from, cursor - from));
  if (right) out += "\x1b[" + std::to_string(right) + "C";
  if (write(1, out.data(), out.size()) < 0) return;
}

Key LineEditor::read(const std::string& prompt, std::string* line) {
  const RawMode raw;
  std::string text, cut, kept;  // kept: what was typed before walking through the history
  size_t cursor = 0, place = history_.size();
  const auto finish = [&](Key key) {
    draw(prompt, text, text.size());
    if (write(1, "\r\n", 2) < 0) return Key::End;
    *line = text;
    return key;
  };
  const auto walk = [&](size_t to) {
    if (place == history_.size()) kept = text;
    place = to;
    text = place == history_.size() ? kept : history_[place];
    cursor = text.size();
  };
  const auto remove = [&](size_t from, size_t to, bool keep) {
    if (keep && to > from) cut = text.substr(from, to - from);
    text.erase(from, to - from);
    cursor = from;
  };
  while (true) {
    draw(prompt, text, cursor);
    int c = read_byte();
    if (c == 27) c = escape_sequence();
    switch (c) {
      case -1:
        return finish(Key::End);
      case '\r':
      case '\n':
        return finish(Key::Line);
      case control('C'):
        text += "^C";
        return finish(Key::Cancel);
      case control('D'):
        if (text.empty()) return finish(Key::End);
        [[fallthrough]];
      case Delete:
        remove(cursor, next(text, cursor), false);
        break;
      case 127:
      case control('H'): {
        const size_t from = previous(text, cursor);
        remove(from, cursor, false);
        break;
      }
      case control('A'):
      case Home:
        cursor = 0;
        break;
      case control('E'):
      case EndKey:
        cursor = text.size();
        break;
      case control('B'):
      case Left:
        cursor = previous(text, cursor);
        break;
      case control('F'):
      case Right:
        cursor = next(text, cursor);
        break;
      case WordLeft:
        cursor = word_left(text, cursor);
        break;
      case WordRight:
        cursor = word_right(text, cursor);
        break;
      case control('K'):
        remove(cursor, text.size(), true);
        break;
      case control('U'):
        remove(0, cursor, true);
        break;
      case control('W'): {
        const size_t from = word_left(text, cursor);
        remove(from, cursor, true);
        break;
      }
      case control('Y'):
        text.insert(cursor, cut);
        cursor += cut.size();
        break;
      case control('L'):
        if (write(1, "\x1b[H\x1b[2J", 7) < 0) return Key::End;
        break;
      case control('P'):
      case Up:
        if (place > 0) walk(place - 1);
        break;
      case control('N'):
      case Down:
        if (place < history_.size()) walk(place + 1);
        break;
      case '\t':
        text.insert(cursor, "  ");
        cursor += 2;
        break;
      default:
        if (c >= 32 && c < 256) {
          text.insert(text.begin() + static_cast<std::ptrdiff_t>(cursor), static_cast<char>(c));
          ++cursor;
        }
    }
  }
}

}  // namespace tycho::shell
