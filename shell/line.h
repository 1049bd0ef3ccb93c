// A small line editor for the prompt: motion, deletion, and a history that stays from one session
// to the next. Used only when standard input and output are a terminal that can move its cursor.
#pragma once
#include <string>
#include <vector>

namespace tycho::shell {

enum class Key { Line, End, Cancel };  // what ended the line: Enter, Ctrl-D on an empty one, Ctrl-C

class LineEditor {
 public:
  LineEditor();
  bool usable() const { return usable_; }
  Key read(const std::string& prompt, std::string* line);
  void remember(const std::string& entry);  // adds to the history and its file

 private:
  void draw(const std::string& prompt, const std::string& text, size_t cursor);
  bool usable_;
  std::string file_;
  std::vector<std::string> history_;
};

}  // namespace tycho::shell
