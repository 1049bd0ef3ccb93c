// Whatever ends a read, the terminal comes back as it was: by the destructor, at exit, by a signal.
#include "shell/line/terminal.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

namespace tycho::line {
namespace {

constexpr char kPasteOn[] = "\x1b[?2004h", kPasteOff[] = "\x1b[?2004l";

termios before;  // the terminal's settings outside of a read
std::atomic<bool> raw{false};
std::atomic<bool> resized{false}, continued{false}, stop_wanted{false};
int wake[2] = {-1, -1};  // signals write to it, so that a wait ends

void say(const char* s, size_t n) {
  if (write(1, s, n) < 0) return;
}

void on_event(int signal) {
  const int error = errno;
  (signal == SIGWINCH ? resized : signal == SIGCONT ? continued : stop_wanted) = true;
  if (write(wake[1], "x", 1) < 0) errno = error;
  errno = error;
}

constexpr int kEvents[] = {SIGWINCH, SIGCONT, SIGTSTP};
constexpr int kEnds[] = {SIGTERM, SIGHUP, SIGQUIT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr size_t kEventCount = std::size(kEvents), kEndCount = std::size(kEnds);
struct sigaction old_events[kEventCount], old_ends[kEndCount];

// The terminal first; then whoever listened before, or the end.
void on_end(int signal, siginfo_t* info, void*) {
  restore_terminal();
  for (size_t i = 0; i < kEndCount; ++i)
    if (kEnds[i] == signal) sigaction(signal, &old_ends[i], nullptr);
  // A fault happens again by itself, with its address; a signal that was sent has to be sent again.
  if (info->si_code <= 0) raise(signal);
}

void make_wake() {
  if (wake[0] >= 0) return;
  if (pipe2(wake, O_CLOEXEC | O_NONBLOCK) != 0) wake[0] = wake[1] = -1;
  std::atexit(restore_terminal);
}

}  // namespace

void restore_terminal() {
  if (!raw.exchange(false)) return;
  const int error = errno;
  say(kPasteOff, sizeof kPasteOff - 1);
  tcsetattr(0, TCSANOW, &before);
  errno = error;
}

namespace {

// rlwrap edits lines for the program that it started, and tells it so in no other way.
bool under_rlwrap() {
  char name[16] = {};
  const std::string file = "/proc/" + std::to_string(getppid()) + "/comm";
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t n = read(fd, name, sizeof name - 1);
  close(fd);
  return n > 0 && !std::strcmp(name, "rlwrap\n");
}

}  // namespace

bool can_edit() {
  const char *term = std::getenv("TERM"), *emacs = std::getenv("INSIDE_EMACS");
  if (!isatty(0) || !isatty(1) || !term || !*term || !std::strcmp(term, "dumb")) return false;
  static const bool edited = under_rlwrap();
  if (edited) return false;
  return !emacs || std::strstr(emacs, "term") || std::strstr(emacs, "eat");
}

WindowSize window_size() {
  winsize w = {};
  if (ioctl(1, TIOCGWINSZ, &w) != 0 || w.ws_col == 0) return {80, 24};
  return {w.ws_col, w.ws_row ? w.ws_row : 24};
}

RawMode::RawMode() {
  make_wake();
  enter();
}

RawMode::~RawMode() { leave(); }

void RawMode::enter() {
  if (raw) return;
  tcgetattr(0, &before);
  struct sigaction action = {};
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  action.sa_handler = on_event;
  for (size_t i = 0; i < kEventCount; ++i) sigaction(kEvents[i], &action, &old_events[i]);
  action.sa_flags = SA_SIGINFO;
  action.sa_handler = nullptr;
  action.sa_sigaction = on_end;
  for (size_t i = 0; i < kEndCount; ++i) {
    struct sigaction now = {};
    sigaction(kEnds[i], nullptr, &now);
    if (now.sa_sigaction == on_end)
      continue;  // a terminal that hung up left it: never after itself
    old_ends[i] = now;
    if (old_ends[i].sa_handler != SIG_IGN) sigaction(kEnds[i], &action, nullptr);
  }
  raw = true;
  set_again();
}

void RawMode::set_again() {
  termios mode = before;
  mode.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG | IEXTEN);
  // Without ICRNL: in pasted text, \r\n is one end of a line and \n\n are two.
  mode.c_iflag &= ~static_cast<tcflag_t>(IXON | ICRNL | INLCR | IGNCR | ISTRIP | BRKINT);
  mode.c_cc[VMIN] = 1;
  mode.c_cc[VTIME] = 0;
  tcsetattr(0, TCSADRAIN, &mode);
}

void RawMode::accept_pastes() { say(kPasteOn, sizeof kPasteOn - 1); }

void RawMode::leave() {
  if (!raw) return;
  say(kPasteOff, sizeof kPasteOff - 1);
  tcsetattr(0, TCSADRAIN, &before);
  raw = false;
  for (size_t i = 0; i < kEndCount; ++i)
    if (old_ends[i].sa_handler != SIG_IGN) sigaction(kEnds[i], &old_ends[i], nullptr);
  for (size_t i = 0; i < kEventCount; ++i) sigaction(kEvents[i], &old_events[i], nullptr);
}

void RawMode::stop() {
  leave();
  kill(0, SIGTSTP);
  continued = stop_wanted = false;
}

Happened wait_for_terminal(int milliseconds) {
  pollfd p[2] = {{0, POLLIN, 0}, {wake[0], POLLIN, 0}};
  Happened h;
  if (poll(p, 2, milliseconds) > 0) {
    h.input = p[0].revents != 0;
    char room[64];
    while (p[1].revents & POLLIN && read(wake[0], room, sizeof room) > 0) {
    }
  }
  h.resized = resized.exchange(false);
  h.continued = continued.exchange(false);
  h.stop = stop_wanted.exchange(false);
  return h;
}

bool input_waiting(int milliseconds) {
  pollfd p = {0, POLLIN, 0};
  return poll(&p, 1, milliseconds) > 0;
}

bool read_bytes(std::string* out, size_t most) {
  char room[4096];
  const ssize_t n = read(0, room, std::min(most, sizeof room));
  if (n > 0) out->assign(room, static_cast<size_t>(n));
  return n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN));
}

void write_bytes(const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = write(1, bytes.data() + done, bytes.size() - done);
    if (n >= 0) {
      done += static_cast<size_t>(n);
    } else if (errno == EAGAIN) {
      pollfd p = {1, POLLOUT, 0};
      poll(&p, 1, 100);
    } else if (errno != EINTR) {
      return;
    }
  }
}

bool terminal_reflows() {
  const char* term = std::getenv("TERM");
  const bool console = term && !std::strcmp(term, "linux");
  return !console && !std::getenv("XTERM_VERSION");
}

}  // namespace tycho::line
