// Every key of readline's Emacs mode, and what is seen after it.
#include <gtest/gtest.h>

#include "tests/shell/line/desk.h"

using namespace tycho::line;
using Wish = State::Wish;

namespace {

const char kUpKey[] = "\x1b[A", kDownKey[] = "\x1b[B", kRightKey[] = "\x1b[C",
           kLeftKey[] = "\x1b[D";

// What keys make of an empty entry: the text with "|" at the cursor.
std::string after(const std::string& keys) {
  Desk d;
  d.type_slowly(keys);
  return d.shown();
}

TEST(Motion, ByCharactersAndLines) {
  EXPECT_EQ(after("hello\x02\x02x"), "helx|lo");
  EXPECT_EQ(after("hello\x01\x06x"), "hx|ello");
  EXPECT_EQ(after("hello\x01x\x05y"), "xhelloy|");
  EXPECT_EQ(after(std::string("hello") + kLeftKey + kLeftKey + kRightKey), "hell|o");
  EXPECT_EQ(after("hello\x1b[Hx\x1b[Fy"), "xhelloy|");
  EXPECT_EQ(after("hello\x1bOHx\x1bOFy\x1b[1~z\x1b[4~w"), "zxhelloyw|");
  EXPECT_EQ(after("\xe4\xbd\xa0\xe5\xa5\xbd!\x02\x02"), "\xe4\xbd\xa0|\xe5\xa5\xbd!");
  EXPECT_EQ(after("e\xcc\x81t\x02\x02x"), "x|e\xcc\x81t");
}

TEST(Motion, ByWords) {
  EXPECT_EQ(after("one two_2(three)\x1b"
                  "b"),
            "one two_2(|three)");
  EXPECT_EQ(after("one two_2(three)\x1b"
                  "b\x1b"
                  "b"),
            "one |two_2(three)");
  EXPECT_EQ(after("one two\x01\x1b"
                  "f"),
            "one| two");
  EXPECT_EQ(after("one two\x01\x1b"
                  "F"),
            "one| two");
  EXPECT_EQ(after("one two\x1b[1;5D\x1b[1;5D\x1b[1;5C"), "one| two");
  EXPECT_EQ(after("one two\x1b[1;3D\x1bOd\x1bOc"), "one| two");
  EXPECT_EQ(after("\xe4\xbd\xa0\xe5\xa5\xbd \xe4\xb8\x96\x1b"
                  "b"),
            "\xe4\xbd\xa0\xe5\xa5\xbd |\xe4\xb8\x96");
}

TEST(Motion, InsideSeveralLinesKeepsTheColumn) {
  const std::string lines = "abcdef\x1b\rgh\x1b\rijklmn";
  EXPECT_EQ(after(lines + kUpKey), "abcdef\ngh|\nijklmn");
  EXPECT_EQ(after(lines + kUpKey + kUpKey), "abcdef|\ngh\nijklmn");
  EXPECT_EQ(after(lines + kLeftKey + kUpKey + kUpKey + kDownKey + kDownKey), "abcdef\ngh\nijklm|n");
  EXPECT_EQ(after(lines + "\x10\x10\x0ex"), "abcdef\nghx|\nijklmn");
  EXPECT_EQ(after(lines + "\x05" + kUpKey + "\x05x"), "abcdef\nghx|\nijklmn");
  EXPECT_EQ(after(lines + "\x01x"), "abcdef\ngh\nx|ijklmn");
  EXPECT_EQ(after(lines + "\x01\x01x"), "x|abcdef\ngh\nijklmn");
  EXPECT_EQ(after(lines + "\x01\x01\x05\x05x"), "abcdef\ngh\nijklmnx|");
}

TEST(Motion, ToACharacter) {
  EXPECT_EQ(after("a(b)(c)\x01\x1d("), "a|(b)(c)");
  EXPECT_EQ(after("a(b)(c)\x01\x1b"
                  "2\x1d("),
            "a(b)|(c)");
  EXPECT_EQ(after("a(b)(c)\x1b\x1d"
                  "b"),
            "a(|b)(c)");
}

TEST(Deletion, TakesCharacters) {
  EXPECT_EQ(after("hello\x7f\x08"), "hel|");
  EXPECT_EQ(after("hello\x01\x04\x1b[3~"), "|llo");
  EXPECT_EQ(after("h\xc3\xa4\xe2\x82\xac\x7f"), "h\xc3\xa4|");
  EXPECT_EQ(after("e\xcc\x81\x7f"), "|");
  EXPECT_EQ(after("a   b\x02\x1b\\"), "a|b");
}

TEST(Killing, GoesByWordsAndLinesAndComesBack) {
  EXPECT_EQ(after("one two three\x17"), "one two |");
  EXPECT_EQ(after("one x.y(z)\x17"), "one |");
  EXPECT_EQ(after("one x.y(z)\x1b\x7f"), "one x.y(|");
  EXPECT_EQ(after("one two\x01\x1b"
                  "d"),
            "| two");
  EXPECT_EQ(after("one two\x01\x1b"
                  "f\x0b\x19\x19"),
            "one two two|");
  EXPECT_EQ(after("one two\x15xy\x19"), "xyone two|");
  EXPECT_EQ(after("one two\x02\x02\x18\x7f"), "|wo");
}

TEST(Killing, InARowMakesOneEntry) {
  EXPECT_EQ(after("one two three\x17\x17\x19"), "one two three|");
  EXPECT_EQ(after("one two three\x01\x1b"
                  "d\x1b"
                  "d\x05 \x19"),
            " three one two|");
  EXPECT_EQ(after("a b c\x02\x02\x17\x0b\x19"), "a b c|");  // before and behind the cursor
}

TEST(Killing, TheRingTurns) {
  EXPECT_EQ(after("one\x15two\x15three\x15\x19"), "three|");
  EXPECT_EQ(after("one\x15two\x15three\x15\x19\x1by"), "two|");
  EXPECT_EQ(after("one\x15two\x15three\x15\x19\x1by\x1by"), "one|");
  EXPECT_EQ(after("one\x15two\x15three\x15\x19\x1by\x1by\x1by"), "three|");
  EXPECT_EQ(after("one\x15x\x1by"), "x|");  // only after a yank
}

TEST(Killing, LinesOfSeveral) {
  EXPECT_EQ(after("ab\x1b\rcd\x1b[A\x01\x0b"), "|\ncd");
  EXPECT_EQ(after("ab\x1b\rcd\x1b[A\x01\x0b\x0b"), "|cd");
  EXPECT_EQ(after("ab\x1b\rcd\x1b[A\x01\x0b\x0b\x19"), "ab\n|cd");
  EXPECT_EQ(after("ab\x1b\rcd\x15\x15"), "ab|");
}

TEST(Region, IsBetweenMarkAndCursor) {
  EXPECT_EQ(after(std::string("one two\x01\x06") + '\0' +
                  "\x1b"
                  "f\x18\x17"),
            "o| two");
  EXPECT_EQ(after(std::string("one two\x01\x06") + '\0' + "\x05\x18\x18"), "o|ne two");
}

TEST(Undo, GoesBackStepByStep) {
  EXPECT_EQ(after("one two\x17\x1f"), "one two|");
  EXPECT_EQ(after("one two\x17\x18\x15"), "one two|");
  EXPECT_EQ(after("one \x17two\x1f\x1f"), "one |");
  EXPECT_EQ(after("one two\x17\x17\x1f\x1f\x1f"), "|");
  EXPECT_EQ(after("one two\x17three\x1br"), "|");
  EXPECT_EQ(after("abc\x02"
                  "d\x1f"),
            "ab|c");
}

TEST(Change, TransposesAndChangesCase) {
  EXPECT_EQ(after("ab\x14"), "ba|");
  EXPECT_EQ(after("abc\x02\x14"), "acb|");
  EXPECT_EQ(after("\xe4\xbd\xa0\xe5\xa5\xbd\x14"), "\xe5\xa5\xbd\xe4\xbd\xa0|");
  EXPECT_EQ(after("one, two\x1bt"), "two, one|");
  EXPECT_EQ(after("one two three\x01\x1b"
                  "f\x1bt"),
            "two one| three");
  EXPECT_EQ(after("one two\x01\x1bu"), "ONE| two");
  EXPECT_EQ(after("ONE TWO\x01\x1b"
                  "f\x1bl"),
            "ONE two|");
  EXPECT_EQ(after("one two\x01\x1b"
                  "2\x1b"
                  "c"),
            "One Two|");
  EXPECT_EQ(after("one two\x1b-\x1bu"), "one TWO|");
}

TEST(Change, CommentsALine) {
  EXPECT_EQ(after("x = 1\x1b#"), "-- x = 1|");
  EXPECT_EQ(after("x = 1\x1b#\x1b#"), "x = 1|");
}

TEST(Numbers, RepeatACommand) {
  EXPECT_EQ(after("\x1b"
                  "5x"),
            "xxxxx|");
  EXPECT_EQ(after("\x1b"
                  "12y"),
            "yyyyyyyyyyyy|");
  EXPECT_EQ(after("hello\x1b"
                  "3\x02"),
            "he|llo");
  EXPECT_EQ(after("hello\x01\x1b-\x02"), "h|ello");
  EXPECT_EQ(after("a b c d\x1b"
                  "2\x17"),
            "a b |");
  EXPECT_EQ(after("hello\x1b"
                  "3\x7f!\x19"),
            "he!llo|");
  EXPECT_EQ(after("hello\x1b"
                  "0\x0b"),
            "|");  // to the beginning
  EXPECT_EQ(after("ab\x1b"
                  "3\x07x"),
            "abx|");
}

TEST(Quoting, TakesTheNextByteAsItIs) {
  EXPECT_EQ(after("a\x11\x01"
                  "b"),
            "a\x01"
            "b|");
  EXPECT_EQ(after("a\x16\x1b[A"), "a\x1b[A|");
  EXPECT_EQ(after("\x11\t\x11\x11"), "\t\x11|");
  Desk d;
  d.type("a\x11\x1b");
  EXPECT_EQ(d.emulator.all(), "before\n[1]> a^[");
}

TEST(Macro, IsPlayedAgain) {
  EXPECT_EQ(after("\x18(ab\x18)\x18"
                  "e"),
            "abab|");
  EXPECT_EQ(after("\x18(a\x02\x18)\x1b"
                  "3\x18"
                  "e"),
            "|aaaa");
}

TEST(Lines, EnterAcceptsOnlyWhatIsComplete) {
  Desk d;
  d.type("for i = 1, 3 do\r");
  EXPECT_FALSE(d.over());
  EXPECT_EQ(d.shown(), "for i = 1, 3 do\n  |");
  d.type("print(i)\rend");
  EXPECT_EQ(d.shown(), "for i = 1, 3 do\n  print(i)\nend|");
  EXPECT_EQ(d.emulator.all(),
            "before\n[1]> for i = 1, 3 do\n...>   print(i)\n...> end\n"
            "matmul(other)   x f32 [32, 784]");
  d.type("\r");
  EXPECT_EQ(d.state.wish, Wish::Accept);
}

TEST(Lines, EnterAcceptsFromAnywhere) {
  Desk d;
  d.type(std::string("a\x1b\rb") + kUpKey + "\r");
  EXPECT_EQ(d.state.wish, Wish::Accept);
  EXPECT_EQ(d.text(), "a\nb");
}

TEST(Lines, MetaEnterAlwaysBeginsALine) {
  EXPECT_EQ(after("x = 1\x1b\r"), "x = 1\n|");
  EXPECT_EQ(after("x = 1\x1b[13;2u"), "x = 1\n|");
  EXPECT_EQ(after("x = 1\x02\x02\x1b\n"), "x =\n|1");
}

TEST(Lines, ClosingWordsMoveOut) {
  EXPECT_EQ(after("f do\rg do\rend"), "f do\n  g do\n  end|");
  EXPECT_EQ(after("f do\rg do\rend\rend"), "f do\n  g do\n  end\nend|");
  EXPECT_EQ(after("f do\rending"), "f do\n  ending|");
  EXPECT_EQ(after("f do\rx end"), "f do\n  x end|");
  EXPECT_EQ(after("f {\r}"), "f {\n}|");
  EXPECT_EQ(after("f do\r\x7f"), "f do\n|");
  EXPECT_EQ(after("f do\r\x7fx end"), "f do\nx end|");
}

TEST(Lines, WithoutTextStayEmpty) {
  EXPECT_EQ(after("f do\r\r\rx"), "f do\n\n\n  x|");
  EXPECT_EQ(after("f do\rx\r\rend\r"), "f do\n  x\n\nend|");
}

TEST(Ending, HasItsKeys) {
  Desk d;
  d.type("abc\x03");
  EXPECT_EQ(d.state.wish, Wish::Cancel);
  EXPECT_EQ(d.text(), "abc");
  Desk e;
  e.type("\x04");
  EXPECT_EQ(e.state.wish, Wish::End);
  Desk f;
  f.type("a\x04\x02\x04");
  EXPECT_EQ(f.state.wish, Wish::Nothing);
  EXPECT_EQ(f.text(), "");
  Desk g;
  g.type("\x0c");
  EXPECT_EQ(g.state.wish, Wish::ClearScreen);
  Desk h;
  h.type("\x18\x05");
  EXPECT_EQ(h.state.wish, Wish::EditOutside);
  Desk i;
  i.type("\x1a");
  EXPECT_EQ(i.state.wish, Wish::Suspend);
}

TEST(Paste, IsOneChunk) {
  Desk d;
  d.type("x\x1b[200~for i = 1, 2 do\r\n\tprint(i)\rend\nprint(2)\n\n\x1b[201~y");
  EXPECT_FALSE(d.over());
  EXPECT_EQ(d.shown(), "xfor i = 1, 2 do\n\tprint(i)\nend\nprint(2)y|");
  d.type("\x1f\x1f");
  EXPECT_EQ(d.shown(), "x|");
}

TEST(Paste, EndsOnlyAtItsMark) {
  Desk d;
  d.type_slowly("\x1b[200~a\x03\x04\x1b[201\x1b[A\x1b[20\x1b[201~b");
  EXPECT_FALSE(d.over());
  EXPECT_EQ(d.shown(), "a\x03\x04\x1b[201\x1b[A\x1b[20b|");
  EXPECT_EQ(d.emulator.all(), "before\n[1]> a^C^D^[[201^[[A^[[20b");
}

TEST(Bytes, ThatAreNoTextAreShownAndEdited) {
  EXPECT_EQ(after("a\xff"
                  "b"),
            "a\xff"
            "b|");
  EXPECT_EQ(after("a\xe4\xbd"
                  "b\x02"),
            "a\xe4\xbd|b");
  EXPECT_EQ(after("a\xe4\xbd\x7f\x7f"), "a|");
  Desk d;
  d.type(
      "a\xff\xe4\xbd"
      "b\xe2\x80\xae");
  EXPECT_EQ(d.emulator.all(), "before\n[1]> a<ff><e4><bd>b<202e>");
}

TEST(Keys, UnknownOnesAreSwallowed) {
  EXPECT_EQ(after("a\x1b[99;99~\x1b[?1;2c\x1b[1;2P\x1bOP\x1b[[A\x1b[<0;1;1Mb"), "ab|");
  EXPECT_EQ(after("a\x1b]11;rgb:0/0/0\x07\x1bP1$r\x1b\\\x1b_Gi=1;OK\x1b\\b"), "ab|");
  EXPECT_EQ(after("a\x1b[I\x1b[O\x1bQb"), "ab|");
  EXPECT_EQ(after("a\x1b[\x03"), "a|");  // Ctrl-C breaks a sequence off
}

TEST(Keys, OfASlowLinkAreWhole) {
  Desk d;
  for (char c : std::string("one two\x1b[1;5D\x1b"
                            "f\xe4\xbd\xa0\x1b[D")) {
    d.type(std::string(1, c));
    d.wait();
  }
  EXPECT_EQ(d.shown(), "one two|\xe4\xbd\xa0");
}

}  // namespace
