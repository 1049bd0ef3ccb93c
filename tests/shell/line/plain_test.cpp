// Terminals that cannot move a cursor, pipes, and terminals without colours.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/shell/line/pty.h"

namespace {

TEST(Plain, DumbTerminalsGetNoEscapeByte) {
  const std::vector<std::map<std::string, std::string>> settings = {
      {{"TERM", "dumb"}}, {{"INSIDE_EMACS", "29.1,comint"}}, {{"TERM", ""}}};
  for (const auto& environment : settings) {
    Pty t({.environment = environment});
    ASSERT_TRUE(t.see_end(">"));
    t.type("f {\n1\n}\n");
    ASSERT_TRUE(t.see_end("got <f {\n1\n}>\n>"));
    ASSERT_TRUE(t.see_somewhere("...> "));
    t.type("abc");
    ASSERT_TRUE(t.see_end("> abc"));
    t.type("\x03");
    ASSERT_TRUE(t.see_end(" cancelled 0\n>"));
    t.type("\x04");
    EXPECT_EQ(t.exit_status(), 0);
    EXPECT_EQ(t.bytes.find('\x1b'), std::string::npos);
  }
}

TEST(Plain, WithoutColoursNoneAreWritten) {
  Pty t({.environment = {{"NO_COLOR", "1"}}});
  ASSERT_TRUE(t.see_end(">"));
  t.type("x1 = 1234\r");
  ASSERT_TRUE(t.see_end("got <x1 = 1234>\n>"));
  EXPECT_EQ(t.bytes.find("3"), t.bytes.find("34")) << testing::PrintToString(t.bytes);
}

TEST(Plain, PipesAreReadLineByLine) {
  int in[2], out[2];
  ASSERT_EQ(pipe(in), 0);
  ASSERT_EQ(pipe(out), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    close(in[1]);
    close(out[0]);
    read_entries(nullptr);
    std::_Exit(0);
  }
  close(in[0]);
  close(out[1]);
  const std::string text = "f {\r\n1\n}\nx\nunfinished {\n";
  ASSERT_EQ(write(in[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  close(in[1]);
  std::string got;
  char room[1000];
  for (ssize_t n; (n = read(out[0], room, sizeof room)) > 0;)
    got.append(room, static_cast<size_t>(n));
  waitpid(child, nullptr, 0);
  close(out[0]);
  EXPECT_EQ(got, "got <f {\n1\n}>\ngot <x>\nbye\n");
}

}  // namespace
