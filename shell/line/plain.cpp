// Reading without a terminal that can move its cursor: lines as they come, and no escape byte.
// Through stdio, so that what follows an entry is still there for the entry to read.
#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "shell/line/terminal.h"

namespace tycho::line {
namespace {

enum class Got { Line, End, Interrupt };

// Ctrl-C is waited for together with the bytes, so that it is not lost between two reads.
class Interrupts {
 public:
  Interrupts() {
    sigset_t interrupt;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    pthread_sigmask(SIG_BLOCK, &interrupt, &before_);
    fd_ = signalfd(-1, &interrupt, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~Interrupts() {
    if (fd_ >= 0) close(fd_);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  Interrupts(const Interrupts&) = delete;

  // False when Ctrl-C came instead of bytes.
  bool wait() const {
    if (stdin->_IO_read_ptr < stdin->_IO_read_end) return true;  // stdio has some already
    pollfd p[2] = {{0, POLLIN, 0}, {fd_, POLLIN, 0}};
    while (poll(p, 2, -1) < 0 && errno == EINTR) {
    }
    signalfd_siginfo info;
    return !(p[1].revents & POLLIN) || read(fd_, &info, sizeof info) != sizeof info;
  }

 private:
  sigset_t before_;
  int fd_;
};

Got read_line(const Interrupts& interrupts, std::string* text) {
  const size_t before = text->size();
  while (true) {
    if (!interrupts.wait()) return Got::Interrupt;
    const int c = std::getc(stdin);
    if (c == EOF) {
      std::clearerr(stdin);
      return text->size() > before ? Got::Line : Got::End;
    }
    if (c == '\n') {
      if (text->size() > before && text->back() == '\r') text->pop_back();
      return Got::Line;
    }
    *text += static_cast<char>(c);
  }
}

}  // namespace

Ended read_plain(const Prompt& prompt, const Reader& reader, std::string* entry) {
  const bool prompts = isatty(0) || std::getenv("INSIDE_EMACS");
  const Interrupts interrupts;
  entry->clear();
  for (bool first = true;; first = false) {
    if (prompts) std::fputs((first ? prompt.first : prompt.next).c_str(), stdout);
    std::fflush(stdout);
    switch (read_line(interrupts, entry)) {
      case Got::End:
        // What is there goes to the caller; whether it is an entry is known only now.
        if (!entry->empty()) entry->pop_back();
        if (isatty(0)) std::fputc('\n', stdout);
        return Ended::End;
      case Got::Interrupt:
        return Ended::Cancel;
      case Got::Line:
        break;
    }
    if (!reader.is_done || reader.is_done(*entry)) return Ended::Entry;
    *entry += '\n';
  }
}

}  // namespace tycho::line
