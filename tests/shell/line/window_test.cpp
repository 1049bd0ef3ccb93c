// Windows of all sizes: wrapping, wide characters, scrolling, resizing; and how little is written.
#include <gtest/gtest.h>

#include "tests/shell/line/desk.h"

using namespace tycho::line;

namespace {

TEST(Window, WrapsWhatIsTooLong) {
  Desk d(10);
  d.type("abcdefghijklm");
  EXPECT_EQ(d.emulator.all(), "before\n[1]> abcde\nfghijklm");
  d.type("no");
  EXPECT_EQ(d.emulator.all(), "before\n[1]> abcde\nfghijklmno");
  EXPECT_EQ(d.emulator.cursor_row(), 3);
  EXPECT_EQ(d.emulator.cursor_column(), 0);
  d.type("\x01x");
  EXPECT_EQ(d.emulator.all(), "before\n[1]> xabcd\nefghijklmn\no");
}

TEST(Window, WideCharactersMoveToTheNextRowWhole) {
  Desk d(10);
  d.type("\xe4\xbd\xa0\xe5\xa5\xbd\xe4\xb8\x96\xe7\x95\x8c");
  EXPECT_EQ(d.emulator.all(), "before\n[1]> \xe4\xbd\xa0\xe5\xa5\xbd\n\xe4\xb8\x96\xe7\x95\x8c");
  d.type("\x02\x02\x7f");
  EXPECT_EQ(d.emulator.all(), "before\n[1]> \xe4\xbd\xa0\xe4\xb8\x96\n\xe7\x95\x8c");
}

TEST(Window, OfOneColumnWorks) {
  Desk d(1, 30);
  d.type(
      "ab\xe4\xbd\xa0"
      "c");
  EXPECT_EQ(d.emulator.all(), "b\ne\nf\no\nr\ne\n[\n1\n]\n>\n\na\nb\n?\nc");
  d.type("\x02\x02\x7f\x05z");
  EXPECT_EQ(d.text(),
            "a\xe4\xbd\xa0"
            "cz");
}

TEST(Window, LowerThanTheEntryScrolls) {
  Desk d(20, 5);
  for (int i = 1; i < 10; ++i) d.type("line" + std::to_string(i) + "\x1b\r");
  EXPECT_EQ(d.emulator.all(), "...> line6\n...> line7\n...> line8\n...> line9\n...>");
  for (int i = 0; i < 6; ++i) d.type("\x1b[A");
  EXPECT_EQ(d.emulator.all(), "...> line4\n...> line5\n...> line6\n...> line7\n...> line8");
  d.type("\x01\x01");
  EXPECT_EQ(d.emulator.all(), "[1]> line1\n...> line2\n...> line3\n...> line4\n...> line5");
}

TEST(Window, ShowsTheWholeEntryWhenItIsDone) {
  Desk d(20, 5);
  for (int i = 1; i < 9; ++i) d.type("line" + std::to_string(i) + "\x1b\r");
  d.emulator.feed(d.screen.erase());
  d.emulator.feed(d.screen.draw(d.state.last_view(20), 20));
  EXPECT_EQ(d.emulator.lines(),
            "before\n[1]> line1\n...> line2\n...> line3\n...> line4\n...> "
            "line5\n...> line6\n...> line7\n...> line8\n...>");
}

TEST(Window, FollowsAResize) {
  Desk d(40);
  d.type("abcdefghijklmnopqrstuvwxyz");
  d.resize(12, 24);
  EXPECT_EQ(d.emulator.all(), "before\n[1]> abcdefg\nhijklmnopqrs\ntuvwxyz");
  d.resize(20, 24);
  EXPECT_EQ(d.emulator.all(), "before\n[1]> abcdefghijklmno\npqrstuvwxyz");
  d.resize(80, 24);
  EXPECT_EQ(d.emulator.all(), "before\n[1]> abcdefghijklmnopqrstuvwxyz");
  d.resize(80, 1);
  EXPECT_EQ(d.emulator.all(), "[1]> abcdefghijklmnopqrstuvwxyz");
}

TEST(Window, TabsStandAtEveryFourthColumn) {
  Desk d;
  d.type("\x11\ta\x11\tb");
  EXPECT_EQ(d.emulator.all(), "before\n[1]>     a   b");
}

TEST(Screen, WritesOnlyWhatChanges) {
  Desk d;
  d.reader.hint = nullptr;
  d.type("print(x)");
  size_t before = d.written;
  d.type(")");
  EXPECT_EQ(d.written - before, 1u);  // the character itself
  before = d.written;
  d.type("\x02");
  EXPECT_EQ(d.written - before, 1u);  // a step back
  before = d.written;
  d.type("\x01");
  EXPECT_LE(d.written - before, 5u);
}

TEST(Screen, LooksDecidedByTheReaderAreSeen) {
  Desk d;
  d.type("a1");
  EXPECT_EQ(d.emulator.look(1, 0), "1;32");
  EXPECT_EQ(d.emulator.look(1, 5), "");
  EXPECT_EQ(d.emulator.look(1, 6), "36");
}

TEST(Screen, WithoutColoursHasNone) {
  use_colours(false);
  Desk d;
  d.type("a1");
  EXPECT_EQ(d.emulator.look(1, 0), "1");
  EXPECT_EQ(d.emulator.look(1, 6), "");
  use_colours(true);
}

TEST(Screen, BeginsOnARowOfItsOwn) {
  Emulator e(20, 5);
  Screen s;
  e.feed("no newline");
  e.feed(s.begin(20));
  e.feed("> ");
  EXPECT_EQ(e.all(), "no newline%\n>");
  Emulator f(20, 5);
  f.feed("a newline\r\n");
  f.feed(s.begin(20));
  f.feed("> ");
  EXPECT_EQ(f.all(), "a newline\n>");
}

}  // namespace
