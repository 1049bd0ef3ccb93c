// The keys, as in readline's Emacs mode. One row per key; the first that fits counts.
#include "shell/line/state.h"

namespace tycho::line {

namespace {

std::string name_of(Key key) {
  struct Named {
    Key key;
    const char* name;
  };
  static constexpr Named names[] = {
      {kUp, "Up"},         {kDown, "Down"},   {kLeft, "Left"},         {kRight, "Right"},
      {kHome, "Home"},     {kEnd, "End"},     {kDelete, "Delete"},     {kPageUp, "PageUp"},
      {'\t', "Tab"},       {'\r', "Enter"},   {kPageDown, "PageDown"}, {kBackTab, "Shift-Tab"},
      {0x7f, "Backspace"}, {kNull, "Ctrl-@"}, {0x1f, "Ctrl-_"},        {0x1d, "Ctrl-]"}};
  std::string out;
  if (key & kMeta) out += "Alt-";
  if (key & kCtrl) out += "Ctrl-";
  key &= ~kModifiers;
  for (const Named& row : names)
    if (row.key == key) return out + row.name;
  if (key < 0x20) return out + "Ctrl-" + static_cast<char>(key + '@');
  return out + static_cast<char>(key);
}

}  // namespace

std::vector<KeyHelp> key_help() { return State::key_help(); }

std::vector<KeyHelp> State::key_help() {
  std::vector<KeyHelp> out;
  const auto add = [&out](const Binding* table, const std::string& before) {
    for (const Binding* row = table; row->command; ++row) {
      if (!*row->does) continue;
      KeyHelp help = {before + name_of(row->key), row->does};
      for (const Binding* other = row + 1; other->command; ++other)
        if (other->command == row->command && other->key != '\n' && other->key != meta('\n'))
          help.keys += "  " + before + name_of(other->key);
      for (const Binding* other = kAfterX; table != kAfterX && other->command; ++other)
        if (other->command == row->command) help.keys += "  Ctrl-X " + name_of(other->key);
      out.push_back(std::move(help));
    }
  };
  add(kBindings, "");
  add(kAfterX, "Ctrl-X ");
  return out;
}

using S = State;

const State::Binding State::kBindings[] = {
    // motions
    {ctrl('a'), &S::line_start, "beginning of the line; again: of the entry"},
    {kHome, &S::line_start},
    {kHome | kCtrl, &S::line_start},
    {ctrl('e'), &S::line_finish, "end of the line; again: of the entry"},
    {kEnd, &S::line_finish},
    {kEnd | kCtrl, &S::line_finish},
    {ctrl('b'), &S::char_left, "one character back"},
    {kLeft, &S::char_left},
    {ctrl('f'), &S::char_right, "one character on; at the end: the suggestion"},
    {kRight, &S::char_right},
    {meta('b'), &S::word_left, "one word back"},
    {kLeft | kCtrl, &S::word_left},
    {kLeft | kMeta, &S::word_left},
    {meta('f'), &S::word_right, "one word on, at the end of the suggestion"},
    {kRight | kCtrl, &S::word_right},
    {kRight | kMeta, &S::word_right},
    {kUp, &S::up, "the line above, then older entries that begin as typed"},
    {ctrl('p'), &S::up},
    {kDown, &S::down, "the line below, then newer entries"},
    {ctrl('n'), &S::down},
    {kNull, &S::set_mark, "sets the mark"},
    {ctrl(']'), &S::find_char, "on to the character typed next"},
    {meta(ctrl(']')), &S::find_char_back, "back to the character typed next"},
    // changes
    {0x7f, &S::erase_left, "deletes the character before"},
    {ctrl('h'), &S::erase_left},
    {kDelete, &S::erase_right, "deletes the character under the cursor"},
    {ctrl('d'), &S::erase_or_end, "the same; on an empty entry: leaves"},
    {meta('d'), &S::kill_word, "cuts to the end of the word"},
    {kDelete | kCtrl, &S::kill_word},
    {kDelete | kMeta, &S::kill_word},
    {meta(0x7f), &S::kill_word_back, "cuts to the beginning of the word"},
    {meta(ctrl('h')), &S::kill_word_back},
    {ctrl('w'), &S::kill_big_word, "cuts back to a blank"},
    {ctrl('k'), &S::kill_line, "cuts to the end of the line"},
    {ctrl('u'), &S::kill_line_back, "cuts to the beginning of the line"},
    {ctrl('y'), &S::yank, "puts in what was cut last"},
    {meta('y'), &S::yank_pop, "then: what was cut before that"},
    {ctrl('_'), &S::undo, "takes back the last change"},
    {meta('r'), &S::revert, "takes back all changes"},
    {ctrl('t'), &S::swap_chars, "swaps two characters"},
    {meta('t'), &S::swap_words, "swaps two words"},
    {meta('u'), &S::upper, "word in capitals"},
    {meta('l'), &S::lower, "word in small letters"},
    {meta('c'), &S::capital, "word with a capital"},
    {meta('\\'), &S::erase_blanks, "deletes the blanks around the cursor"},
    {meta('#'), &S::comment, "makes the line a comment, or no longer"},
    {ctrl('q'), &S::quote, "puts in the next key as it is"},
    {ctrl('v'), &S::quote},
    {meta('\t'), &S::insert_tab, "puts in a tab"},
    {meta('\r'), &S::new_line, "begins a new line"},
    {meta('\n'), &S::new_line},
    // entries and history
    {'\r', &S::enter, "runs the entry when it is complete"},
    {'\n', &S::enter},
    {ctrl('o'), &S::enter_and_next, "runs the entry and shows the one after it in the history"},
    {ctrl('c'), &S::cancel, "cancels the entry"},
    {ctrl('g'), &S::abort, "leaves a search, a menu, a number"},
    {meta(ctrl('g')), &S::abort},
    {kUp | kCtrl, &S::older, "older entries"},
    {kUp | kMeta, &S::older},
    {kPageUp, &S::older},
    {meta('p'), &S::older},
    {kDown | kCtrl, &S::newer, "newer entries"},
    {kDown | kMeta, &S::newer},
    {kPageDown, &S::newer},
    {meta('n'), &S::newer},
    {meta('<'), &S::oldest, "the oldest entry"},
    {meta('>'), &S::newest, "back to what was typed"},
    {ctrl('r'), &S::search_back, "searches the history while you type"},
    {ctrl('s'), &S::search_on, "the same, towards newer entries"},
    {meta('.'), &S::last_argument,
     "last argument of the entry before; again: of the one before that"},
    {meta('_'), &S::last_argument},
    {meta(ctrl('y')), &S::first_argument, "first argument of the entry before"},
    {'\t', &S::complete, "completes; again: the next candidate"},
    {kBackTab, &S::complete_back, "the candidate before"},
    {meta('?'), &S::list_all, "shows all candidates"},
    {meta('='), &S::list_all},
    {ctrl('l'), &S::clear, "clears the screen"},
    {ctrl('z'), &S::suspend, "suspends the program"},
    {ctrl('x'), &S::prefix},
    {0, nullptr, ""},
};

const State::Binding State::kAfterX[] = {
    {ctrl('u'), &S::undo},
    {ctrl('e'), &S::edit_outside, "the entry in $VISUAL or $EDITOR"},
    {ctrl('x'), &S::swap_mark, "swaps cursor and mark"},
    {0x7f, &S::kill_line_back},
    {ctrl('h'), &S::kill_line_back},
    {ctrl('k'), &S::kill_all, "cuts the whole entry"},
    {ctrl('w'), &S::kill_region, "cuts from the mark to the cursor"},
    {'(', &S::begin_macro, "begins to record keys"},
    {')', &S::end_macro, "ends it"},
    {'e', &S::play_macro, "presses the recorded keys"},
    {0, nullptr, ""},
};

}  // namespace tycho::line
