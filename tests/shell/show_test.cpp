// What is shown in a real terminal: colours and when there are none, and the width of the window.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/shell/terminal.h"

namespace {

const char kShow[] =
    "local show = require 'shell.show' "
    "print(show.value(torch.tensor{{1, 0/0}, {1/0, 2}})) "
    "print(show.value(torch.randn(50, 50) * 1e-3)) "
    "print(show.value(torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.BatchNorm1d(128)))) "
    "print(show.value{1, 'a\\27[31mb', {x = print}}) "
    "torch.plot({1, 2, 3}, {3, 2, 1}, {labels = {'up', 'down'}}) "
    "torch.rand(3, 100, 100):show() ";

std::string shown(const Launch& more) {
  Launch launch = more;
  launch.arguments = {"-e", std::string(kShow) + "print('e' .. 'nd')"};
  Terminal t(launch);
  EXPECT_TRUE(t.see("end"));
  EXPECT_EQ(t.exit_status(), 0);
  return t.all;
}

int widest(const std::string& text) {
  int columns = 0, most = 0;
  for (unsigned char c : text) {
    if (c == '\n')
      columns = 0;
    else if (c != '\r' && (c & 0xc0) != 0x80)
      most = std::max(most, ++columns);
  }
  return most;
}

TEST(Show, NanAndInfinityAreColouredInATerminal) {
  const std::string text = shown({});
  EXPECT_NE(text.find("\x1b[1;31mnan\x1b[0m"), text.npos);
  EXPECT_NE(text.find("\x1b[1;33m+inf\x1b[0m"), text.npos);
  EXPECT_NE(text.find("\xe2\x96\x80"), text.npos);  // half blocks
  EXPECT_NE(text.find("\\027[31mb"), text.npos);    // a string's own escapes are written out
}

TEST(Show, NoColorMeansNoColours) {
  const std::string text = shown({.environment = {{"NO_COLOR", "1"}}});
  EXPECT_EQ(text.find("\x1b["), text.npos);
  EXPECT_NE(text.find("2 nan") == text.npos ? text.find("1 nan") : text.find("2 nan"), text.npos);
}

TEST(Show, ADumbTerminalGetsNoEscapeByte) {
  EXPECT_EQ(shown({.environment = {{"TERM", "dumb"}}}).find('\x1b'), std::string::npos);
}

TEST(Show, NothingIsWiderThanAWindowOf40Columns) {
  const std::string text = without_escapes(shown({.columns = 40}));
  EXPECT_LE(widest(text), 40) << text;
  EXPECT_LE(widest(without_escapes(shown({.environment = {{"NO_COLOR", "1"}}, .columns = 40}))),
            40);
}

TEST(Show, KittysPicturesAreForThoseWhoAsk) {
  EXPECT_NE(shown({.environment = {{"TYCHO_GRAPHICS", "kitty"}}}).find("\x1b_Gf=24,"),
            std::string::npos);
}

}  // namespace
