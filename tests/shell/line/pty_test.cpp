// The editor in a real pseudo-terminal: raw mode, signals, stops, windows, an external editor.
#include "tests/shell/line/pty.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <random>

#include "shell/line/editor.h"

using namespace tycho::line;

namespace {

TEST(Pty, ReadsEntriesAndLeavesTheTerminalAsItWas) {
  Pty t({});
  ASSERT_TRUE(t.see_end(">"));
  EXPECT_TRUE(t.see_raw(true));
  t.type("f {\r1\r}\r");
  ASSERT_TRUE(t.see_end("> f {\n...>   1\n...> }\ngot <f {\n  1\n}>\n>"));
  t.type("\x04");
  EXPECT_EQ(t.exit_status(), 0);
  EXPECT_FALSE(t.raw());
  EXPECT_FALSE(t.screen.pastes_bracketed());
  EXPECT_EQ(t.screen.trouble, "");
}

TEST(Pty, BytesOneByOneMakeTheSame) {
  Pty t({.columns = 40});
  ASSERT_TRUE(t.see_end(">"));
  const std::string keys =
      "one two\x1b[1;5D\xe4\xbd\xa0\xe5\xa5\xbd \x1b[D\x1b[D\x7f\x1b[200~a\rb\x1b[201~!\r";
  for (char c : keys) {
    t.type(std::string(1, c));
    usleep(3000);
  }
  ASSERT_TRUE(t.see_end("got <one a\nb!\xe5\xa5\xbd two>\n>"));
}

TEST(Pty, CtrlCGivesTheTextBack) {
  Pty t({});
  ASSERT_TRUE(t.see_end(">"));
  t.type("f {\rabc\x03");
  ASSERT_TRUE(t.see_end("> f {\n...>   abc^C cancelled 9\n>"));
  t.type("\x03");
  ASSERT_TRUE(t.see_end("> ^C cancelled 0\n>"));
}

TEST(Pty, ASignalThatEndsItRestoresTheTerminal) {
  for (int number : {SIGTERM, SIGHUP, SIGSEGV, SIGABRT}) {
    Pty t({});
    ASSERT_TRUE(t.see_end(">"));
    EXPECT_TRUE(t.see_raw(true));
    t.signal(number);
    t.exit_status();
    EXPECT_FALSE(t.raw()) << number;
  }
}

TEST(Pty, AReaderWhoseTerminalHasHungUpStillEndsByASignal) {
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  Pty t({.environment = {}, .evaluate = [&](const std::string&) {
           const Reader reader;
           History history("");
           std::string entry;
           for (int ends = 0; ends < 2;)  // a program that asks again
             ends += read_entry({"inner> ", ""}, reader, history, &entry) == Ended::End;
           if (write(told[1], "x", 1) == 1)
             while (true) pause();
         }});
  close(told[1]);
  ASSERT_TRUE(t.see_end(">"));
  t.type("go\r");
  ASSERT_TRUE(t.see_end("inner>"));
  t.hang_up();
  char end = 0;
  ASSERT_EQ(read(told[0], &end, 1), 1);
  close(told[0]);
  t.signal(SIGTERM);
  EXPECT_EQ(t.exit_status(), 128 + SIGTERM);
}

TEST(Pty, AnEndFromInsideTheReadRestoresTheTerminal) {
  Pty t({.environment = {}, .evaluate = [](const std::string&) {
           Reader reader;
           reader.hint = [](const std::string& s, size_t) -> std::vector<std::string> {
             if (s == "x") exit(7);
             return {};
           };
           History history("");
           std::string entry;
           read_entry({"inner> ", ""}, reader, history, &entry);
         }});
  ASSERT_TRUE(t.see_end(">"));
  t.type("go\r");
  ASSERT_TRUE(t.see_end("inner>"));
  t.type("x");
  EXPECT_EQ(t.exit_status(), 7);
  EXPECT_FALSE(t.raw());
}

TEST(Pty, InputThatComesEarlyIsNotLost) {
  Pty t({.environment = {}, .evaluate = [](const std::string& entry) {
           if (entry != "read") return;
           char line[100] = "";
           if (std::fgets(line, sizeof line, stdin)) std::printf("line %s", line);
         }});
  ASSERT_TRUE(t.see_end(">"));
  t.type("read\r");
  ASSERT_TRUE(t.see_raw(false));
  t.type("for me\r");
  ASSERT_TRUE(t.see_end("line for me\n>"));
  t.type("1\r2\r");
  ASSERT_TRUE(t.see_end("got <2>\n>"));
}

TEST(Pty, FollowsTheWindow) {
  Pty t({.columns = 60});
  ASSERT_TRUE(t.see_end(">"));
  t.type("abcdefghijklmnopqrstuvwxyz");
  ASSERT_TRUE(t.see_end("xyz"));
  t.resize(20, 24);
  ASSERT_TRUE(t.see_end("> abcdefghijklmnopqr\nstuvwxyz"));
  t.type("!");
  ASSERT_TRUE(t.see_end("> abcdefghijklmnopqr\nstuvwxyz!"));
  t.resize(50, 3);
  ASSERT_TRUE(t.see_end("> abcdefghijklmnopqrstuvwxyz!"));
}

TEST(Pty, CtrlZStopsAndComesBack) {
  Pty t({.environment = {}, .evaluate = nullptr, .columns = 80, .rows = 24, .under_shell = true});
  ASSERT_TRUE(t.see_end(">"));
  t.type("half");
  ASSERT_TRUE(t.see_end("> half"));
  t.type("\x1a");
  ASSERT_TRUE(t.see_end("stopped tidily"));
  EXPECT_FALSE(t.raw());
  t.type("\n");
  ASSERT_TRUE(t.see_end("stopped tidily\n\n> half"));
  EXPECT_TRUE(t.see_raw(true));
  t.type(" more\r");
  ASSERT_TRUE(t.see_end("got <half more>\n>"));
}

TEST(Pty, AnExternalEditorEditsTheEntry) {
  char name[] = "/tmp/tycho-pty-XXXXXX";
  const std::string directory = mkdtemp(name);
  Pty t({.environment = {{"TMPDIR", directory},
                         {"EDITOR", "f() { stat -c %a \"$1\" > " + directory +
                                        "/mode; stty -a | grep -o ' icanon' >> " + directory +
                                        "/mode; sed -i s/one/two/ \"$1\"; }; f"}}});
  ASSERT_TRUE(t.see_end(">"));
  t.type("one {\r1 }\x18\x05");
  ASSERT_TRUE(t.see_end("> two {\n...>   1 }"));
  t.type("\r");
  ASSERT_TRUE(t.see_end("got <two {\n  1 }>\n>"));
  std::ifstream in(directory + "/mode");
  std::string mode, cooked;
  in >> mode >> cooked;
  EXPECT_EQ(mode, "600");
  EXPECT_EQ(cooked, "icanon");
  size_t left = 0;
  for (const auto& file : std::filesystem::directory_iterator(directory))
    left += file.path().filename() != "mode";
  EXPECT_EQ(left, 0u);
  std::filesystem::remove_all(directory);
}

TEST(Pty, AnExternalEditorThatFailsChangesNothing) {
  Pty t({.environment = {{"EDITOR", "false"}}});
  ASSERT_TRUE(t.see_end(">"));
  t.type("one\x18\x05");
  ASSERT_TRUE(t.see_end("false failed; the entry is as it was\n> one"));
}

TEST(Pty, OutputWithoutANewlineIsKept) {
  Pty t({.environment = {}, .evaluate = [](const std::string&) { std::printf("no newline"); }});
  ASSERT_TRUE(t.see_end(">"));
  t.type("x\r");
  ASSERT_TRUE(t.see_end("got <x>\nno newline%\n>"));
}

TEST(Pty, ALargePasteIsOneEntry) {
  Pty t({});
  ASSERT_TRUE(t.see_end(">"));
  std::string lines;
  for (int i = 0; i < 5000; ++i) lines += "line " + std::to_string(i) + "\r";
  t.type("\x1b[200~");
  // The terminal's own queue is small: both sides have to move.
  for (size_t at = 0; at < lines.size(); at += 1024) {
    t.type(lines.substr(at, 1024));
    usleep(1000);
  }
  t.type("\x1b[201~");
  ASSERT_TRUE(t.see_end("line 4998\n...> line 4999"));
  t.type("\r");
  ASSERT_TRUE(t.see_end("line 4998\nline 4999>\n>"));
}

TEST(Pty, SurvivesRandomBytesWindowsAndSignals) {
  Pty t({.environment = {{"EDITOR", "true"}}});
  ASSERT_TRUE(t.see_end(">"));
  std::mt19937 random(7);
  const std::vector<std::string> pieces = {
      "x",      "f {",  "}",    "\r",        "\t",        "\x1b[",       "\x1b[A",
      "\x1b[B", "\x1b", "\x12", "\x19",      "\x0b",      "\x18",        "\x05",
      "\x1a",   "\x0c", "\x03", "\x1b[200~", "\x1b[201~", "\xe4\xbd\xa0"};
  for (int i = 0; i < 2000; ++i) {
    std::string piece = pieces[random() % pieces.size()];
    if (random() % 4 == 0) piece = std::string(1, static_cast<char>(random()));
    if (piece != "\x04") t.type(piece);
    if (random() % 50 == 0)
      t.resize(static_cast<int>(1 + random() % 90), static_cast<int>(1 + random() % 30));
    if (random() % 50 == 0) t.signal(random() % 2 ? SIGCONT : SIGINT);
    t.drain();
  }
  t.resize(80, 24);
  // Whatever is open closes: a paste, a search, a quoted key, the entry. Keys are lost while the
  // terminal is not ours (an editor runs), so they are pressed until they help.
  int looks = 0;
  const auto ended = [&] {
    if (looks++ % 20 == 0) t.type("\x1b[201~\x1b[201~\x07\x07\x03last\r");
    return t.screen.lines().find("got <last>") != std::string::npos;
  };
  ASSERT_TRUE(t.see(ended, "an end"));
  EXPECT_EQ(t.exit_status("\x07\x03\x04"), 0);
  EXPECT_FALSE(t.raw());
}

}  // namespace
