// What comes from before: the history by keys, suggestions, searches, arguments; and completion.
#include <gtest/gtest.h>

#include "tests/shell/line/desk.h"

using namespace tycho::line;

namespace {

const char kUpKey[] = "\x1b[A", kDownKey[] = "\x1b[B", kRightKey[] = "\x1b[C",
           kLeftKey[] = "\x1b[D", kBackTabKey[] = "\x1b[Z";

const std::vector<std::string> kEntries = {"x = torch.randn(3, 4)",
                                           "x:sum()",
                                           "for i = 1, 2 do\n  print(i)\nend",
                                           "x:mean()",
                                           "y = x + 1",
                                           "y = x + 1"};

std::string after(const std::string& keys) {
  Desk d(80, 24, kEntries);
  d.type_slowly(keys);
  return d.shown();
}

TEST(Walking, GoesThroughTheHistoryWithoutRepetitions) {
  EXPECT_EQ(after(kUpKey), "y = x + 1|");
  EXPECT_EQ(after(std::string(kUpKey) + kUpKey), "x:mean()|");
  EXPECT_EQ(after(std::string("\x10\x10\x10\x10\x0e")), "for i = 1, 2 do\n  print(i)\nend|");
  EXPECT_EQ(after(std::string(kUpKey) + kUpKey + kDownKey + kDownKey + "z"), "z|");
  EXPECT_EQ(after("\x1b<"), "x = torch.randn(3, 4)|");
  EXPECT_EQ(after("draft\x1b<\x1b>"), "draft|");
  EXPECT_EQ(after(std::string(kDownKey) + kDownKey + "a"), "a|");
  EXPECT_EQ(after("\x1b"
                  "2\x10"),
            "x:mean()|");
}

TEST(Walking, IsFilteredByWhatIsTyped) {
  EXPECT_EQ(after(std::string("x:") + kUpKey), "x:mean()|");
  EXPECT_EQ(after(std::string("x:") + kUpKey + kUpKey), "x:sum()|");
  EXPECT_EQ(after(std::string("x:") + kUpKey + kUpKey + kUpKey), "x:sum()|");
  EXPECT_EQ(after(std::string("x:") + kUpKey + kUpKey + kDownKey + kDownKey), "x:|");
  EXPECT_EQ(after("x:\x1b[1;5A"), "y = x + 1|");  // Ctrl-Up: any entry
}

TEST(Walking, KeepsWhatWasChangedOnTheWay) {
  EXPECT_EQ(after(std::string(kUpKey) + "!\x1b[1;5A\x1b[1;5B"), "y = x + 1!|");
  EXPECT_EQ(after(std::string("abc") + "\x1b[1;5A\x1b[1;5B"), "abc|");
}

TEST(Walking, GoesInsideARecalledEntryAfterAnyOtherKey) {
  const std::string recalled = std::string("fo") + kUpKey;
  EXPECT_EQ(after(recalled), "for i = 1, 2 do\n  print(i)\nend|");
  EXPECT_EQ(after(recalled + "\x05" + kUpKey), "for i = 1, 2 do\n  print(i)|\nend");
}

TEST(Suggestion, IsSeenAndTaken) {
  Desk d(80, 24, kEntries);
  d.type("x:m");
  EXPECT_EQ(d.emulator.all(), "before\n[1]> x:mean()");
  EXPECT_EQ(d.emulator.look(1, 8), "2");
  EXPECT_EQ(d.shown(), "x:m|");
  d.type(kRightKey);
  EXPECT_EQ(d.shown(), "x:mean()|");
  EXPECT_EQ(after("x:m\x05"), "x:mean()|");
  EXPECT_EQ(after("x:m\x06"), "x:mean()|");
  EXPECT_EQ(after("x = t\x1b"
                  "f"),
            "x = torch|");
  EXPECT_EQ(after("x = t\x1b"
                  "f\x1b"
                  "f"),
            "x = torch.randn|");
  EXPECT_EQ(after(std::string("x:m") + kLeftKey + kRightKey), "x:m|");
}

TEST(Suggestion, IsNotMadeForARecalledEntry) {
  Desk d(80, 24, {"x = 1 + 2", "x = 1"});
  d.type(kUpKey);
  EXPECT_EQ(d.emulator.all(), "before\n[1]> x = 1");
  d.type("\x05");
  EXPECT_EQ(d.shown(), "x = 1|");
}

TEST(Suggestion, OfSeveralLinesIsHinted) {
  Desk d(80, 24, kEntries);
  d.type("for");
  EXPECT_EQ(d.emulator.all(), "before\n[1]> for i = 1, 2 do ..");
  d.type(kRightKey);
  EXPECT_EQ(d.text(), kEntries[2]);
}

TEST(Suggestion, StaysInsideTheRow) {
  Desk d(12, 24, {"x = 1234567890"});
  d.type("x =");
  EXPECT_EQ(d.emulator.all(), "before\n[1]> x = 123");
}

TEST(Search, FindsWhileTyping) {
  Desk d(80, 24, kEntries);
  d.type("\x12x:");
  EXPECT_EQ(d.text(), "x:mean()");
  EXPECT_EQ(d.emulator.all(), "before\n[1]> x:mean()\nsearch: x:");
  d.type("s");
  EXPECT_EQ(d.shown(), "|x:sum()");
  d.type("\x05!");
  EXPECT_EQ(d.shown(), "x:sum()!|");
}

TEST(Search, GoesOnAndBack) {
  EXPECT_EQ(after("\x12x\x12\x12\x05"), "x:sum()|");
  EXPECT_EQ(after("\x12:\x12\x05"), "x:sum()|");
  EXPECT_EQ(after("\x12:\x12\x13\x05"), "x:mean()|");
  EXPECT_EQ(after("\x12:s\x7f\x05"), "x:mean()|");
  EXPECT_EQ(after("draft\x12sum\x07"), "draft|");
  EXPECT_EQ(after("\x12sum\x05\x15\x12\x12\x05"), "x:sum()|");  // again what was searched for last
  EXPECT_EQ(after("\x12sum\x05\x15\x10"), "x = torch.randn(3, 4)|");  // walks on from there
}

TEST(Search, SaysWhenThereIsNothing) {
  Desk d(80, 24, kEntries);
  d.type("\x12meanq");
  EXPECT_EQ(d.emulator.all(), "before\n[1]> x:mean()\nnot found: meanq");
  d.type("\x7f");
  EXPECT_EQ(d.emulator.all(), "before\n[1]> x:mean()\nsearch: mean");
}

TEST(Search, EscKeepsWhatWasFound) {
  Desk d(80, 24, kEntries);
  d.type("\x12sum\x1b");
  d.wait();
  d.type("\x05!");
  EXPECT_EQ(d.shown(), "x:sum()!|");
}

TEST(Search, EnterRunsTheEntryFound) {
  Desk d(80, 24, kEntries);
  d.type("\x12mean\r");
  EXPECT_EQ(d.state.wish, State::Wish::Accept);
  EXPECT_EQ(d.text(), "x:mean()");
}

TEST(LastArgument, IsTakenFromEntryAfterEntry) {
  const std::vector<std::string> entries = {"print(torch.ones(2, 3), 'a, b')", "f(x, {1, 2})",
                                            "y = total", "g()"};
  const auto keys = [&entries](const std::string& k) {
    Desk d(80, 24, entries);
    d.type_slowly(k);
    return d.shown();
  };
  EXPECT_EQ(keys("\x1b."), "g()|");
  EXPECT_EQ(keys("\x1b.\x1b."), "total|");
  EXPECT_EQ(keys("\x1b.\x1b.\x1b."), "{1, 2}|");
  EXPECT_EQ(keys("z\x1b.\x1b.\x1b.\x1b."), "z'a, b'|");
  EXPECT_EQ(keys("\x1b.\x1b.\x1b.\x1b.\x1b."), "'a, b'|");
  EXPECT_EQ(keys("\x1b.\x1b.\x1f"), "|");
}

TEST(OperateAndGetNext, BringsTheEntryAfter) {
  Desk d(80, 24, kEntries);
  d.type("\x10\x10\x10\x10\x0f");
  EXPECT_EQ(d.text(), "x:sum()");
  d.history.add(d.text());
  State next(d.prompt, d.reader, d.history, d.memory);
  next.start("", 0);
  EXPECT_EQ(next.buffer().text(), kEntries[2]);
}

TEST(Completion, TakesTheCommonPartThenCycles) {
  EXPECT_EQ(after("x:to\t"), "x:topk|");
  EXPECT_EQ(after("x:mas\t"), "x:masked_|");
  EXPECT_EQ(after("x:mas\t\t"), "x:masked_fill|");
  EXPECT_EQ(after("x:mas\t\t\t"), "x:masked_select|");
  EXPECT_EQ(after("x:mas\t\t\t\t"), "x:masked_fill|");
  EXPECT_EQ(after(std::string("x:mas\t") + kBackTabKey), "x:masked_select|");
  EXPECT_EQ(after("x:mas\t\t!"), "x:masked_fill!|");
  EXPECT_EQ(after("x:mas\t\t\r!"), "x:masked_fill!|");  // Enter takes it without running
  EXPECT_EQ(after("x:mas\t\t\x07"), "x:mas|");
  EXPECT_EQ(after("x:nothing\t"), "x:nothing|");
  EXPECT_EQ(after("x:mas\t\t\t\x1f"), "x:masked_|");
}

TEST(Completion, ShowsItsMenu) {
  Desk d(40);
  d.type("x:m\t");
  EXPECT_EQ(d.emulator.all(),
            "before\n[1]> x:m\nmasked_fill    matmul  mean    min\nmasked_select  max     median");
  d.type("\t");
  EXPECT_EQ(d.emulator.look(2, 0), "7");
  EXPECT_EQ(d.emulator.look(2, 15), "");
  d.type(std::string(kDownKey) + kRightKey);
  EXPECT_EQ(d.shown(), "x:max|");
  d.type("\x1b");
  d.wait();
  EXPECT_EQ(d.shown(), "x:m|");
  EXPECT_EQ(d.emulator.all(), "before\n[1]> x:m");
}

TEST(Completion, NarrowsDownWhileTyping) {
  Desk d;
  d.type("x:m\t");
  d.type("a");
  EXPECT_EQ(d.emulator.all(), "before\n[1]> x:ma\nmasked_fill  masked_select  matmul  max");
  d.type("t");
  EXPECT_EQ(d.emulator.all(), "before\n[1]> x:mat\nmatmul");
  d.type("\x7f\x7f");
  EXPECT_EQ(d.text(), "x:m");
  d.type("(");
  EXPECT_EQ(d.text(), "x:m(");
}

TEST(Completion, NeverFillsMoreThanTheScreen) {
  Desk d(40, 6);
  d.reader.complete = [](const std::string&, size_t cursor) {
    Completion c;
    c.begin = cursor;
    for (int i = 0; i < 100; ++i) c.items.push_back({"candidate" + std::to_string(i), "a note"});
    return c;
  };
  d.type("x\t");
  EXPECT_EQ(d.emulator.rows(), 6);
  EXPECT_EQ(d.emulator.text(0), "[1]> xcandidate");
  for (int i = 0; i < 120; ++i) d.type("\t");
  EXPECT_EQ(d.text(), "xcandidate19");
  EXPECT_EQ(d.emulator.text(5), "20/100  a note");
}

TEST(Completion, SetsNotesBesideTheCandidates) {
  Desk d;
  d.reader.complete = [](const std::string&, size_t cursor) {
    return Completion{cursor, {{"sum", "x:sum(dim)"}, {"size", "x:size() and so on"}}};
  };
  d.type("x:\t");
  EXPECT_EQ(d.emulator.all(), "before\n[1]> x:s\nsum   x:sum(dim)\nsize  x:size() and so on");
}

TEST(Completion, IndentsWhereNothingIsToComplete) {
  EXPECT_EQ(after("for x do\r\x7f\tx"), "for x do\n  x|");
  EXPECT_EQ(after("for x do\r\t\tx"), "for x do\n      x|");
}

TEST(Hints, AreShownBelowAndWrapped) {
  Desk d(30);
  d.type("x:matmul(");
  EXPECT_EQ(d.emulator.all(), "before\n[1]> x:matmul(\nmatmul(other)   x f32 [32,\n784]");
  d.type("\x15");
  EXPECT_EQ(d.emulator.all(), "before\n[1]>");
}

TEST(Hints, WithControlCharactersAreHarmless) {
  Desk d(30);
  d.reader.hint = [](const std::string&, size_t) {
    return std::vector<std::string>{"a\x1b[2Jb\nc"};
  };
  d.type("x");
  EXPECT_EQ(d.emulator.all(), "before\n[1]> x\na^[[2Jb^Jc");
}

}  // namespace
