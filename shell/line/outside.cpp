// An entry in an external editor: a private file, the terminal handed over, the file removed.
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "shell/line/terminal.h"

extern char** environ;

namespace tycho::line {
namespace {

// A file that only we can read, gone when it goes.
class PrivateFile {
 public:
  PrivateFile() {
    const char* directory = std::getenv("TMPDIR");
    name_ = std::string(directory && *directory ? directory : "/tmp") + "/tycho-XXXXXX.lua";
    fd_ = mkostemps(name_.data(), 4, O_CLOEXEC);  // mode 0600
  }
  ~PrivateFile() {
    if (fd_ < 0) return;
    close(fd_);
    unlink(name_.c_str());
  }
  PrivateFile(const PrivateFile&) = delete;
  bool made() const { return fd_ >= 0; }
  const std::string& name() const { return name_; }

  bool fill(const std::string& text) const {
    size_t done = 0;
    while (done < text.size()) {
      const ssize_t n = write(fd_, text.data() + done, text.size() - done);
      if (n < 0 && errno != EINTR) return false;
      if (n > 0) done += static_cast<size_t>(n);
    }
    return true;
  }

  // By name: editors put a new file in the place of the old one.
  bool read_back(std::string* text) const {
    const int fd = open(name_.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    text->clear();
    char room[4096];
    for (ssize_t n; (n = read(fd, room, sizeof room)) > 0;)
      text->append(room, static_cast<size_t>(n));
    close(fd);
    return true;
  }

 private:
  std::string name_;
  int fd_;
};

// The exit status; the keys' signals are the editor's while it runs.
int run(const std::string& command, const std::string& file) {
  struct sigaction ignore = {}, old_interrupt, old_quit;
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGINT, &ignore, &old_interrupt);
  sigaction(SIGQUIT, &ignore, &old_quit);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults, none;
  sigemptyset(&defaults);
  for (int s : {SIGINT, SIGQUIT, SIGTSTP, SIGPIPE}) sigaddset(&defaults, s);
  sigemptyset(&none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  // The variable may hold options, so a shell takes it apart.
  std::string script = command + " \"$1\"", shell = "sh", option = "-c", zero = "tycho";
  std::string name = file;
  char* words[] = {shell.data(), option.data(), script.data(), zero.data(), name.data(), nullptr};
  pid_t child;
  int status = -1;
  if (posix_spawn(&child, "/bin/sh", nullptr, &attributes, words, environ) == 0)
    while (waitpid(child, &status, 0) < 0)
      if (errno != EINTR) {
        status = -1;
        break;
      }
  posix_spawnattr_destroy(&attributes);
  sigaction(SIGINT, &old_interrupt, nullptr);
  sigaction(SIGQUIT, &old_quit, nullptr);
  return status;
}

}  // namespace

bool edit_in_editor(std::string* text, std::string* message) {
  const char *visual = std::getenv("VISUAL"), *editor = std::getenv("EDITOR");
  const std::string command = visual && *visual ? visual : editor && *editor ? editor : "vi";
  const PrivateFile file;
  if (!file.made() || !file.fill(*text + "\n")) {
    *message = "cannot write " + file.name() + ": " + std::strerror(errno);
    return false;
  }
  if (run(command, file.name()) != 0) {
    *message = command + " failed; the entry is as it was";
    return false;
  }
  if (!file.read_back(text)) {
    *message = "cannot read " + file.name() + ": " + std::strerror(errno);
    return false;
  }
  text->resize(text->find_last_not_of('\n') + 1);
  return true;
}

}  // namespace tycho::line
