// Help, completion, argument hints and colours in a real terminal.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>

#include "tests/shell/terminal.h"

namespace {

TEST(Help, AQuestionShowsThePageBeforeOrBehindTheName) {
  Terminal t(at_home("question"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("?topk", "x:topk(k, dim=-1"));
  ASSERT_TRUE(t.enter("nn.Linear?", "in_features"));
  ASSERT_TRUE(t.enter("?", "?/running average"));
  ASSERT_TRUE(t.enter("?/matrix product", "matmul"));
  ASSERT_TRUE(t.enter("?%who", "Your variables"));
  ASSERT_TRUE(t.enter("??nn.class", "local function class(name, base)"));
  ASSERT_TRUE(t.enter("?tpok", "Did you mean topk?"));
}

TEST(Help, AQuestionAboutAValueTellsWhereItComesFrom) {
  Terminal t(at_home("value"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("x = torch.ones(4, 3)", ""));
  ASSERT_TRUE(t.enter("x + 1;", ""));
  ASSERT_TRUE(t.enter("?_", "f32 [4, 3] cpu contiguous 48 B, from [2]: x + 1"));
  ASSERT_TRUE(t.enter("?x:view", "x:view(size..)"));
  ASSERT_TRUE(t.enter("x + torch.ones(4)", "do not broadcast"));
  ASSERT_TRUE(t.enter("?err", "from the right"));
}

TEST(Help, DemoRunsTheExamplesKeyByKeyAndKeepsTheirVariables) {
  Terminal t(at_home("demo"));
  ASSERT_TRUE(t.prompt());
  t.type("%demo topk\r");
  ASSERT_TRUE(t.see("3 steps"));
  ASSERT_TRUE(t.see("topk(2)"));
  t.type(" ");
  ASSERT_TRUE(t.see("5 4"));
  t.type("\x1b[C");  // an arrow is one key
  ASSERT_TRUE(t.see("5 3"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("v[1]:item()", "5"));
  t.type("%demo topk\r");
  ASSERT_TRUE(t.see("topk(2)"));
  t.type("q");
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("6 * 7", "42"));
}

TEST(Help, TheArgumentLineStandsBelowTheEntryWhileTyping) {
  Terminal t(at_home("hint"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("x = torch.ones(32, 784)", ""));
  t.type("x:matmul(");
  ASSERT_TRUE(t.see("<other>"));
  ASSERT_TRUE(t.see("wants [.., 784, p] or [784]"));
  t.type("\x03");
  ASSERT_TRUE(t.prompt());
}

TEST(Help, TabCompletesMethodsFilesAndArguments) {
  Terminal t(at_home("tab"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("x = torch.ones(2, 2)", ""));
  t.type("x:matm\t(x)\r");
  ASSERT_TRUE(t.see("f32 [2, 2]"));
  ASSERT_TRUE(t.prompt());
  t.type("x:cums\t(1");
  t.type(")\r");
  ASSERT_TRUE(t.see("f32 [2, 2]"));
  ASSERT_TRUE(t.prompt());
  t.type("x:ma\t");
  ASSERT_TRUE(t.see("masked_fill"));
  ASSERT_TRUE(t.see("matmul"));
  t.type("\x03");
  ASSERT_TRUE(t.prompt());
  t.type("x:sum{keep\ttrue, dim=1}.sha\t\r");
  ASSERT_TRUE(t.see("[1, 2]"));
}

TEST(Help, AnUnknownVariableIsUnderlinedAndAKnownOneIsNot) {
  Terminal t(at_home("colours"));
  ASSERT_TRUE(t.prompt());
  t.all.clear();
  t.type("zork + 1");
  const std::string text = t.watch(300);
  EXPECT_NE(text.find("4"), text.npos);
  EXPECT_NE(without_escapes(text).find("zork + 1"), std::string::npos);
  bool underlined = false;
  for (size_t i = 0; (i = text.find("\x1b[", i)) != text.npos; ++i) {
    const size_t end = text.find('m', i);
    const std::string codes = ";" + text.substr(i + 2, end == text.npos ? 0 : end - i - 2) + ";";
    underlined = underlined || codes.find(";4;") != codes.npos;
  }
  EXPECT_TRUE(underlined) << text;
}

TEST(Help, PagesFitAWindowOf40Columns) {
  Terminal t(at_home("narrow", 40));
  ASSERT_TRUE(t.prompt());
  for (const char* entry : {"?", "?indexing", "?conv2d", "?/tensor", "?nn"}) {
    t.type(std::string(entry) + "\r");
    const std::string text = without_escapes(t.watch(400));
    size_t columns = 0, most = 0;
    for (unsigned char c : text) {
      if (c == '\n' || c == '\r')
        columns = 0;
      else if ((c & 0xc0) != 0x80)
        most = std::max(most, ++columns);
    }
    EXPECT_LE(most, 40u) << entry << "\n" << text;
  }
}

}  // namespace
