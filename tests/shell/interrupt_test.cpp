// Ctrl-C in a real terminal: it stops whatever runs, keeps the variables and the session.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <random>
#include <string>

#include "tests/shell/terminal.h"

namespace {

// Starts `code` at the prompt, presses Ctrl-C when it has begun, and checks that the session goes
// on with its variables.
void expect_stops(const std::string& code) {
  SCOPED_TRACE(code);
  Terminal t;
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("x = torch.arange(10) kept = 41 print('re' .. 'ady')", "ready"));
  t.type("io.write('be' .. 'gun\\n') io.flush() " + code + "\r");
  ASSERT_TRUE(t.see("begun"));
  t.watch(200);
  t.interrupt();
  ASSERT_TRUE(t.see("stopped"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("print(kept + 1, x:sum():item(), 'go' .. 'es on')", "42\t45\tgoes on"));
  ASSERT_TRUE(
      t.enter("print(torch.is_grad_enabled(), (torch.ones(3) + 1):sum():item())", "true\t6.0"));
  t.type("\x04");
  EXPECT_EQ(t.exit_status(), 0);
}

TEST(CtrlC, StopsALuaLoop) { expect_stops("while true do end"); }

TEST(CtrlC, StopsALoopOfOperations) {
  expect_stops("local y = x while true do y = torch.ones(3) + 1 end");
}

TEST(CtrlC, StopsAPcallLoop) {
  expect_stops("local function f() for i = 1, 1e8 do end end while true do pcall(f) end");
}

TEST(CtrlC, StopsAPcallLoopOfOperations) {
  expect_stops("local function f() return torch.ones(1000) * 2 end while true do pcall(f) end");
}

TEST(CtrlC, StopsACoroutineThatNeverCallsTheEngine) {
  expect_stops("coroutine.wrap(function() while true do end end)()");
}

TEST(CtrlC, StopsALoopThatResumesEndlessCoroutines) {
  expect_stops(
      "while true do coroutine.resume(coroutine.create(function() while true do end end)) end");
}

TEST(CtrlC, StopsALoopThatResumesOneGenerator) {
  expect_stops(
      "local g = coroutine.wrap(function() while true do pcall(coroutine.yield, 1) end end) "
      "while true do pcall(g) end");
}

TEST(CtrlC, StopsAResumingLoopAtWhateverInstructionItComes) {
  constexpr int kTimes = 6000;
  Terminal t;
  ASSERT_TRUE(t.prompt());
  t.type("for i = 1, " + std::to_string(kTimes) +
         " do torch.until_interrupt(function() local g = coroutine.wrap(function() while true do "
         "pcall(coroutine.yield, 1) end end) io.write('go' .. i, ';\\n') while true do pcall(g) end "
         "end) end\r");
  std::minstd_rand random(12);
  for (int i = 1; i <= kTimes; ++i) {
    ASSERT_TRUE(t.see("go" + std::to_string(i) + ";"));
    usleep(random() % 200);
    t.signal(SIGINT);
  }
  EXPECT_TRUE(t.prompt());
}

TEST(CtrlC, StopsACoroutineOfOperations) {
  expect_stops(
      "local co = coroutine.wrap(function() while true do coroutine.yield(x + 1) end end) "
      "while true do co() end");
}

TEST(CtrlC, StopsALongMatrixProduct) {
  expect_stops("local a = torch.ones(6000, 6000) while true do a:matmul(a) end");
}

TEST(CtrlC, StopsALongElementwiseChain) {
  expect_stops("local a = torch.ones(4000000) while true do a = (a:exp() + 1):log():tanh() end");
}

TEST(CtrlC, StopsASortInLua) {
  expect_stops(
      "local t = {} for i = 1, 300 do t[i] = -i end "
      "while true do table.sort(t, function(a, b) return a < b end) end");
}

TEST(CtrlC, StopsAMetamethodThatPrints) {
  expect_stops("return setmetatable({}, {__tostring = function() while true do end end})");
}

TEST(CtrlC, StopsAWaitingRead) { expect_stops("io.read() while true do end"); }

TEST(CtrlC, StopsALoopOfPrograms) {
  expect_stops("while true do os.execute('exec sleep 100') end");
}

TEST(CtrlC, StopsAReadFromAProgram) {
  expect_stops("while true do local p = io.popen('exec sleep 100') p:read() p:close() end");
}

TEST(CtrlC, StopsADataLoader) {
  expect_stops(
      "local set = setmetatable({get = function() return x + 1 end}, {__len = function() return "
      "1000000 end}) for batch in data.DataLoader(set, {batch_size = 4, shuffle = true})() do end");
}

TEST(CtrlC, RestoresTheModes) {
  expect_stops("torch.no_grad(function() while true do end end)");
  expect_stops("coroutine.wrap(function() torch.no_grad(function() while true do end end) end)()");
}

TEST(CtrlC, LeavesCoroutinesOfEarlierEntriesUsable) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(
      t.enter("g = coroutine.wrap(function() local i = 0 while true do i = i + 1 "
              "coroutine.yield(i) end end) print(g(), 'fir' .. 'st')",
              "1\tfirst"));
  t.type("io.write('be' .. 'gun\\n') while true do end\r");
  ASSERT_TRUE(t.see("begun"));
  t.watch(100);
  t.interrupt();
  ASSERT_TRUE(t.see("stopped") && t.prompt());
  ASSERT_TRUE(t.enter("print(g(), g(), 'nex' .. 't')", "2\t3\tnext"));
}

TEST(CtrlC, PressedAgainSaysWhatIsWaitedForAndTheThirdEnds) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  // A pattern that backtracks for ever inside Lua's library, where no hook runs.
  t.type(
      "io.write('be' .. 'gun\\n') io.flush() return string.find(('a'):rep(100000), ('.-'):rep(20) "
      ".. 'b')\r");
  ASSERT_TRUE(t.see("begun"));
  t.watch(200);
  t.interrupt();
  t.watch(200);
  t.interrupt();
  ASSERT_TRUE(t.see("Still waiting for find to end"));
  t.interrupt();
  EXPECT_EQ(t.exit_status(), 130);
}

TEST(CtrlC, StopsEachPartThatMayBeStoppedAloneAndNeverEndsTheProcess) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  t.type(
      "for i = 1, 4 do torch.until_interrupt(function() io.write('part', i, ' beg' .. 'un\\n') "
      "io.flush() while true do end end) end print('all par' .. 'ts')\r");
  for (const char* part : {"part1 begun", "part2 begun", "part3 begun", "part4 begun"}) {
    ASSERT_TRUE(t.see(part));
    t.interrupt();
  }
  ASSERT_TRUE(t.see("all parts"));
  ASSERT_TRUE(t.prompt());
}

std::string script(const std::string& name, const std::string& code) {
  const std::string path = temporary_directory() + "/" + name;
  std::ofstream(path) << code;
  return path;
}

TEST(CtrlC, EndsAScriptWithStatus130) {
  const std::string path = script("endless.lua", "print('begun')\nwhile true do\nend\n");
  Terminal t({.arguments = {path}});
  const termios before = t.settings();
  ASSERT_TRUE(t.see("begun"));
  t.watch(100);
  t.interrupt();
  ASSERT_TRUE(t.see("endless.lua"));
  ASSERT_TRUE(t.see("interrupted"));
  EXPECT_EQ(t.exit_status(), 130);
  EXPECT_EQ(t.settings().c_lflag, before.c_lflag);
}

TEST(CtrlC, OpensThePromptAfterAnInterruptedScriptWithTheOptionI) {
  const std::string path = script("endless2.lua", "kept = 41\nprint('begun')\nwhile true do end\n");
  Terminal t({.arguments = {"-i", path}});
  ASSERT_TRUE(t.see("begun"));
  t.watch(100);
  t.interrupt();
  ASSERT_TRUE(t.see("interrupted") && t.prompt());
  ASSERT_TRUE(t.enter("kept + 1", "42"));
}

TEST(CtrlC, InAScriptIsAnErrorThatAPcallCannotKeep) {
  const std::string path =
      script("stubborn.lua",
             "print('begun')\nwhile true do pcall(function() while true do end end) end\n");
  Terminal t({.arguments = {path}});
  ASSERT_TRUE(t.see("begun"));
  t.watch(100);
  t.interrupt();
  EXPECT_EQ(t.exit_status(), 130);
}

}  // namespace
