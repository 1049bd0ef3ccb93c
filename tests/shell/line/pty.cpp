// forkpty without exec: the child is the editor and nothing else.
#include "tests/shell/line/pty.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "shell/line/editor.h"
#include "tests/shell/line/desk.h"

namespace {

constexpr int kPatience = 20'000;  // milliseconds: the machine may be busy

// The little of a shell that Ctrl-Z needs: stops come back to it, Enter goes on.
[[noreturn]] void be_shell(const Evaluate& evaluate) {
  std::signal(SIGTTOU, SIG_IGN);
  termios own = {};
  tcgetattr(0, &own);
  const pid_t job = fork();
  if (job == 0) {
    setpgid(0, 0);
    tcsetpgrp(0, getpid());
    std::signal(SIGTTOU, SIG_DFL);
    read_entries(evaluate);
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

winsize size_of(int columns, int rows) {
  winsize size = {};
  size.ws_row = static_cast<unsigned short>(rows);
  size.ws_col = static_cast<unsigned short>(columns);
  return size;
}

}  // namespace

void read_entries(const Evaluate& evaluate) {
  using namespace tycho::line;
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

Pty::Pty(const Options& o) : screen(o.columns, o.rows) {
  const winsize size = size_of(o.columns, o.rows);
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
  read_entries(o.evaluate);
  std::_Exit(0);
}

Pty::~Pty() {
  close(fd_);  // ends what still runs there
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void Pty::type(const std::string& keys) {
  for (size_t done = 0; done < keys.size();) {
    const ssize_t n = write(fd_, keys.data() + done, keys.size() - done);
    if (n <= 0) return;
    done += static_cast<size_t>(n);
  }
}

void Pty::signal(int number) {
  if (pid_ > 0) kill(pid_, number);
}

void Pty::hang_up() {
  close(fd_);
  fd_ = -1;
}

void Pty::resize(int columns, int rows) {
  const winsize size = size_of(columns, rows);
  screen.resize(columns, rows);
  ioctl(fd_, TIOCSWINSZ, &size);
}

bool Pty::raw() const {
  termios t = {};
  tcgetattr(fd_, &t);
  return !(t.c_lflag & (ICANON | ECHO));
}

bool Pty::read_some(int milliseconds) {
  pollfd p = {fd_, POLLIN, 0};
  if (poll(&p, 1, milliseconds) <= 0) return false;
  char room[4096];
  const ssize_t n = read(fd_, room, sizeof room);
  if (n <= 0) return false;
  bytes.append(room, static_cast<size_t>(n));
  screen.feed(std::string_view(room, static_cast<size_t>(n)));
  return true;
}

void Pty::drain() {
  while (read_some(0)) {
  }
}

bool Pty::see(const std::function<bool()>& there, const std::string& what) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatience);
  while (!there()) {
    if (read_some(20)) continue;
    usleep(1000);
    if (std::chrono::steady_clock::now() > end) {
      ADD_FAILURE() << what << " did not come; the screen:\n" << screen.lines();
      return false;
    }
  }
  return true;
}

bool Pty::see_end(const std::string& text) {
  return see([&] { return screen.lines().ends_with(text); }, text);
}

bool Pty::see_somewhere(const std::string& text) {
  return see([&] { return screen.lines().find(text) != std::string::npos; }, text);
}

bool Pty::see_raw(bool wanted) {
  return see([&] { return raw() == wanted; }, "the other mode");
}

int Pty::exit_status(const std::string& keys) {
  int status = -1, looks = 0;
  const auto ended = [&] {
    if (looks++ % 20 == 0) type(keys);
    return waitpid(pid_, &status, WNOHANG) == pid_;
  };
  if (!see(ended, "the end")) return -1;
  pid_ = -1;
  while (read_some(200)) {  // what it wrote last, until the terminal is closed
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
