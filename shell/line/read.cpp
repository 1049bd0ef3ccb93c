// One entry: bytes go to keys, keys to the state, and the screen follows when no more bytes wait.
#include <algorithm>

#include "shell/line/screen.h"
#include "shell/line/state.h"
#include "shell/line/terminal.h"

namespace tycho::line {
namespace {

constexpr int kEscapeWait = 100;  // milliseconds after which an Esc was meant as such

// These outlive an entry: kills, and bytes that came too early.
Memory memory;
Keys keys;

class Loop {
 public:
  Loop(const Prompt& prompt, const Reader& reader, History& history)
      : state_(prompt, reader, history, memory), size_(window_size()) {}

  Ended run(std::string* entry, size_t cursor, const Reader& reader, History& history) {
    came_back_ = !entry->empty();
    state_.start(std::move(*entry), cursor);
    raw_.enter();
    write_bytes(screen_.begin(size_.columns));
    write_bytes(drawing());
    raw_.accept_pastes();
    history.load();
    static bool warm = false;
    if (!warm && reader.warm_up && !input_waiting()) {
      warm = true;
      reader.warm_up();
    }
    while (true) {
      Key key;
      while (keys.next(&key)) {
        state_.press(key, keys);
        Ended ended;
        if (granted(&ended)) {
          *entry = state_.buffer().text();
          return ended;
        }
      }
      // While more bytes wait, nobody could read what would be drawn.
      if (!input_waiting()) write_bytes(drawing());
      wait();
      if (ended_) {
        *entry = state_.buffer().text();
        finish("\r\n");
        return Ended::End;
      }
    }
  }

 private:
  std::string drawing() {
    return screen_.draw(state_.view(size_.columns, size_.rows), size_.columns);
  }

  void wait() {
    const Happened h = wait_for_terminal(keys.waiting() ? kEscapeWait : -1);
    if (h.stop) suspend();
    if (h.continued) come_back();
    const WindowSize now = h.resized || h.continued ? window_size() : size_;
    if (now.columns != size_.columns || now.rows != size_.rows) {
      write_bytes(screen_.resized(now.columns, now.rows, terminal_reflows()));
      size_ = now;
    }
    if (!h.input) {
      Key key;
      if (!h.stop && !h.continued && !h.resized && keys.quiet(state_.wants_escape(), &key))
        state_.press(key, keys);
      return;
    }
    // Byte by byte, so that what follows Enter is left for the entry to read.
    std::string bytes;
    ended_ = !read_bytes(&bytes, keys.pasting() ? 4096 : 1);
    if (came_back_ && !ended_) take_burst(&bytes);
    keys.feed(bytes);
  }

  // An editor that sends lines without marks around them does not mean them for the rejected entry
  // that waits here to be corrected: a whole line at once, faster than anybody types, replaces it.
  void take_burst(std::string* bytes) {
    came_back_ = false;
    const auto printable = [](char c) { return static_cast<unsigned char>(c) >= ' ' && c != 127; };
    std::string one;
    while (!ended_ && printable(bytes->back()) && input_waiting(2)) {
      ended_ = !read_bytes(&one, 1);
      if (!ended_) *bytes += one;
    }
    constexpr size_t kNobodyTypes = 4;  // characters at once
    const bool line = bytes->back() == '\r' || bytes->back() == '\n';
    if (bytes->size() >= (line ? 2 : kNobodyTypes)) state_.start("", 0);
  }

  // Does what a key asked for; true when the read is over.
  bool granted(Ended* ended) {
    using Wish = State::Wish;
    const Wish wish = state_.wish;
    state_.wish = Wish::Nothing;
    switch (wish) {
      case Wish::Nothing:
        return false;
      case Wish::Accept:
        *ended = Ended::Entry;
        finish("\r\n");
        return true;
      case Wish::End:
        *ended = Ended::End;
        finish("\r\n");
        return true;
      case Wish::Cancel:
        *ended = Ended::Cancel;
        finish("^C");
        return true;
      case Wish::ClearScreen:
        screen_.forget();
        write_bytes("\x1b[H\x1b[2J");
        return false;
      case Wish::Suspend:
        suspend();
        return false;
      case Wish::EditOutside:
        edit_outside();
        return false;
    }
    return false;
  }

  // The whole entry as it stays on the screen.
  void finish(const char* end) {
    const View view = state_.last_view(size_.columns);
    std::string out;
    if (static_cast<int>(view.rows.size()) > size_.rows) out = screen_.erase();
    out += screen_.draw(view, size_.columns);
    out += screen_.to_end();
    write_bytes(out + end);
  }

  void below() { write_bytes(screen_.to_end() + "\r\n"); }

  void suspend() {
    below();
    raw_.stop();
    come_back();
  }

  // The terminal was somebody else's: what it shows is not known.
  void come_back() {
    raw_.enter();
    raw_.set_again();
    raw_.accept_pastes();
    size_ = window_size();
    write_bytes(screen_.begin(size_.columns));
  }

  void edit_outside() {
    below();
    raw_.leave();
    std::string text = state_.buffer().text(), message;
    const bool done = edit_in_editor(&text, &message);
    if (!done) write_bytes(message + "\n");
    if (done) state_.edited_outside(std::move(text));
    come_back();
  }

  State state_;
  Screen screen_;
  WindowSize size_;
  RawMode raw_;
  bool ended_ = false;
  bool came_back_ = false;  // the entry was rejected, and nothing was typed since
};

}  // namespace

Ended read_entry(const Prompt& prompt, const Reader& reader, History& history, std::string* entry,
                 size_t cursor) {
  if (!can_edit()) return read_plain(prompt, reader, entry);
  static const bool once = (use_colours(environment_wants_colours()), true);
  (void)once;
  Loop loop(prompt, reader, history);
  return loop.run(entry, cursor, reader, history);
}

}  // namespace tycho::line
