// The loop of read_entry without the waiting.
#include "tests/shell/line/desk.h"

#include <gtest/gtest.h>

#include <cctype>
#include <cstring>

using namespace tycho::line;

namespace {

struct Word {
  size_t begin, end;
};
std::vector<Word> words(const std::string& s) {
  std::vector<Word> out;
  for (size_t i = 0; i < s.size();) {
    const bool letter = std::isalpha(static_cast<unsigned char>(s[i])) || s[i] == '_';
    size_t end = i + 1;
    while (letter && end < s.size() && std::isalnum(static_cast<unsigned char>(s[end]))) ++end;
    if (letter || s[i] == '{' || s[i] == '}') out.push_back({i, end});
    i = end;
  }
  return out;
}
int opens(const std::string& s, Word w) {
  const std::string word = s.substr(w.begin, w.end - w.begin);
  return word == "do" || word == "{" ? 1 : word == "end" || word == "}" ? -1 : 0;
}

}  // namespace

Reader small_reader() {
  Reader r;
  r.is_done = [](const std::string& s) {
    int depth = 0;
    for (Word w : words(s)) depth += opens(s, w);
    return depth <= 0;
  };
  r.indent = [](const std::string& s, size_t cursor) {
    size_t begin = cursor;
    while (begin > 0 && s[begin - 1] != '\n') --begin;
    int depth = 0;
    for (Word w : words(s)) {
      if (w.begin < begin) depth += opens(s, w);
      if (w.begin >= begin && s.find_first_not_of(' ', begin) == w.begin && opens(s, w) < 0)
        --depth;
    }
    return 2 * std::max(0, depth);
  };
  r.complete = [](const std::string& s, size_t cursor) {
    Completion c;
    c.begin = cursor;
    while (c.begin > 0 &&
           (std::isalnum(static_cast<unsigned char>(s[c.begin - 1])) || s[c.begin - 1] == '_'))
      --c.begin;
    for (const char* name :
         {"masked_fill", "masked_select", "matmul", "max", "mean", "median", "min", "topk"})
      if (!std::strncmp(name, s.data() + c.begin, cursor - c.begin)) c.items.push_back({name, ""});
    return c;
  };
  r.highlight = [](const std::string& s, size_t) {
    std::vector<Span> spans;
    for (size_t i = 0; i < s.size(); ++i)
      if (std::isdigit(static_cast<unsigned char>(s[i])))
        spans.push_back({i, i + 1, Style::Number});
    return spans;
  };
  r.hint = [](const std::string& s, size_t cursor) -> std::vector<std::string> {
    if (cursor > 0 && s.find('(') < cursor) return {"matmul(other)   x f32 [32, 784]"};
    return {};
  };
  return r;
}

Desk::Desk(int columns, int rows, std::vector<std::string> entries)
    : reader(small_reader()),
      history(""),
      state(prompt, reader, history, memory),
      emulator(columns, rows) {
  for (const std::string& e : entries) history.add(e);
  state.start("", 0);
  emulator.feed("before\r\n");
  emulator.feed(screen.begin(columns));
  draw();
}

void Desk::draw() {
  const View view = state.view(emulator.columns(), emulator.rows());
  const std::string bytes = screen.draw(view, emulator.columns());
  written += bytes.size();
  emulator.feed(bytes);
  SCOPED_TRACE("drawn by " + testing::PrintToString(bytes));
  check();
}

void Desk::type(const std::string& bytes) {
  keys.feed(bytes);
  Key key;
  while (!over() && keys.next(&key)) state.press(key, keys);
  if (!over()) draw();
}

void Desk::type_slowly(const std::string& bytes) {
  for (char c : bytes) type(std::string(1, c));
}

void Desk::wait() {
  Key key;
  if (keys.waiting() && keys.quiet(state.wants_escape(), &key)) state.press(key, keys);
  draw();
}

void Desk::resize(int columns, int rows) {
  emulator.resize(columns, rows);
  emulator.feed(screen.resized(columns, rows, true));
  resized_ = true;
  draw();
}

void Desk::check() {
  const View view = state.view(emulator.columns(), emulator.rows());
  ASSERT_EQ(emulator.trouble, "");
  ASSERT_EQ(emulator.look_now(), "");
  ASSERT_LE(static_cast<int>(view.rows.size()), emulator.rows());
  ASSERT_GE(view.cursor_row, 0);
  ASSERT_LT(view.cursor_row, static_cast<int>(view.rows.size()));
  ASSERT_LT(view.cursor_column, emulator.columns());
  ASSERT_EQ(emulator.cursor_column(), view.cursor_column) << shown();
  const int top = emulator.cursor_row() - view.cursor_row;
  ASSERT_GE(top, 0);
  for (int r = 0; r < static_cast<int>(view.rows.size()); ++r) {
    const Row& row = view.rows[static_cast<size_t>(r)];
    ASSERT_LE(row.columns, emulator.columns());
    ASSERT_LT(top + r, emulator.rows());
    int x = 0;
    for (const Cell& c : row.cells) {
      std::string seen;
      for (const int end = x + c.columns; x < end; ++x) {
        const Emulator::Cell& cell = emulator.row(top + r).cells[static_cast<size_t>(x)];
        seen += cell.text;
        ASSERT_EQ(cell.look, sgr(c.style)) << "row " << r << " column " << x << "\n"
                                           << emulator.all();
      }
      ASSERT_EQ(seen, c.text) << "row " << r << " column " << x << "\n" << emulator.all();
    }
    for (; x < emulator.columns(); ++x)
      ASSERT_EQ(emulator.row(top + r).cells[static_cast<size_t>(x)].text, " ")
          << emulator.all() << "\nrow " << r;
  }
  for (int r = top + static_cast<int>(view.rows.size()); r < emulator.rows(); ++r)
    ASSERT_EQ(emulator.text(r), "") << emulator.all();
  if (!resized_ && top > 0 && emulator.columns() >= 6) {
    ASSERT_EQ(emulator.text(top - 1), "before");
  }
  const Buffer& b = state.buffer();
  if (b.cursor() > 0 && b.cursor() < b.size()) {
    ASSERT_EQ(b.right(b.left(b.cursor())), b.cursor()) << shown();
  }
}
