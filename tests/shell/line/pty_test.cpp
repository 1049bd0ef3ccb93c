// The editor in a real pseudo-terminal: raw mode, signals, stops, an external editor, plain input.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>

#include "shell/line/editor.h"
#include "tests/shell/line/desk.h"

using namespace tycho::line;

namespace {

constexpr int kPatience = 20'000;  // milliseconds: the machine may be busy

// Reads entries until the end and says what it got.
void program(const std::function<void(const std::string&)>& evaluate) {
  const Reader reader = small_reader();
  History history("");
  std::string entry;
  while (true) {
    const Ended ended = read_entry({"> ", "...> "}, reader, history, &entry);
    if (ended == Ended::End) break;
    if (ended == Ended::Cancel) {
      std::printf(" cancelled %zu\n", entry.size());
    } else {
      history.add(entry);
      std::printf("got <%s>\n", entry.c_str());
      if (evaluate) evaluate(entry);
    }
    std::fflush(stdout);
    entry.clear();
  }
  std::printf("bye\n");
  std::fflush(stdout);
}

class Pty {
 public:
  struct Options {
    std::map<std::string, std::string> environment = {};
    std::function<void(const std::string&)> evaluate = nullptr;
    int columns = 80, rows = 24;
    bool under_shell = false;  // with job control
  };
  explicit Pty(const Options& o) : screen(o.columns, o.rows) {
    winsize size = {};
    size.ws_row = static_cast<unsigned short>(o.rows);
    size.ws_col = static_cast<unsigned short>(o.columns);
    std::fflush(stdout);
    pid_ = forkpty(&fd_, nullptr, nullptr, &size);
    if (pid_ != 0) return;
    setenv("TERM", "xterm", 1);
    for (const char* name : {"INSIDE_EMACS", "NO_COLOR", "VISUAL", "EDITOR"}) unsetenv(name);
    for (const auto& [name, value] : o.environment) setenv(name.c_str(), value.c_str(), 1);
    if (o.under_shell) be_shell(o.evaluate);
    struct sigaction nothing = {};
    nothing.sa_handler = [](int) {};
    sigaction(SIGINT, &nothing, nullptr);  // as the program does it: reads are interrupted
    program(o.evaluate);
    std::_Exit(0);
  }
  ~Pty() {
    close(fd_);
    kill(-pid_, SIGKILL);
    if (pid_ > 0) kill(pid_, SIGKILL), waitpid(pid_, nullptr, 0);
  }
  Pty(const Pty&) = delete;

  void type(const std::string& keys) {
    for (size_t done = 0; done < keys.size();) {
      const ssize_t n = write(fd_, keys.data() + done, keys.size() - done);
      if (n <= 0) return;
      done += static_cast<size_t>(n);
    }
  }
  void signal(int number) { kill(pid_, number); }
  void resize(int columns, int rows) {
    winsize size = {};
    size.ws_row = static_cast<unsigned short>(rows);
    size.ws_col = static_cast<unsigned short>(columns);
    screen.resize(columns, rows);
    ioctl(fd_, TIOCSWINSZ, &size);
  }
  bool raw() const {
    termios t = {};
    tcgetattr(fd_, &t);
    return !(t.c_lflag & (ICANON | ECHO));
  }
  // Reads what is there.
  void drain() {
    char room[4096];
    for (pollfd p = {fd_, POLLIN, 0}; poll(&p, 1, 0) > 0;) {
      const ssize_t n = read(fd_, room, sizeof room);
      if (n <= 0) return;
      bytes.append(room, static_cast<size_t>(n));
      screen.feed(std::string_view(room, static_cast<size_t>(n)));
    }
  }
  bool see(const std::function<bool()>& there, const std::string& what) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatience);
    while (!there()) {
      pollfd p = {fd_, POLLIN, 0};
      if (poll(&p, 1, 20) > 0) {
        char room[4096];
        const ssize_t n = read(fd_, room, sizeof room);
        if (n > 0) {
          bytes.append(room, static_cast<size_t>(n));
          screen.feed(std::string_view(room, static_cast<size_t>(n)));
          continue;
        }
        if (there()) break;
        usleep(1000);
      }
      if (std::chrono::steady_clock::now() > end) {
        ADD_FAILURE() << what << " did not come; the screen:\n" << screen.lines();
        return false;
      }
    }
    return true;
  }
  // The last rows of everything shown so far.
  bool see_end(const std::string& text) {
    return see([&] { return screen.lines().ends_with(text); }, text);
  }
  bool see_somewhere(const std::string& text) {
    return see([&] { return screen.lines().find(text) != std::string::npos; }, text);
  }
  bool see_raw(bool wanted) {
    return see([&] { return raw() == wanted; }, "the other mode");
  }
  int exit_status() {
    int status = -1;
    see([&] { return waitpid(pid_, &status, WNOHANG) == pid_; }, "the end");
    pid_ = -1;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }

  Emulator screen;
  std::string bytes;

 private:
  // The little of a shell that Ctrl-Z needs: stops come back to it, Enter goes on.
  static void be_shell(const std::function<void(const std::string&)>& evaluate) {
    std::signal(SIGTTOU, SIG_IGN);
    termios own = {};
    tcgetattr(0, &own);
    const pid_t job = fork();
    if (job == 0) {
      setpgid(0, 0);
      tcsetpgrp(0, getpid());
      std::signal(SIGTTOU, SIG_DFL);
      program(evaluate);
      std::_Exit(0);
    }
    setpgid(job, job);
    tcsetpgrp(0, job);
    int status;
    while (waitpid(job, &status, WUNTRACED) == job && WIFSTOPPED(status)) {
      tcsetpgrp(0, getpgrp());
      termios now = {};
      tcgetattr(0, &now);
      std::printf("stopped %s\n", now.c_lflag & ICANON ? "tidily" : "raw");
      std::fflush(stdout);
      tcsetattr(0, TCSADRAIN, &own);
      char c = 0;
      while (read(0, &c, 1) == 1 && c != '\n') {
      }
      tcsetpgrp(0, job);
      kill(-job, SIGCONT);
    }
    std::_Exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
  }

  int fd_ = -1;
  pid_t pid_ = -1;
};

TEST(Pty, ReadsEntriesAndLeavesTheTerminalAsItWas) {
  Pty t({});
  ASSERT_TRUE(t.see_end(">"));
  EXPECT_TRUE(t.see_raw(true));
  t.type("f {\r1\r}\r");
  ASSERT_TRUE(t.see_end("> f {\n...>   1\n...> }\ngot <f {\n  1\n}>\n>"));
  t.type("\x04");
  EXPECT_EQ(t.exit_status(), 0);
  EXPECT_FALSE(t.raw());
  EXPECT_FALSE(t.screen.pastes_bracketed());
  EXPECT_EQ(t.screen.trouble, "");
}

TEST(Pty, BytesOneByOneMakeTheSame) {
  Pty t({.columns = 40});
  ASSERT_TRUE(t.see_end(">"));
  const std::string keys =
      "one two\x1b[1;5D\xe4\xbd\xa0\xe5\xa5\xbd \x1b[D\x1b[D\x7f\x1b[200~a\rb\x1b[201~!\r";
  for (char c : keys) {
    t.type(std::string(1, c));
    usleep(3000);
  }
  ASSERT_TRUE(t.see_end("got <one a\nb!\xe5\xa5\xbd two>\n>"));
}

TEST(Pty, CtrlCGivesTheTextBack) {
  Pty t({});
  ASSERT_TRUE(t.see_end(">"));
  t.type("f {\rabc\x03");
  ASSERT_TRUE(t.see_end("> f {\n...>   abc^C cancelled 9\n>"));
  t.type("\x03");
  ASSERT_TRUE(t.see_end("> ^C cancelled 0\n>"));
}

TEST(Pty, ASignalThatEndsItRestoresTheTerminal) {
  for (int number : {SIGTERM, SIGHUP, SIGSEGV, SIGABRT}) {
    Pty t({});
    ASSERT_TRUE(t.see_end(">"));
    EXPECT_TRUE(t.see_raw(true));
    t.signal(number);
    t.exit_status();
    EXPECT_FALSE(t.raw()) << number;
  }
}

TEST(Pty, AnEndFromInsideTheReadRestoresTheTerminal) {
  Pty t({.environment = {}, .evaluate = [](const std::string&) {
           Reader reader;
           reader.hint = [](const std::string& s, size_t) -> std::vector<std::string> {
             if (s == "x") exit(7);
             return {};
           };
           History history("");
           std::string entry;
           read_entry({"inner> ", ""}, reader, history, &entry);
         }});
  ASSERT_TRUE(t.see_end(">"));
  t.type("go\r");
  ASSERT_TRUE(t.see_end("inner>"));
  t.type("x");
  EXPECT_EQ(t.exit_status(), 7);
  EXPECT_FALSE(t.raw());
}

TEST(Pty, InputThatComesEarlyIsNotLost) {
  Pty t({.environment = {}, .evaluate = [](const std::string& entry) {
           if (entry != "read") return;
           char line[100] = "";
           if (std::fgets(line, sizeof line, stdin)) std::printf("line %s", line);
         }});
  ASSERT_TRUE(t.see_end(">"));
  t.type("read\rfor me\r");
  ASSERT_TRUE(t.see_end("line for me\n>"));
  t.type("1\r2\r");
  ASSERT_TRUE(t.see_end("got <2>\n>"));
}

TEST(Pty, FollowsTheWindow) {
  Pty t({.columns = 60});
  ASSERT_TRUE(t.see_end(">"));
  t.type("abcdefghijklmnopqrstuvwxyz");
  ASSERT_TRUE(t.see_end("xyz"));
  t.resize(20, 24);
  ASSERT_TRUE(t.see_end("> abcdefghijklmnopqr\nstuvwxyz"));
  t.type("!");
  ASSERT_TRUE(t.see_end("> abcdefghijklmnopqr\nstuvwxyz!"));
  t.resize(50, 3);
  ASSERT_TRUE(t.see_end("> abcdefghijklmnopqrstuvwxyz!"));
}

TEST(Pty, CtrlZStopsAndComesBack) {
  Pty t({.environment = {}, .evaluate = nullptr, .columns = 80, .rows = 24, .under_shell = true});
  ASSERT_TRUE(t.see_end(">"));
  t.type("half");
  ASSERT_TRUE(t.see_end("> half"));
  t.type("\x1a");
  ASSERT_TRUE(t.see_end("stopped tidily"));
  EXPECT_FALSE(t.raw());
  t.type("\n");
  ASSERT_TRUE(t.see_end("stopped tidily\n\n> half"));
  EXPECT_TRUE(t.see_raw(true));
  t.type(" more\r");
  ASSERT_TRUE(t.see_end("got <half more>\n>"));
}

TEST(Pty, AnExternalEditorEditsTheEntry) {
  char name[] = "/tmp/tycho-pty-XXXXXX";
  const std::string directory = mkdtemp(name);
  Pty t({.environment = {{"TMPDIR", directory},
                         {"EDITOR", "f() { stat -c %a \"$1\" > " + directory +
                                        "/mode; stty -a | grep -o ' icanon' >> " + directory +
                                        "/mode; sed -i s/one/two/ \"$1\"; }; f"}}});
  ASSERT_TRUE(t.see_end(">"));
  t.type("one {\r1 }\x18\x05");
  ASSERT_TRUE(t.see_end("> two {\n...>   1 }"));
  t.type("\r");
  ASSERT_TRUE(t.see_end("got <two {\n  1 }>\n>"));
  std::ifstream in(directory + "/mode");
  std::string mode, cooked;
  in >> mode >> cooked;
  EXPECT_EQ(mode, "600");
  EXPECT_EQ(cooked, "icanon");
  size_t left = 0;
  for (const auto& file : std::filesystem::directory_iterator(directory))
    left += file.path().filename() != "mode";
  EXPECT_EQ(left, 0u);
  std::filesystem::remove_all(directory);
}

TEST(Pty, AnExternalEditorThatFailsChangesNothing) {
  Pty t({.environment = {{"EDITOR", "false"}}});
  ASSERT_TRUE(t.see_end(">"));
  t.type("one\x18\x05");
  ASSERT_TRUE(t.see_end("false failed; the entry is as it was\n> one"));
}

TEST(Pty, OutputWithoutANewlineIsKept) {
  Pty t({.environment = {}, .evaluate = [](const std::string&) { std::printf("no newline"); }});
  ASSERT_TRUE(t.see_end(">"));
  t.type("x\r");
  ASSERT_TRUE(t.see_end("got <x>\nno newline%\n>"));
}

TEST(Pty, ALargePasteIsOneEntry) {
  Pty t({});
  ASSERT_TRUE(t.see_end(">"));
  std::string lines;
  for (int i = 0; i < 5000; ++i) lines += "line " + std::to_string(i) + "\r";
  t.type("\x1b[200~");
  // The terminal's own queue is small: both sides have to move.
  for (size_t at = 0; at < lines.size(); at += 1024) {
    t.type(lines.substr(at, 1024));
    usleep(1000);
  }
  t.type("\x1b[201~");
  ASSERT_TRUE(t.see_end("line 4998\n...> line 4999"));
  t.type("\r");
  ASSERT_TRUE(t.see_end("line 4998\nline 4999>\n>"));
}

TEST(Pty, SurvivesRandomBytesWindowsAndSignals) {
  Pty t({.environment = {{"EDITOR", "true"}}});
  ASSERT_TRUE(t.see_end(">"));
  std::mt19937 random(7);
  const std::vector<std::string> pieces = {
      "x",      "f {",  "}",    "\r",        "\t",        "\x1b[",       "\x1b[A",
      "\x1b[B", "\x1b", "\x12", "\x19",      "\x0b",      "\x18",        "\x05",
      "\x1a",   "\x0c", "\x03", "\x1b[200~", "\x1b[201~", "\xe4\xbd\xa0"};
  for (int i = 0; i < 2000; ++i) {
    std::string piece = pieces[random() % pieces.size()];
    if (random() % 4 == 0) piece = std::string(1, static_cast<char>(random()));
    if (piece != "\x04") t.type(piece);
    if (random() % 50 == 0)
      t.resize(static_cast<int>(1 + random() % 90), static_cast<int>(1 + random() % 30));
    if (random() % 50 == 0) t.signal(random() % 2 ? SIGCONT : SIGINT);
    t.drain();
  }
  t.resize(80, 24);
  // Whatever is open closes: a paste, a search, a quoted key, the entry.
  t.type("\x1b[201~\x1b[201~\x07\x07\x03");
  ASSERT_TRUE(t.see_somewhere("cancelled"));
  t.type("\x1b[201~\x07last\r");
  ASSERT_TRUE(
      t.see([&] { return t.screen.lines().find("got <last") != std::string::npos; }, "an end"));
  t.type("\x04");
  EXPECT_EQ(t.exit_status(), 0);
  EXPECT_FALSE(t.raw());
}

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
    program(nullptr);
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
