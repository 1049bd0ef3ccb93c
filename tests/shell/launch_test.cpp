// `tycho run` at a terminal: one progress bar below the lines of all ranks, and Ctrl-C by its key.
#include <gtest/gtest.h>

#include <fstream>

#include "tests/shell/terminal.h"

namespace {

std::string script(const std::string& name, const std::string& text) {
  const std::string path = temporary_directory() + "/" + name;
  std::ofstream(path) << text;
  return path;
}

TEST(Launch, RankZerosBarStaysBelowTheLinesOfAll) {
  const std::string go = temporary_directory() + "/go";
  const std::string path = script("bar.lua", R"(
    if os.getenv "RANK" == "0" then
      assert(os.execute "test -t 1")
      io.write("\rhalf\27[K") io.flush()
      os.execute("until test -e $GO.on; do sleep 0.02; done")
      io.write("\rwhole\27[K") io.flush()
      io.write("\r\27[Kdone\n")
    else
      assert(not os.execute "test -t 1")
      os.execute("until test -e $GO; do sleep 0.02; done")
      print "a line"
    end
  )");
  Terminal t({.arguments = {"run", "-n", "2", path}, .environment = {{"GO", go}}});
  EXPECT_TRUE(t.see("\r[r0] half\x1b[K"));
  std::ofstream(go) << "";
  EXPECT_TRUE(t.see("\r\x1b[K[r1] a line\r\n\r[r0] half\x1b[K"));
  std::ofstream(go + ".on") << "";
  EXPECT_TRUE(t.see("\r\x1b[K[r0] done\r\n"));
  EXPECT_EQ(t.exit_status(), 0);
}

TEST(Launch, CtrlCOnceEndsInOrderTwiceKills) {
  const std::string path = script("stop.lua", R"(
    torch.until_interrupt(function()
      print "runs"
      while true do torch.ones(10):sum() end
    end)
    print "saved"
    os.execute("trap : INT; while :; do sleep 0.1; done")
  )");
  Terminal t({.arguments = {"run", "-n", "1", path}});
  EXPECT_TRUE(t.see("[r0] runs"));
  t.interrupt();
  EXPECT_TRUE(t.see("all ranks are asked to end; Ctrl-C again kills them"));
  EXPECT_TRUE(t.see("[r0] saved"));
  t.interrupt();
  EXPECT_EQ(t.exit_status(), 130);
}

}  // namespace
