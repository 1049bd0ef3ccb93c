// The prompt in a real terminal: editing, history, narrow windows, dumb terminals.
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>

#include "tests/shell/terminal.h"

namespace {

const char kUp[] = "\x1b[A", kDown[] = "\x1b[B", kLeft[] = "\x1b[D", kHome[] = "\x1b[H";

TEST(Prompt, EndsOnCtrlDAndRestoresTheTerminal) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  EXPECT_FALSE(t.settings().c_lflag & ICANON);  // raw while it reads
  t.type("\x04");
  EXPECT_EQ(t.exit_status(), 0);
  EXPECT_TRUE(t.settings().c_lflag & ICANON);
  EXPECT_TRUE(t.settings().c_lflag & ECHO);
}

TEST(Prompt, RestoresTheTerminalWhenItIsEndedFromOutside) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  EXPECT_FALSE(t.settings().c_lflag & ICANON);
  t.signal(SIGTERM);
  EXPECT_EQ(t.exit_status(), 128 + SIGTERM);
  EXPECT_TRUE(t.settings().c_lflag & ICANON);
}

TEST(Prompt, AnInterruptFromOutsideAtTheEmptyPromptChangesNothing) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  t.signal(SIGINT);
  t.watch(100);
  ASSERT_TRUE(t.enter("6 * 7", "42"));
}

TEST(Prompt, GivesTheTerminalBackWhileAnEntryRuns) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  t.type("io.write('na' .. 'me?\\n') print('got ' .. io.read())\r");
  ASSERT_TRUE(t.see("name?"));
  EXPECT_TRUE(t.settings().c_lflag & ICANON);
  t.type("Ada\n");
  ASSERT_TRUE(t.see("got Ada"));
  ASSERT_TRUE(t.prompt());
}

TEST(Prompt, CtrlCDropsTheEntryBegun) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  t.type("print('never'");
  t.interrupt();
  ASSERT_TRUE(t.see("^C") && t.prompt());
  ASSERT_TRUE(t.enter("print('al' .. 'ive')", "alive"));
  t.type("for i = 1, 3 do\r");
  ASSERT_TRUE(t.see("...> "));
  t.interrupt();
  ASSERT_TRUE(t.see("^C") && t.prompt());
  ASSERT_TRUE(t.enter("6 * 7", "42"));
}

TEST(Prompt, GoesOnAfterErrors) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("torch.ones(2) + torch.ones(3)", "do not broadcast"));
  ASSERT_TRUE(t.enter("x = = 1", "unexpected '='"));
  t.interrupt();
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("error({code = 7})", "{code = 7}"));
  ASSERT_TRUE(t.enter("error(setmetatable({}, {__tostring = function() error('no') end}))",
                      "__tostring fails"));
  ASSERT_TRUE(t.enter("6 * 7", "42"));
}

TEST(Prompt, ARejectedEntryStaysForCorrectionButLinesThatAnEditorSendsReplaceIt) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("x = = 1", "unexpected '='"));
  ASSERT_TRUE(t.enter("print('ins' .. 'tead')", "instead"));  // a whole line at once
  ASSERT_TRUE(t.enter("y = 4 +* 2", "unexpected '*'"));
  t.type("\x7f");  // somebody mends it: the + goes, as the cursor stands at the *
  t.watch(50);
  t.type("\r");
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("print('y' .. ' is', y)", "y is\t8"));
}

TEST(Prompt, CtrlCOnAnEmptyLineLeavesInnerPrompts) {
  Terminal t(at_home("inner"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("%predict torch.ones(2):sum()", "predict> "));
  t.interrupt();
  ASSERT_TRUE(t.see("Left") && t.see("[2]> "));
  ASSERT_TRUE(t.enter("%learn shapes", "lesson> "));
  t.interrupt();
  ASSERT_TRUE(t.see("Left at 1/") && t.see("[3]> "));
  t.type("%demo topk\r");
  ASSERT_TRUE(t.see("any key goes on") && t.see(":topk(2)"));
  t.watch(100);
  t.interrupt();
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("6 * 7", "42"));
}

TEST(Prompt, TheFirstLineSaysHowToLeave) {
  Terminal t;
  ASSERT_TRUE(t.see("Ctrl-D leaves"));
}

TEST(Prompt, KeepsItsHistoryFromOneSessionToTheNext) {
  const Launch launch = at_home("history");
  {
    Terminal t(launch);
    ASSERT_TRUE(t.prompt());
    ASSERT_TRUE(t.enter("print('fir' .. 'st')", "first"));
    ASSERT_TRUE(t.enter("print('sec' .. 'ond')", "second"));
    t.type("\x04");
    EXPECT_EQ(t.exit_status(), 0);
  }
  Terminal t(launch);
  ASSERT_TRUE(t.prompt());
  t.type(std::string(kUp) + kUp + "\r");
  ASSERT_TRUE(t.see("\r\n") && t.see("first") && t.prompt());
  t.type(std::string(kUp) + kUp + kDown + "\r");
  ASSERT_TRUE(t.see("\r\n") && t.see("first") && t.prompt());
  struct stat file = {};
  ASSERT_EQ(stat((launch.environment.at("HOME") + "/.local/state/tycho/history").c_str(), &file),
            0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
}

TEST(Prompt, SaysOnceThatItsHistoryCannotBeKept) {
  const Launch launch = at_home("no-history");
  std::filesystem::create_directories(launch.environment.at("HOME") +
                                      "/.local/state/tycho/history");
  Terminal t(launch);
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("6 * 7", "note: history is not kept: "));
  ASSERT_TRUE(t.enter("6 * 8", "48"));
  EXPECT_EQ(t.all.find("not kept"), t.all.rfind("not kept"));
}

TEST(Prompt, SurvivesALimitOnTheSizeOfFiles) {
  rlimit before = {};
  getrlimit(RLIMIT_FSIZE, &before);
  rlimit none = before;
  none.rlim_cur = 0;
  setrlimit(RLIMIT_FSIZE, &none);  // the program inherits it
  Terminal t(at_home("limited"));
  setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("6 * 7", "note: history is not kept: "));
  ASSERT_TRUE(t.enter("6 * 8", "48"));
}

TEST(Prompt, EditsCharactersOfSeveralBytes) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  // One backspace takes the whole character; the cursor steps over whole characters.
  t.type("print('\xc3\xa4\xe2\x82\xac\x7f', #'\xc3\xa4x'");
  t.type(std::string(kLeft) + kLeft + "\x7f");  // the x's left neighbour, two bytes
  t.type("\x05)\r");
  ASSERT_TRUE(t.see("\r\n") && t.see("\xc3\xa4\t") && t.prompt());
  EXPECT_NE(without_escapes(t.all).find("\xc3\xa4\t1"), std::string::npos) << t.all;
}

TEST(Prompt, EditsInsideTheLine) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  t.type(std::string("+ 40)\x01print(2 ") + kHome + "\x06\x02\x05\r");
  ASSERT_TRUE(t.see("\r\n") && t.see("42") && t.prompt());
  t.type("print(1) junk\x17\x15print('ag' .. 'ain')\r");
  ASSERT_TRUE(t.see("\r\n") && t.see("again") && t.prompt());
}

TEST(Prompt, WritesNoEscapeByteToADumbTerminal) {
  Terminal t({.environment = {{"TERM", "dumb"}}});
  ASSERT_TRUE(t.see("> "));
  t.type("print(6 * 7, torch.ones(2, 2))\n");
  ASSERT_TRUE(t.see("42"));
  ASSERT_TRUE(t.see("> "));
  t.type("\x04");
  EXPECT_EQ(t.exit_status(), 0);
  EXPECT_EQ(t.all.find('\x1b'), std::string::npos);
}

TEST(Prompt, LeavesTheEditingToRlwrap) {
  prctl(PR_SET_NAME, "rlwrap");  // the program that started it, as it sees it
  Terminal t;
  const bool prompt = t.see("[1]> ");
  prctl(PR_SET_NAME, "shell_tests");
  ASSERT_TRUE(prompt);
  EXPECT_TRUE(t.settings().c_lflag & ICANON);
  t.type("6 * 7\n");
  ASSERT_TRUE(t.see("42"));
  ASSERT_TRUE(t.see("[2]> "));
  EXPECT_EQ(t.all.find("\x1b[?2004h"), std::string::npos);
}

TEST(Prompt, CtrlCAtADumbTerminalDropsTheEntry) {
  Terminal t({.environment = {{"TERM", "dumb"}}});
  ASSERT_TRUE(t.see("> "));
  t.type("print('ne");
  t.watch(100);
  t.interrupt();
  ASSERT_TRUE(t.see("> "));
  t.type("print('al' .. 'ive')\n");
  ASSERT_TRUE(t.see("alive"));
}

TEST(Prompt, SurvivesUnknownKeysAndBrokenSequences) {
  Terminal t;
  ASSERT_TRUE(t.prompt());
  t.type("\x1b[99;99~\x1b[Z\x1bOP\x1b[1;5C\x1b[1;5D\x80\xff\x15");
  ASSERT_TRUE(t.enter("6 * 7", "42"));
}

}  // namespace
