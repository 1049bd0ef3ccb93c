// The prompt's commands in a real terminal: programs with Ctrl-C and Ctrl-Z, measuring that is
// stopped, the editor, history between sessions, narrow windows.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <csignal>
#include <fstream>

#include "tests/shell/terminal.h"

namespace {

TEST(Commands, CtrlCGoesToTheProgramAndNotToTheSession) {
  Terminal t(at_home("program"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("kept = 41", ""));
  t.type("!echo st''arted; sleep 30\r");
  ASSERT_TRUE(t.see("started"));
  t.watch(100);  // until sleep runs: dash loses signals while it starts a program
  t.interrupt();
  ASSERT_TRUE(t.see("ended by Ctrl-C"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("kept + 1", "42"));
}

TEST(Commands, AProgramReadsTheTerminalAndTellsItsStatus) {
  Terminal t(at_home("reads"));
  ASSERT_TRUE(t.prompt());
  t.type("!read word; echo go''t $word; exit 3\r");
  t.watch(100);
  t.type("hello\n");
  ASSERT_TRUE(t.see("got hello"));
  ASSERT_TRUE(t.see("status 3"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("6 * 7", "42"));
}

TEST(Commands, AStoppedProgramStopsTheSessionAndBothGoOn) {
  Terminal t(at_home("stop"));
  ASSERT_TRUE(t.prompt());
  t.type("!echo ru''ns; sleep 0.5; echo do''ne\r");
  ASSERT_TRUE(t.see("runs"));
  t.watch(100);
  t.type("\x1a");
  t.watch(200);
  t.signal(SIGCONT);
  ASSERT_TRUE(t.see("done"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("6 * 7", "42"));
}

TEST(Commands, AProgramThatDiesInRawModeLeavesTheTerminalUsable) {
  Terminal t(at_home("raw"));
  ASSERT_TRUE(t.prompt());
  t.type("!stty raw -echo; kill -9 $$\r");
  ASSERT_TRUE(t.see("ended by kill"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("6 * 7", "42"));
}

TEST(Commands, CtrlCInProfShowsWhatRanUntilThen) {
  Terminal t(at_home("prof"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("x = torch.ones(50, 50)", ""));
  t.type("%prof print('be' .. 'gun') while true do x:matmul(x) end\r");
  ASSERT_TRUE(t.see("begun"));
  t.watch(200);
  t.interrupt();
  ASSERT_TRUE(t.see("matmul"));
  ASSERT_TRUE(t.see("stopped by Ctrl-C"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("x:sum():item()", "2500"));
}

TEST(Commands, CtrlCInBenchComesBackToThePrompt) {
  Terminal t(at_home("bench"));
  ASSERT_TRUE(t.prompt());
  t.type("%bench while true do end\r");
  t.watch(200);
  t.interrupt();
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("6 * 7", "42"));
}

TEST(Commands, CtrlCStopsAScriptOfRunAndNamesItsLine) {
  const Launch launch = at_home("run");
  const std::string file = launch.environment.at("HOME") + "/endless.lua";
  std::ofstream(file) << "made = 7\nprint('lo' .. 'op')\nwhile true do end\n";
  Terminal t(launch);
  ASSERT_TRUE(t.prompt());
  t.type("%run " + file + "\r");
  ASSERT_TRUE(t.see("loop"));
  t.interrupt();
  ASSERT_TRUE(t.see("endless.lua:"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("made * 6", "42"));
}

TEST(Commands, EditOpensTheEditorInTheTerminalAndRunsWhatItWrote) {
  Launch launch = at_home("edit");
  const std::string editor = launch.environment.at("HOME") + "/editor.sh";
  std::ofstream(editor) << "#!/bin/sh\nstty -a </dev/tty >/dev/null && sed -i s/20/21/ \"$1\"\n";
  chmod(editor.c_str(), 0700);
  launch.environment["VISUAL"] = editor;
  Terminal t(launch);
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("n = 20 * 2", ""));
  t.type("%edit 1\r");
  ASSERT_TRUE(t.see("n = 21 * 2"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("n", "42"));
}

TEST(Commands, RestartBeginsANewSessionInTheSameTerminal) {
  Terminal t(at_home("restart"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("gone = 41", ""));
  t.type("%restart\r");
  ASSERT_TRUE(t.see("tycho "));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("rawget(_G, 'gone') == nil and 'al' .. 'ive'", "alive"));
  t.type("while true do end\r");
  t.watch(200);
  t.interrupt();
  ASSERT_TRUE(t.see("stopped"));
  ASSERT_TRUE(t.prompt());
  t.type("\x04");
  EXPECT_EQ(t.exit_status(), 0);
}

TEST(Commands, HistFindsTheEntriesOfEarlierSessions) {
  const Launch launch = at_home("hist");
  {
    Terminal t(launch);
    ASSERT_TRUE(t.prompt());
    ASSERT_TRUE(t.enter("very_special_name = 5", ""));
    t.type("\x04");
    ASSERT_EQ(t.exit_status(), 0);
  }
  Terminal t(launch);
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("%hist special", "very_special_name = 5"));
  ASSERT_TRUE(t.enter("also_special = 6", ""));
  t.type("%hist special\r");
  ASSERT_TRUE(t.see("[2]") && t.see("also_special = 6") &&
              t.prompt());  // its number, to say %rerun 2
}

TEST(Commands, DebugEvaluatesInAFrameAndKeepsTheLastRealError) {
  Terminal t(at_home("debug-in-frame"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter(
      "outer = 41; function step(batch) local k, b = 3, batch * 2; return b:matmul(outer) end",
      ""));
  ASSERT_TRUE(t.enter("x = torch.ones(2, 3); step(x)", "error"));
  ASSERT_TRUE(t.enter("%debug 1 'k is ' .. k + outer", "k is 44"));
  ASSERT_TRUE(t.enter("%debug batch.shape", "[2, 3]"));
  ASSERT_TRUE(t.enter("%debug 2 batch", "has no batch"));
  ASSERT_TRUE(t.enter("%run no_such_file.lua", "No such file"));
  ASSERT_TRUE(t.enter("%debug nosuch", "has no nosuch"));
  ASSERT_TRUE(t.enter("collectgarbage() collectgarbage()", ""));
  ASSERT_TRUE(t.enter("%debug b", "was not kept; %debug on, then %rerun 2 keeps it"));
  ASSERT_TRUE(t.enter("%debug", "in [2]"));
  ASSERT_TRUE(t.enter("%debug on", "keep the values"));
  ASSERT_TRUE(t.enter("%rerun 2", "error"));
  ASSERT_TRUE(t.enter("%debug 'b adds up to ' .. b:sum():item()", "b adds up to 12"));
}

TEST(Commands, DebugLooksAtAScriptThatFailedBeforeThePrompt) {
  Launch launch = at_home("debug-script");
  const std::string path = launch.environment.at("HOME") + "/fails.lua";
  std::ofstream(path) << "local function step(a)\n  local double = a * 2\n  error('no way')\nend\n"
                         "step(torch.ones(3))\n";
  launch.arguments = {"-i", path};
  Terminal t(launch);
  ASSERT_TRUE(t.see("no way") && t.prompt());
  ASSERT_TRUE(t.enter("%debug", "fails.lua:3"));
  ASSERT_TRUE(t.enter("%debug double:sum():item()", "6"));
  ASSERT_TRUE(t.enter("%bt", "in step"));
}

TEST(Commands, DebugShowsTheFramesOfTheLastErrorWithShapes) {
  Terminal t(at_home("debug"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(
      t.enter("function step(batch) local k = 3; local r = batch:matmul(torch.ones(7, 7)); "
              "return r end",
              ""));
  ASSERT_TRUE(t.enter("step(torch.ones(2, 3))", "error"));
  ASSERT_TRUE(t.enter("%debug", "step"));
  const std::string text = without_escapes(t.all);
  EXPECT_NE(text.find("batch  f32 [2, 3]"), text.npos);
  EXPECT_EQ(text.find("1 1 1"), text.npos);  // values only when they were asked for before
  ASSERT_TRUE(t.enter("%debug on", "keep the values"));
  ASSERT_TRUE(t.enter("step(torch.ones(2, 3) * 5)", "error"));
  ASSERT_TRUE(t.enter("%debug 1", "5"));
  ASSERT_TRUE(t.enter("%bt full", "step"));
  ASSERT_TRUE(t.enter("%debug 99", "usage"));
}

int widest_line(const std::string& text) {
  int columns = 0, most = 0;
  for (unsigned char c : text) {
    if (c == '\n' || c == '\r')
      columns = 0;
    else if ((c & 0xc0) != 0x80)
      most = std::max(most, ++columns);
  }
  return most;
}

TEST(Commands, NothingIsWiderThanAWindowOf40Columns) {
  Terminal t(at_home("narrow", 40));
  ASSERT_TRUE(t.prompt());
  t.type("W = torch.randn(300, 200); Wt = W:t()\r");
  ASSERT_TRUE(t.prompt());
  for (const std::string command :
       {"%who", "%mem", "%bits 0.1", "%layout W, Wt", "%prof W:sum()", "%", "%free", "%hist"}) {
    const size_t from = t.all.size();
    t.type(command + "\r");
    ASSERT_TRUE(t.prompt()) << command;
    std::string text = without_escapes(t.all.substr(from));
    text = text.substr(std::min(text.find('\n'), text.size()));
    EXPECT_LE(widest_line(text), 40) << command << "\n" << text;
  }
}

TEST(Commands, NoColourAndDumbTerminalsGetPlainText) {
  Launch launch = at_home("dumb");
  launch.environment["TERM"] = "dumb";
  Terminal t(launch);
  ASSERT_TRUE(t.see("> "));
  t.type("x = torch.ones(3)\n%who\n%bits 0.1\n");
  ASSERT_TRUE(t.see("error -0.024 %"));
  EXPECT_EQ(t.all.find('\x1b'), t.all.npos);
}

}  // namespace
