// Tab: the common part of all candidates, then one after another. And indentation.
#include <algorithm>

#include "shell/line/state.h"
#include "shell/line/text.h"

namespace tycho::line {

void State::complete(int) {
  const std::string& text = buffer_.text();
  const size_t begin = buffer_.line_begin(buffer_.cursor());
  // Before a line's text there is nothing to complete: the line moves in.
  if (text.find_first_not_of(" \t", begin) >= buffer_.cursor() &&
      (begin > 0 || buffer_.size() > 0 || !reader_.complete)) {
    const int column = column_in_line(text, begin, buffer_.cursor());
    const int wanted = reader_.indent ? reader_.indent(text, buffer_.cursor()) : 0;
    if (begin > 0 && wanted > column) return indent_line();
    return insert(column % 2 ? " " : "  ", 1);
  }
  open_menu(true);
}

void State::complete_back(int) { open_menu(true); }
void State::list_all(int) { open_menu(false); }

void State::open_menu(bool insert_common) {
  if (!reader_.complete) return;
  const size_t at = buffer_.cursor();
  Completion c = reader_.complete(buffer_.text(), at);
  if (c.begin > at || c.items.empty()) return menu_.close();
  const std::string typed = buffer_.text().substr(c.begin, at - c.begin);
  const size_t begin = c.begin;
  const bool one = c.items.size() == 1;
  menu_.open(std::move(c), typed);
  if (!insert_common) return;
  const std::string common = menu_.common_part();
  // Candidates may differ from what was typed (case, a word inside): then it stays.
  if (common.size() > typed.size() || one) {
    if (common != typed) {
      const Buffer::Step step(&buffer_);
      buffer_.replace(begin, at, common);
    }
  }
  if (one) menu_.close();
}

// Puts the chosen candidate in, as one step of undo whichever it is.
void State::show_choice() {
  const Buffer::Step step(&buffer_);
  buffer_.replace(menu_.begin(), buffer_.cursor(), menu_.item(menu_.selected()).text);
}

void State::choose(int by) {
  if (menu_.selected() >= 0) buffer_.undo();
  menu_.step(by);
  show_choice();
}

// True when the menu took the key; otherwise it has closed, and the key counts as usual.
bool State::menu_key(Key key) {
  const bool chosen = menu_.selected() >= 0;
  switch (key) {
    case '\t':
      choose(1);
      return true;
    case kBackTab:
      choose(-1);
      return true;
    case kEscape:
    case ctrl('g'): {
      const Buffer::Step step(&buffer_);
      buffer_.replace(menu_.begin(), buffer_.cursor(), menu_.typed());
      menu_.close();
      return true;
    }
    case '\r':
    case '\n':
      menu_.close();
      return chosen;
    case kUp:
    case kDown:
    case kLeft:
    case kRight:
      if (!chosen) break;
      buffer_.undo();
      menu_.move(key == kRight ? 1 : key == kLeft ? -1 : 0, key == kDown ? 1 : key == kUp ? -1 : 0);
      show_choice();
      return true;
    default:
      break;
  }
  // Typing on narrows the candidates down as long as none was chosen.
  const bool letter = key >= 0x21 && key < 0x110000 && key != 0x7f;
  if (!chosen && (letter || key == 0x7f)) {
    if (letter)
      type_key(key, 0);
    else
      erase_left(1);
    const size_t begin = menu_.begin();
    const bool inside = buffer_.cursor() > begin;
    menu_.close();
    if (inside && (!letter || is_word(buffer_.text(), buffer_.left(buffer_.cursor()))))
      open_menu(false);
    if (menu_.is_open() && menu_.begin() != begin) menu_.close();
    return true;
  }
  menu_.close();
  return false;
}

}  // namespace tycho::line
