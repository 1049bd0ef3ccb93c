// Lessons in a real terminal: the way of a pupil through one, Ctrl-C, narrow windows, leaving.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/shell/terminal.h"

namespace {

Launch learn(const std::string& lesson, const std::string& name, int columns = 80) {
  const std::string home = temporary_directory() + "/" + name;
  mkdir(home.c_str(), 0700);
  return {.arguments = {"learn", lesson},
          .environment = {{"HOME", home}, {"XDG_STATE_HOME", home}},
          .columns = columns};
}

TEST(Lesson, PredictsTriesATaskAndIsToldANearMiss) {
  Terminal t(learn("broadcasting", "lesson_way"));
  ASSERT_TRUE(t.see("Broadcasting: how shapes line up"));
  ASSERT_TRUE(t.see("1/15"));
  ASSERT_TRUE(t.see("Before running: what is"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("66", "Nothing is added up"));
  ASSERT_TRUE(t.enter("11 22 33", "yes."));
  ASSERT_TRUE(t.enter("[2 4 6]", "3/15"));
  ASSERT_TRUE(t.enter("3", "The row stretches to the table"));
  ASSERT_TRUE(t.enter("2 3", "4/15"));
  ASSERT_TRUE(t.enter("14", "5/15"));
  ASSERT_TRUE(t.enter("204 205 206", "6/15"));
  ASSERT_TRUE(t.enter("3 4", "=  3  4"));
  EXPECT_NE(without_escapes(t.all).find("yes.   p  3  1\r\n       q  .  4\r\n       =  3  4"),
            std::string::npos);
  ASSERT_TRUE(t.enter("function table_of(n) return (torch.arange(n)+1) * (torch.arange(n)+1) end",
                      "so nothing"));
  ASSERT_TRUE(t.enter("p:sum()", "i64 []  3"));
  ASSERT_TRUE(t.enter("?view", "see also"));
  ASSERT_TRUE(
      t.enter("function table_of(n) return (torch.arange(n)+1):view(n,1) * (torch.arange(n)+1) end",
              "right, for n = 1 to 8."));
  ASSERT_TRUE(t.enter("%quit", "Left at 8/15"));
  ASSERT_TRUE(
      t.enter("table_of(2):sum():item()", "no variable \"table_of\""));  // it was the lesson's
}

TEST(Lesson, ItsEntriesAreInTheHistoryOnlyWhileItRunsUnlessTheyAreWanted) {
  const char kUp[] = "\x1b[A";
  Launch launch = learn("shapes", "lesson_history");
  launch.arguments.clear();
  Terminal t(launch);
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("print('be' .. 'fore')", "before"));
  ASSERT_TRUE(t.enter("%learn shapes", "Enter goes"));
  ASSERT_TRUE(t.enter("print('in' .. 'side')", "inside"));
  t.type(std::string(kUp) + "\r");
  ASSERT_TRUE(t.see("\r\n") && t.see("inside") && t.prompt());
  ASSERT_TRUE(t.enter("%quit", "Left at"));
  t.type(std::string(kUp) + kUp + "\r");  // past %learn
  ASSERT_TRUE(t.see("\r\n") && t.see("before") && t.prompt());
  ASSERT_TRUE(t.enter("%learn history on", "go into the history"));
  ASSERT_TRUE(t.enter("%learn shapes", "Enter goes"));
  ASSERT_TRUE(t.enter("print('wan' .. 'ted')", "wanted"));
  ASSERT_TRUE(t.enter("%quit", "Left at"));
  t.type(std::string(kUp) + kUp + "\r");
  ASSERT_TRUE(t.see("\r\n") && t.see("wanted") && t.prompt());
}

TEST(Lesson, AnAnswerThatIsNoLuaIsTakenAtOnceAndAWrongEntryComesBack) {
  Terminal t(learn("shapes", "lesson_answers"));
  ASSERT_TRUE(t.see("Enter goes"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("", "2/16"));
  ASSERT_TRUE(t.enter("[5", "3/16"));
  ASSERT_TRUE(t.enter("3 x 4", "4/16"));
  t.type("1 +* 2\r");
  ASSERT_TRUE(t.see("unexpected") && t.prompt());
  t.type("\x05\x15");  // to its end, and all before it is gone
  ASSERT_TRUE(t.enter("12", "5/16"));
}

TEST(Lesson, CtrlCStopsATaskThatNeverEndsAndTheLessonGoesOn) {
  Launch launch = learn("views", "lesson_stop");
  launch.arguments = {};
  Terminal t(launch);
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("%learn views 13", "Write muted"));
  t.type("function muted(x) print('be' .. 'gun') while true do end end\r");
  ASSERT_TRUE(t.see("begun"));
  t.interrupt();
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("%hint", "Assigning to x[1]"));
  ASSERT_TRUE(t.enter("%skip", "14/"));
}

TEST(Lesson, FitsIntoFortyColumns) {
  Terminal t(learn("broadcasting", "lesson_narrow", 40));
  ASSERT_TRUE(t.see("1/15"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("%skip", "2/15"));
  const std::string screen = without_escapes(t.all);
  size_t from = screen.find("1/15");
  const size_t last = screen.find("Before running");
  ASSERT_NE(from, std::string::npos);
  while (from < last) {
    const size_t end = screen.find("\r\n", from);
    EXPECT_LE(end - from, 40u) << screen.substr(from, end - from);
    from = end + 2;
  }
}

TEST(Lesson, TheEndOfInputLeavesAndTheNextTimeTakesItUp) {
  const Launch launch = learn("shapes", "lesson_return");
  {
    Terminal t(launch);
    ASSERT_TRUE(t.see("1/16"));
    ASSERT_TRUE(t.prompt());
    ASSERT_TRUE(t.enter("", "2/16"));
    ASSERT_TRUE(t.enter("5", "3/16"));
    t.type("\x04");
    EXPECT_EQ(t.exit_status(), 0);
  }
  Terminal t(launch);
  ASSERT_TRUE(t.see("You were at 3/16"));
  ASSERT_TRUE(t.prompt());
  ASSERT_TRUE(t.enter("#more", "5"));
}

}  // namespace
