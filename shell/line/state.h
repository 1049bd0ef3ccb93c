// The state of one entry being edited: keys change it, a view of it is drawn. It reads and writes
// no terminal, so that tests drive it alone.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shell/line/buffer.h"
#include "shell/line/editor.h"
#include "shell/line/keys.h"
#include "shell/line/layout.h"
#include "shell/line/menu.h"

namespace tycho::line {

// What lives from one entry to the next.
struct Memory {
  KillRing kills;
  std::string last_search;
  std::vector<Key> macro;
  size_t next_entry = History::npos;  // C-o: where the entry after this one begins
};

class State {
 public:
  State(const Prompt& prompt, const Reader& reader, History& history, Memory& memory);
  void start(std::string text, size_t cursor);
  void press(Key key, Keys& keys);
  View view(int width, int height);
  View last_view(int width);  // as it stays on the screen: no suggestion, hint or menu

  enum class Wish { Nothing, Accept, End, Cancel, ClearScreen, Suspend, EditOutside };
  Wish wish = Wish::Nothing;  // what the loop shall do; it sets it back
  const Buffer& buffer() const { return buffer_; }
  void edited_outside(std::string text);
  bool wants_escape() const { return menu_.is_open() || search_; }

  static std::vector<KeyHelp> key_help();

 private:
  // What the last command was, as far as the next one cares.
  enum class Kind { Other, Type, KillBack, KillOn, Yank, Walk, Vertical, Ends, Argument, Complete };
  using Command = void (State::*)(int count);
  struct Binding {
    Key key;
    Command command;
    const char* does = "";  // in the first row of each command
  };
  static const Binding kBindings[], kAfterX[];
  static Command find(const Binding* table, Key key);
  bool special(Key key, Keys& keys);  // keys that an unfinished command waits for
  bool number_key(Key key);
  void run(Command command);
  void type_key(Key key, unsigned char byte);

  // Motions.
  void line_start(int), line_finish(int), char_left(int), char_right(int), word_left(int),
      word_right(int), up(int), down(int), set_mark(int), swap_mark(int), find_char(int),
      find_char_back(int);
  // Changes.
  void erase_left(int), erase_right(int), erase_or_end(int), kill_line(int), kill_line_back(int),
      kill_all(int), kill_word(int), kill_word_back(int), kill_big_word(int), kill_region(int),
      yank(int), yank_pop(int), undo(int), revert(int), swap_chars(int), swap_words(int),
      upper(int), lower(int), capital(int), erase_blanks(int), comment(int), quote(int),
      new_line(int), insert_tab(int);
  // Entries and history.
  void enter(int), cancel(int), abort(int), older(int), newer(int), oldest(int), newest(int),
      enter_and_next(int), search_back(int), search_on(int), last_argument(int),
      first_argument(int), complete(int), complete_back(int), list_all(int), clear(int),
      suspend(int), edit_outside(int), begin_macro(int), end_macro(int), play_macro(int),
      prefix(int);

  void kill(size_t begin, size_t end, bool back);
  void change_words(int count, int how);
  void insert(std::string_view s, int count);
  void indent_line();
  void reindent();
  void vertical(int by);
  void walk(int direction, bool by_prefix);
  void go_to_entry(size_t position);
  void open_menu(bool insert_common);
  void choose(int by);
  void show_choice();
  bool menu_key(Key key);
  bool search_key(Key key, Keys& keys);
  void begin_search(int direction);
  void search_again(int direction, bool from_here);
  std::string ghost();
  std::vector<Style> styles();
  std::vector<Row> lower_rows(int width, int height, int most);

  const Prompt& prompt_;
  const Reader& reader_;
  History& history_;
  Memory& memory_;
  Buffer buffer_;
  Menu menu_;
  Top top_;
  Kind last_ = Kind::Other, now_ = Kind::Other;
  std::optional<int> number_;
  bool minus_ = false, after_x_ = false;
  enum class Wait { Nothing, Quote, CharOn, CharBack } wait_ = Wait::Nothing;
  int wait_count_ = 1;
  size_t mark_ = 0;
  int goal_ = 0;                          // the column that up and down keep to
  size_t auto_line_ = std::string::npos;  // the line whose indentation is ours
  int auto_columns_ = 0;
  // Walking through the history.
  static constexpr size_t kDraft = History::npos;  // what was typed, behind all entries
  size_t place_ = kDraft;
  std::string prefix_;
  std::map<size_t, std::string> edits_;  // entries as changed but not entered
  // Yanking a last argument: which entry, and what was put in.
  size_t argument_entry_ = 0, argument_begin_ = 0;
  int argument_number_ = 0;
  size_t yank_begin_ = 0;
  // Searching.
  bool search_ = false, failing_ = false;
  int direction_ = -1;
  std::string query_, before_search_;
  size_t cursor_before_ = 0, from_ = 0, found_ = 0, match_ = 0;
  bool recording_ = false, playing_ = false;
  std::vector<Key> recorded_;
};

}  // namespace tycho::line
