// The session in a real terminal: wrong and cancelled entries, stops, the status line, what user
// code does to the terminal, the user's init.lua.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <fstream>

#include "tests/shell/terminal.h"

namespace {

TEST(Session, OpensWithTheVersionTheMachineAndWhereToBegin) {
  Terminal t;
  ASSERT_TRUE(t.see("tycho ") && t.see("Lua 5.4  cpu ") && t.see("? help   %learn lessons"));
  ASSERT_TRUE(t.see("[1]> ") && t.prompt());
  ASSERT_TRUE(t.enter("1 + 1", "2"));
  t.type("x");
  ASSERT_TRUE(t.see("x"));
  EXPECT_NE(t.all.find("[2]> "), std::string::npos);
}

TEST(Session, AWrongEntryIsPointedAtAndComesBackForEditing) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  t.type("x = = 42\r");
  ASSERT_TRUE(t.see("unexpected '='") && t.see("   x = = 42\r\n       ") && t.prompt());
  EXPECT_EQ(t.all.find("[2]> "), std::string::npos);  // it took no number
  t.type("\x04\x05; x\r");                            // the cursor stands on the wrong token
  ASSERT_TRUE(t.see("\r\n") && t.see("42") && t.prompt());
}

TEST(Session, ACancelledEntryIsCountedAndKeptInTheHistory) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  t.type("for i = 1, 3 do\r");
  ASSERT_TRUE(t.see("...> "));
  t.type("print(i * 7)");
  ASSERT_TRUE(t.see(")"));
  t.interrupt();
  ASSERT_TRUE(t.see("cancelled (2 lines kept in history)") && t.prompt());
  t.type("\x10");  // the entry before
  ASSERT_TRUE(t.see("for"));
  t.type("\x05 end\r");
  ASSERT_TRUE(t.see("21") && t.prompt());
}

TEST(Session, CtrlCTwiceOnAnEmptyPromptSaysHowToLeave) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  t.interrupt();
  ASSERT_TRUE(t.prompt());
  t.interrupt();
  ASSERT_TRUE(t.see("Ctrl-D") && t.prompt());
  ASSERT_TRUE(t.enter("6 * 7", "42"));
  t.type("%quit\r");
  EXPECT_EQ(t.exit_status(), 0);
}

TEST(Session, AStopSaysWhereAndForHowLong) {
  const std::string path = temporary_directory() + "/train.lua";
  std::ofstream(path) << "function train(n)\n  for i = 1, n do\n    steps = i\n  end\nend\n";
  Terminal t;
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("dofile('" + path + "')", ""));
  t.type("train(1e15)\r");
  t.watch(300);
  t.interrupt();
  ASSERT_TRUE(t.see("stopped in train (" + path + ":") && t.see(", after ") &&
              t.see(" s. Variables are intact.") && t.prompt());
  ASSERT_TRUE(t.enter("steps > 0", "true"));
}

// Nearly all the time goes into the prompt's own code, which answers for an unknown global.
TEST(Session, AStopWhileAnUnknownGlobalIsReadSaysWhere) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  t.type("function work() while not _G.done do end end work()\r");
  t.watch(300);
  t.interrupt();
  ASSERT_TRUE(t.see("stopped in work") && t.prompt());
}

TEST(Session, AStopInACoroutineSaysWhere) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  t.type("coroutine.wrap(function()\r  while true do end\r end)()\r");
  t.watch(300);
  t.interrupt();
  ASSERT_TRUE(t.see("stopped at [1]:2") && t.prompt());
}

TEST(Session, ALongEntryShowsAStatusLineThatGoesAway) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  t.type(
      "a = torch.ones(100, 100) function work() while not _G.done do a:matmul(a) end end work()\r");
  ASSERT_TRUE(t.see("\x1b[2m") && t.see(" s"));
  ASSERT_TRUE(t.see("matmul"));
  t.interrupt();
  ASSERT_TRUE(t.see("\r\x1b[K") && t.see("stopped in work") && t.prompt());
  t.type(
      "do local t = torch.perf_counter() repeat until torch.perf_counter() > t + 4 print('li' .. "
      "'ne') end\r");
  ASSERT_TRUE(t.see("2 s") && t.see("\r\x1b[Kline\r\n") && t.prompt());
}

TEST(Session, NoStatusLineStandsWhereSomebodyTypes) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  t.type("name = io.read()\r");
  ASSERT_TRUE(t.see("\r\n"));
  EXPECT_EQ(t.watch(3000).find(" s"), std::string::npos);
  t.type("Ada\r");
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("name", "Ada"));
}

TEST(Session, UserCodeCannotLeaveTheTerminalRaw) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("os.execute('stty raw -echo') print('do' .. 'ne')", "done"));
  t.type("io.read()\r");
  ASSERT_TRUE(t.see("\r\n"));
  t.watch(200);
  EXPECT_TRUE(t.settings().c_lflag & ICANON);
  EXPECT_TRUE(t.settings().c_lflag & ECHO);
}

TEST(Session, TheTerminalComesBackFromAnExitACrashAndTheThirdCtrlC) {
  for (const char* end : {"os.exit(3)", "os.exit(3, true)", "os.execute('kill -SEGV $PPID')",
                          "os.execute('kill -ABRT $PPID')", "os.execute('kill -TERM $PPID')"}) {
    SCOPED_TRACE(end);
    // The address sanitizer has a handler of its own for this signal.
    if (std::getenv("TYCHO_SANITIZED") && std::string(end).find("SEGV") != std::string::npos)
      continue;
    Terminal t;
    const termios before = t.settings();
    ASSERT_TRUE(t.prompt());
    t.type(std::string("os.execute('stty raw -echo') ") + end + "\r");
    EXPECT_NE(t.exit_status(), 0);
    EXPECT_EQ(t.settings().c_lflag, before.c_lflag);
    EXPECT_EQ(t.settings().c_iflag, before.c_iflag);
  }
}

TEST(Session, StopsWithCtrlZAndGoesOn) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  t.type("io.write('be' .. 'gun\\n') stop = nil while not stop do stop = io.open('" +
         temporary_directory() + "/go') end print('wo' .. 'ken')\r");
  ASSERT_TRUE(t.see("begun"));
  t.signal(SIGTSTP);
  t.watch(200);
  std::ofstream(temporary_directory() + "/go") << "1";
  t.watch(200);
  t.signal(SIGCONT);
  ASSERT_TRUE(t.see("woken") && t.prompt());
  ASSERT_TRUE(t.enter("6 * 7", "42"));
}

TEST(Session, RunsTheUsersInitFileAndSurvivesItsErrors) {
  const Launch launch = at_home("init");
  const std::string directory = launch.environment.at("HOME") + "/.config";
  mkdir(directory.c_str(), 0700);
  mkdir((directory + "/tycho").c_str(), 0700);
  std::ofstream(directory + "/tycho/init.lua") << "mine = 41\nerror('a bad init')\n";
  {
    Terminal t(launch);
    ASSERT_TRUE(t.see("a bad init") && t.prompt());
    ASSERT_TRUE(t.enter("mine + 1", "42"));
  }
  Launch clean = launch;
  clean.arguments = {"--clean"};
  Terminal t(clean);
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("_G.mine", "nil"));
  EXPECT_EQ(t.all.find("a bad init"), std::string::npos);
}

TEST(Session, NoColorGivesNoColours) {
  Terminal t({.environment = {{"NO_COLOR", "1"}}});
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("x = torch.tensor{1, 0/0, 2.5}; x, {1, 'a'}, print", "nan"));
  ASSERT_TRUE(t.enter("x + torch.ones(4)", "do not broadcast"));
  t.type("x = = 1\r");
  ASSERT_TRUE(t.see("unexpected '='") && t.prompt());
  for (size_t i = t.all.find("\x1b["); i != std::string::npos; i = t.all.find("\x1b[", i + 2)) {
    const size_t end = t.all.find_first_not_of("0123456789;?", i + 2);
    if (end == std::string::npos || t.all[end] != 'm') continue;
    for (const char* colour : {"30", "31", "32", "33", "34", "35", "36", "37"})
      EXPECT_EQ(t.all.substr(i, end - i).find(colour), std::string::npos) << t.all.substr(i, 20);
  }
}

TEST(Session, ADumbTerminalSeesNoEscapeByteWhateverHappens) {
  Terminal t({.environment = {{"TERM", "dumb"}}});
  ASSERT_TRUE(t.see("[1]> "));
  t.type("torch.ones(2) + torch.ones(3)\n");
  ASSERT_TRUE(t.see("broadcast") && t.see("[2]> "));
  t.type("x = = 1\n");
  ASSERT_TRUE(t.see("unexpected") && t.see("[2]> "));
  t.type("torch.randn(30, 40), {1, 'a'}, print\n");
  ASSERT_TRUE(t.see("[3]> "));
  t.type("?matmul\n");
  ASSERT_TRUE(t.see("[4]> "));
  t.type("while true do end\n");
  t.watch(2600);
  t.interrupt();
  ASSERT_TRUE(t.see("stopped") && t.see("[5]> "));
  t.type("\x04");
  EXPECT_EQ(t.exit_status(), 0);
  EXPECT_EQ(t.all.find('\x1b'), std::string::npos);
}

TEST(Session, AFortyColumnWindowHoldsTheFirstLineAndErrors) {
  Terminal t({.columns = 40});
  ASSERT_TRUE(t.prompt());
  const std::string head = without_escapes(t.all.substr(0, t.all.find("[1]> ")));
  size_t column = 0;
  for (char c : head.substr(0, head.rfind("lessons"))) {
    column = c == '\n' || c == '\r' ? 0 : column + 1;
    EXPECT_LE(column, 40u) << head;
  }
}

TEST(Session, APasteOfAWholeSessionRunsEntryByEntry) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  t.type(
      "\x1b[200~[1]> x = 20\n[2]> x\n20\n[3]> for i = 1, 2 do\n...>   x = x + 11\n...> end\n[4]> "
      "x\n\x1b[201~\r");
  ASSERT_TRUE(t.see("\r\n") && t.see("20") && t.see("42") && t.prompt());
  ASSERT_TRUE(t.enter("_, __", "42"));
}

}  // namespace
