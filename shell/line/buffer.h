// The text being edited, its cursor, what undo needs to go back, and the kill ring.
#pragma once
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace tycho::line {

class Buffer {
 public:
  const std::string& text() const { return text_; }
  size_t cursor() const { return cursor_; }
  size_t size() const { return text_.size(); }
  // To the beginning of the character that holds byte `at`.
  void move(size_t at);

  // Changes; each is one step of undo, except that typed characters join into runs.
  void insert(std::string_view s) { replace(cursor_, cursor_, s); }
  void type(std::string_view s);
  void erase(size_t begin, size_t end) { replace(begin, end, {}); }
  void replace(size_t begin, size_t end, std::string_view s);  // the cursor ends behind it
  void set(std::string text, size_t cursor);                   // a new text altogether, as one step
  // A text to begin with: nothing to undo.
  void reset(std::string text, size_t cursor);
  bool undo();
  bool undo_all();
  void end_run() { run_ = 0; }  // what is typed next is a step of its own
  // All changes while one lives are one step.
  class Step {
   public:
    explicit Step(Buffer* b) : b_(b) { b_->open_step(); }
    ~Step() { --b_->depth_; }
    Step(const Step&) = delete;

   private:
    Buffer* b_;
  };

  // Places. Words are letters, digits and underscores; blank-separated ones are `big`.
  size_t left(size_t at) const;
  size_t right(size_t at) const;
  size_t word_left(size_t at) const;
  size_t word_right(size_t at) const;
  size_t big_word_left(size_t at) const;
  size_t line_begin(size_t at) const;
  size_t line_end(size_t at) const;
  bool one_line() const { return text_.find('\n') == std::string::npos; }

 private:
  struct Change {
    size_t at;
    std::string removed, inserted;
    size_t cursor;  // before it
    bool joined;    // undone together with the one before
  };
  void open_step();
  void move_behind(size_t at);
  void forget_oldest();
  std::string text_;
  size_t cursor_ = 0;
  std::vector<Change> changes_;
  size_t kept_ = 0;  // bytes in them
  size_t run_ = 0;   // characters typed in a row
  int depth_ = 0;
  bool step_begun_ = false;
};

// What was killed, newest last. Kills in a row make one entry.
class KillRing {
 public:
  void add(std::string_view s, bool append, bool before);
  const std::string* newest();  // null when empty; rotation begins here
  const std::string* rotate(int by);

 private:
  static constexpr size_t kMost = 60;
  std::deque<std::string> ring_;
  size_t at_ = 0;
};

}  // namespace tycho::line
