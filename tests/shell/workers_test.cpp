// Loaders with workers in a real terminal: Ctrl-C while batches are awaited, loaded or used.
#include <gtest/gtest.h>

#include "tests/shell/terminal.h"

namespace {

// A loader over 1000 items at the prompt, whose get(i) runs `body`; the loop's body is `loop`.
void expect_stops(const std::string& body, const std::string& loop,
                  const std::string& options = "num_workers=2") {
  SCOPED_TRACE(body + " / " + loop);
  Terminal t;
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(
      t.enter("kept = 41 Set = data.class('Set') Set.__len = function() return 1000 end "
              "print('re' .. 'ady')",
              "ready"));
  ASSERT_TRUE(
      t.enter("function Set:get(i) " + body + " return i end print('st' .. 'ored')", "stored"));
  ASSERT_TRUE(
      t.enter("loader = data.DataLoader(Set(), {" + options + "}) print('ma' .. 'de')", "made"));
  t.type("print('be' .. 'gun') for x in loader() do " + loop + " end\r");
  ASSERT_TRUE(t.see("begun"));
  t.watch(300);
  t.interrupt();
  ASSERT_TRUE(t.see("stopped"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("print(kept + 1, #loader, 'go' .. 'es on')", "42\t1000\tgoes on"));
  ASSERT_TRUE(t.enter("function Set:get(i) return i end print('chan' .. 'ged')", "changed"));
  ASSERT_TRUE(
      t.enter("total = 0 for x in loader() do total = total + x:item() end "
              "print('total', math.tointeger(total))",
              "total\t500500"));
  t.type("\x04");
  EXPECT_EQ(t.exit_status(), 0);
}

TEST(LoaderCtrlC, StopsTheWaitForAWorkerInAnEndlessLoop) { expect_stops("while true do end", ""); }

TEST(LoaderCtrlC, StopsAWorkerThatCatchesEveryError) {
  expect_stops("while true do pcall(function() while true do end end) end", "");
}

TEST(LoaderCtrlC, StopsAWorkerInALongOperation) {
  expect_stops("local a = torch.ones(3000, 3000) for _ = 1, 1000 do a:matmul(a) end", "");
}

TEST(LoaderCtrlC, StopsAWorkerThatWaitsForAFile) {
  expect_stops("io.popen('sleep 100'):read('a')", "", "num_workers=1");
}

TEST(LoaderCtrlC, StopsWorkersThatWaitForPrograms) { expect_stops("os.execute('sleep 100')", ""); }

TEST(LoaderCtrlC, StopsALoopsBody) { expect_stops("", "while true do end"); }

TEST(LoaderCtrlC, StopsWorkersThatAreKept) {
  expect_stops("while true do end", "", "num_workers=2, persistent_workers=true");
}

TEST(LoaderCtrlC, EndsTheSessionWhileWorkersWait) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(
      t.enter("Set = data.class('Set') Set.__len = function() return 100 end "
              "function Set:get(i) while i > 8 do end return i end print('re' .. 'ady')",
              "ready"));
  ASSERT_TRUE(
      t.enter("next_batch = data.DataLoader(Set(), {num_workers=2})() "
              "print(next_batch():item() + 40)",
              "41"));
  t.type("\x04");
  EXPECT_EQ(t.exit_status(), 0);
}

}  // namespace
