// What a person sees at the prompt: the whole program behind a terminal emulator, keys by keys.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/shell/line/emulator.h"
#include "tests/shell/terminal.h"

namespace {

class Screen {
 public:
  explicit Screen(Launch launch = {}) : emulator_(launch.columns, 24), terminal_(alone(launch)) {
    terminal_.prompt();
    look();
  }

  void type(const std::string& keys) { terminal_.type(keys); }
  // As over a slow link: one byte at a time, sequences torn.
  void type_slowly(const std::string& keys) {
    for (char c : keys) {
      type(std::string(1, c));
      usleep(2000);
    }
  }
  void resize(int columns, int rows) {
    look();
    emulator_.resize(columns, rows);
    terminal_.resize(columns, rows);
  }
  bool ends_with(const std::string& text) {
    return see([&] { return emulator_.lines().ends_with(text); }, text);
  }
  bool shows(const std::string& text) {
    return see([&] { return emulator_.all().find(text) != std::string::npos; }, text);
  }
  // The look of the first place where `text` is shown in a row that holds `in`.
  std::string look_of(const std::string& text, const std::string& in) {
    for (int r = 0; r < emulator_.rows(); ++r) {
      const std::string row = emulator_.text(r);
      if (row.find(in) == row.npos) continue;
      const size_t at = row.find(text);
      if (at != row.npos) return emulator_.look(r, static_cast<int>(at));
    }
    return "not there";
  }
  const Emulator& seen() const { return emulator_; }

 private:
  static Launch alone(Launch launch) {  // with a history of its own
    static int count = 0;
    const std::string home = temporary_directory() + "/editor" + std::to_string(count++);
    mkdir(home.c_str(), 0700);
    launch.environment.insert({"HOME", home});
    return launch;
  }
  void look() {
    emulator_.feed(std::string_view(terminal_.all).substr(fed_));
    fed_ = terminal_.all.size();
  }
  template <typename F>
  bool see(F there, const std::string& what) {
    for (int tries = 0; tries < 2000; ++tries) {
      look();
      if (there()) return true;
      terminal_.watch(10);
    }
    ADD_FAILURE() << what << "\ndid not come; the screen:\n" << emulator_.lines();
    return false;
  }

  Emulator emulator_;
  Terminal terminal_;
  size_t fed_ = 0;
};

const char kTabKey[] = "\t", kUpKey[] = "\x1b[A", kRightKey[] = "\x1b[C";

TEST(Editor, AFunctionOfSeveralLinesIsTypedOverASlowLinkInANarrowWindow) {
  Screen s({.columns = 40});
  s.type_slowly("function twice(k)\rif k then\rreturn 2 * k\relse\rreturn 0\rend\rend\r");
  ASSERT_TRUE(
      s.ends_with("[1]> function twice(k)\n"
                  "...>   if k then\n"
                  "...>     return 2 * k\n"
                  "...>   else\n"
                  "...>     return 0\n"
                  "...>   end\n"
                  "...> end\n"
                  "[2]>"));
  s.type_slowly(
      "tw\x1b[D\x1b[D\x1b[1;5C"
      "ice(210)\x1b[H\x1b[F\x1b"
      "b\x1b"
      "d21)\x1b[3~\r");
  ASSERT_TRUE(s.ends_with("[2]> twice(21)\n42\n[3]>"));
}

TEST(Editor, ARecalledEntryIsChangedInsideItsLines) {
  Screen s;
  s.type("for i = 1, 2 do\rprint('row ' .. i)\rend\r");
  ASSERT_TRUE(s.ends_with("row 1\nrow 2\n[2]>"));
  s.type(std::string(kUpKey) + "\x05" + kUpKey + kUpKey +
         "\x05\x1b[D\x1b[D\x1b[D\x7f"
         "3\r");
  ASSERT_TRUE(s.ends_with("row 1\nrow 2\nrow 3\n[3]>"));
}

TEST(Editor, ASuggestionFromTheHistoryIsTakenWithTheRightArrow) {
  Screen s;
  s.type("print('first ' .. 'entry')\r");
  ASSERT_TRUE(s.ends_with("first entry\n[2]>"));
  s.type("pri");
  ASSERT_TRUE(s.ends_with("[2]> print('first ' .. 'entry')"));
  EXPECT_EQ(s.look_of("t('first", "[2]>"), "2");
  s.type(std::string(kRightKey) + "\r");
  ASSERT_TRUE(s.ends_with("[2]> print('first ' .. 'entry')\nfirst entry\n[3]>"));
}

TEST(Editor, ColoursFollowTheTyping) {
  Screen s;
  s.type("local a = 'text' .. nowhere -- why");
  ASSERT_TRUE(s.ends_with("-- why"));
  const std::string plain = s.look_of("a =", "local");
  EXPECT_EQ(plain, "");
  EXPECT_NE(s.look_of("local", "local"), plain);
  EXPECT_NE(s.look_of("'text'", "local"), plain);
  EXPECT_EQ(s.look_of("nowhere", "local"), "4");  // underlined
  EXPECT_NE(s.look_of("-- why", "local"), plain);
}

TEST(Editor, NoColourMeansNone) {
  Screen s({.environment = {{"NO_COLOR", "1"}}});
  s.type("local a = 'text' -- why");
  ASSERT_TRUE(s.ends_with("-- why"));
  for (const char* word : {"[1]>", "local", "a =", "'text'", "-- why"})
    EXPECT_EQ(s.look_of(word, "local").find('3'), std::string::npos) << word;
}

TEST(Editor, TabCompletesTheCommonPartThenGoesThroughTheMenu) {
  Screen s({.columns = 40});
  s.type("x = torch.ones(2, 3)\r");
  ASSERT_TRUE(s.ends_with("[2]>"));
  s.type(std::string("x:masked_s") + kTabKey);
  ASSERT_TRUE(s.shows("[2]> x:masked_s"));
  ASSERT_TRUE(s.shows("masked_scatter"));
  ASSERT_TRUE(s.shows("masked_select"));
  s.type(kTabKey);
  ASSERT_TRUE(s.shows("[2]> x:masked_scatter"));
  s.type("\x1b");
  ASSERT_TRUE(s.ends_with("[2]> x:masked_s"));
  s.type(std::string("\x15torch.is_grad_en") + kTabKey);
  ASSERT_TRUE(s.shows("[2]> torch.is_grad_enabled"));
}

TEST(Editor, ArgumentsAreHintedWithLiveShapes) {
  Screen s;
  s.type("x = torch.ones(32, 784)\rx:matmul(");
  ASSERT_TRUE(s.shows("[2]> x:matmul("));
  ASSERT_TRUE(s.shows("x f32 [32, 784]"));
  s.type("\x15");
  ASSERT_TRUE(s.ends_with("[2]>"));
}

TEST(Editor, APasteIsOneEntryHoweverItsBytesCome) {
  Screen s;
  s.type_slowly("\x1b[200~function f(x)\r\n\treturn x + 1\r\n\r\nend\r\nprint(f(41))\r\n\x1b[201~");
  ASSERT_TRUE(
      s.ends_with("[1]> function f(x)\n...>     return x + 1\n...>\n...> end\n"
                  "...> print(f(41))"));
  s.type("\r");
  ASSERT_TRUE(s.ends_with("\n42\n[2]>"));
}

TEST(Editor, AWrongEntryComesBackWithTheCursorAtTheFault) {
  Screen s;
  s.type("x = = 6 * 7; x\r");
  ASSERT_TRUE(s.ends_with("   ^\n[1]> x = = 6 * 7; x"));
  s.type("\x04\x04\r");
  ASSERT_TRUE(s.ends_with("[1]> x = 6 * 7; x\n42\n[2]>"));
}

TEST(Editor, ChineseTextIsEditedAndWrapped) {
  Screen s({.columns = 20});
  s.type("s = '\xe4\xbb\x8a\xe5\xa4\xa9\xe5\xa4\xa9\xe6\xb0\x94\xe5\xbe\x88\xe5\xa5\xbd'");
  ASSERT_TRUE(s.ends_with(
      "[1]> s = '\xe4\xbb\x8a\xe5\xa4\xa9\xe5\xa4\xa9\xe6\xb0\x94\xe5\xbe\x88\n\xe5\xa5\xbd'"));
  s.type("\x02\x02\x02\x7f\x05; #s\r");  // back over three, one less
  ASSERT_TRUE(s.ends_with("\n15\n[2]>"));
  s.type("\x15print(#'\xe4\xbb\x8a\xe5\xa4\xa9\x7f')\r");
  ASSERT_TRUE(s.ends_with("\n3\n[3]>"));
}

TEST(Editor, TheEntryIsWrappedAnewWhenTheWindowChanges) {
  Screen s({.columns = 60});
  s.type("print('abcdefghijklmnopqrstuvwxyz')");
  ASSERT_TRUE(s.ends_with("[1]> print('abcdefghijklmnopqrstuvwxyz')"));
  s.resize(20, 24);
  ASSERT_TRUE(s.ends_with("[1]> print('abcdefgh\nijklmnopqrstuvwxyz')"));
  s.resize(50, 10);
  ASSERT_TRUE(s.ends_with("[1]> print('abcdefghijklmnopqrstuvwxyz')"));
  s.type("\r");
  ASSERT_TRUE(s.ends_with("\nabcdefghijklmnopqrstuvwxyz\n[2]>"));
}

TEST(Editor, SearchFindsAnEntryByAPartOfIt) {
  Screen s;
  s.type("apples = 6\rpears = 7\r");
  ASSERT_TRUE(s.ends_with("\n[3]>"));
  s.type(
      "\x12"
      "app");
  ASSERT_TRUE(s.ends_with("[3]> apples = 6\nsearch: app"));
  s.type("\x05 * pears; apples\r");
  ASSERT_TRUE(s.ends_with("[3]> apples = 6 * pears; apples\n42\n[4]>"));
}

TEST(Editor, ItsKeysAreListed) {
  Screen s;
  s.type("%keys suggestion\r");
  ASSERT_TRUE(s.shows("Ctrl-F  Right "));
  ASSERT_TRUE(s.shows("on, at the end of the suggestion"));
}

TEST(Editor, AnExternalEditorGetsTheEntry) {
  Screen s({.environment = {{"EDITOR", "sed -i s/6/7/"}}});
  s.type("print(6)\x18\x05");
  ASSERT_TRUE(s.ends_with("[1]> print(7)"));
  s.type("\r");
  ASSERT_TRUE(s.ends_with("\n7\n[2]>"));
}

}  // namespace
