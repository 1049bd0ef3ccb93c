// Random keys, random bytes, random windows. After every one the screen must show what a drawing
// from nothing would show, and the cursor must stand between characters.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "shell/line/text.h"
#include "tests/shell/line/desk.h"

using namespace tycho::line;

namespace {

size_t how_many_keys() {
  if (const char* n = std::getenv("TYCHO_FUZZ_KEYS")) return std::strtoull(n, nullptr, 10);
  return std::getenv("TYCHO_SANITIZED") ? 300'000 : 60'000;
}

// Things that a person or a terminal sends, and a few that nobody should.
const std::vector<std::string> kPieces = {"a",
                                          "b c",
                                          "for i do",
                                          " end",
                                          "{",
                                          "}",
                                          "(1, 2)",
                                          "\"",
                                          "m",
                                          "\xe4\xbd\xa0",
                                          "\xc3\xa4",
                                          "e\xcc\x81",
                                          "\xcc\x81",
                                          "\xf0\x9f\x91\x8d",
                                          "\xff",
                                          "\xe4\xbd",
                                          "\xe2\x80\xae",
                                          "\xed\xa0\x80",
                                          "\xf0\x9f\x91\xa9\xe2\x80\x8d\xf0\x9f\x94\xac",
                                          "\xf0\x9f\x87\xa9\xf0\x9f\x87\xaa",
                                          "\x1b[A",
                                          "\x1b[B",
                                          "\x1b[C",
                                          "\x1b[D",
                                          "\x1b[1;5C",
                                          "\x1b[1;5D",
                                          "\x1b[1;5A",
                                          "\x1b[H",
                                          "\x1b[F",
                                          "\x1b[3~",
                                          "\x1b[Z",
                                          "\t",
                                          "\t\t",
                                          "\r",
                                          "\x1b\r",
                                          "\x1b[200~p\r\nq\x1b[201~",
                                          "\x1b[200~",
                                          "\x1b[201~",
                                          "\x1b",
                                          "\x1b[",
                                          "\x1bO",
                                          "\x1b]",
                                          "\x1b[1;",
                                          "\x01",
                                          "\x02",
                                          "\x04",
                                          "\x05",
                                          "\x06",
                                          "\x07",
                                          "\x08",
                                          "\x0b",
                                          "\x0e",
                                          "\x0f",
                                          "\x10",
                                          "\x11",
                                          "\x12",
                                          "\x13",
                                          "\x14",
                                          "\x15",
                                          "\x17",
                                          "\x18",
                                          "\x19",
                                          "\x1d",
                                          "\x1f",
                                          "\x7f",
                                          "\x1b\x7f",
                                          "\x1b.",
                                          "\x1b<",
                                          "\x1b>",
                                          "\x1b"
                                          "b",
                                          "\x1b"
                                          "c",
                                          "\x1b"
                                          "d",
                                          "\x1b"
                                          "f",
                                          "\x1bl",
                                          "\x1bt",
                                          "\x1bu",
                                          "\x1by",
                                          "\x1b#",
                                          "\x1b\\",
                                          "\x1b-",
                                          "\x1b"
                                          "3",
                                          "\x18\x15",
                                          "\x18(",
                                          "\x18)",
                                          "\x18"
                                          "e",
                                          "\x18\x18",
                                          "\x18\x17",
                                          "\x1b\x19",
                                          "\x1br",
                                          "\x1bn",
                                          "\x1b?",
                                          "\x11\x1b",
                                          std::string(1, '\0')};

// Many candidates with notes, several hints, all of them wide or broken; spans that overlap and
// reach beyond the text.
void talk_much(Reader* reader) {
  reader->complete = [](const std::string& s, size_t cursor) {
    Completion c;
    c.begin = cursor - std::min<size_t>(cursor, s.size() % 3);
    while (c.begin > 0 && (s[c.begin] & 0xc0) == 0x80) --c.begin;
    for (size_t i = 0; i < s.size() * 7 % 40; ++i)
      c.items.push_back({kPieces[i] + std::to_string(i), i % 3 ? kPieces[40 - i] : ""});
    return c;
  };
  reader->hint = [](const std::string& s, size_t cursor) {
    std::vector<std::string> lines;
    for (size_t i = 0; i < (s.size() + cursor) % 5; ++i)
      lines.push_back(kPieces[(cursor + i) % 20] + std::string(i * 11 % 70, ' ') + kPieces[i] + s);
    return lines;
  };
  reader->highlight = [](const std::string& s, size_t cursor) {
    return std::vector<Span>{{0, cursor, Style::String},
                             {cursor / 2, s.size() + 9, Style::Comment},
                             {cursor, cursor + 1, Style::Bracket},
                             {s.size() + 1, s.size() + 5, Style::Error}};
  };
}

TEST(Fuzz, TheScreenIsAlwaysRight) {
  const char* given = std::getenv("TYCHO_FUZZ_SEED");
  const unsigned seed = given ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : 4;
  std::mt19937 random(seed);
  const auto up_to = [&random](size_t n) { return static_cast<size_t>(random() % n); };
  size_t keys = 0;
  const size_t wanted = how_many_keys();
  for (int round = 0; keys < wanted; ++round) {
    const int columns = static_cast<int>(1 + up_to(up_to(3) ? 60 : 6));
    const int rows = static_cast<int>(1 + up_to(up_to(3) ? 20 : 4));
    Desk d(columns, rows, {"x = 1", "for i = 1, 2 do\n  print(\xe4\xbd\xa0)\nend", "y:mean()"});
    if (up_to(2)) talk_much(&d.reader);
    std::string typed;
    for (size_t n = 0; n < 400 && keys < wanted; ++n, ++keys) {
      if (up_to(40) == 0) {
        const int width = static_cast<int>(1 + up_to(50)), height = static_cast<int>(1 + up_to(15));
        typed += "<" + std::to_string(width) + "x" + std::to_string(height) + ">";
        d.resize(width, height);
      }
      std::string piece = kPieces[up_to(kPieces.size())];
      if (up_to(10) == 0) piece = std::string(1, static_cast<char>(random()));
      if (up_to(12) == 0) piece = piece.substr(0, up_to(piece.size()) + 1);  // torn
      typed += piece;
      d.type(piece);
      if (up_to(20) == 0) d.wait();
      if (d.over()) {
        if (d.state.wish == State::Wish::Accept) d.history.add(d.text());
        const bool stays = d.state.wish == State::Wish::Suspend;
        d.state.wish = State::Wish::Nothing;
        if (!stays && up_to(2)) break;
        d.type("");
      }
      if (d.text().size() > 2000) d.type("\x07\x05\x18\x0b");
      if (testing::Test::HasFailure()) {
        FAIL() << "seed " << seed << " round " << round << " typed "
               << testing::PrintToString(typed);
      }
    }
  }
}

TEST(Fuzz, CharactersAreTheSameForwardsAndBackwards) {
  std::mt19937 random(5);
  for (int n = 0; n < 3000; ++n) {
    std::string s;
    for (int k = 0; k < 12; ++k) s += kPieces[random() % 20];
    std::vector<size_t> forward, back;
    for (size_t i = 0; i < s.size(); i = next_character(s, i)) forward.push_back(i);
    for (size_t i = s.size(); i > 0;) back.insert(back.begin(), i = previous_character(s, i));
    ASSERT_EQ(forward, back) << testing::PrintToString(s);
  }
}

}  // namespace
