// Runs tycho under forkpty, with a home of its own so that histories do not mix.
#include "tests/shell/terminal.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>

namespace {

constexpr int kPatience = 20'000;  // milliseconds: the machine may be busy

class Directory : public testing::Environment {
 public:
  void SetUp() override {
    char name[] = "/tmp/tycho-shell-XXXXXX";
    path = mkdtemp(name);
  }
  void TearDown() override { std::filesystem::remove_all(path); }
  static inline std::string path;
};
[[maybe_unused]] const auto* const directory =
    testing::AddGlobalTestEnvironment(new Directory);  // GoogleTest owns it

int64_t now() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

}  // namespace

std::string temporary_directory() { return Directory::path; }

std::string program() {
  const char* given = std::getenv("TYCHO");
  return given ? given : TYCHO_PROGRAM;
}

std::string without_escapes(std::string s) {
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '\x1b') {
      out += s[i];
      continue;
    }
    if (i + 1 < s.size() && s[i + 1] == '[')
      for (i += 2; i < s.size() && (s[i] < '@' || s[i] > '~'); ++i) {
      }
  }
  return out;
}

Terminal::Terminal(const Launch& launch) {
  winsize size = {};
  size.ws_row = 24;
  size.ws_col = static_cast<unsigned short>(launch.columns);
  std::vector<std::string> words = {program()};
  words.insert(words.end(), launch.arguments.begin(), launch.arguments.end());
  std::map<std::string, std::string> environment = {{"TERM", "xterm"},
                                                    {"HOME", temporary_directory()},
                                                    {"PATH", std::getenv("PATH")},
                                                    {"OMP_NUM_THREADS", "2"}};
  for (const char* name : {"ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS"})
    if (const char* value = std::getenv(name)) environment[name] = value;
  for (const auto& [name, value] : launch.environment) environment[name] = value;
  std::vector<std::string> pairs;
  for (const auto& [name, value] : environment) pairs.push_back(name + "=" + value);
  std::vector<char*> argv, envp;
  for (std::string& w : words) argv.push_back(w.data());
  for (std::string& p : pairs) envp.push_back(p.data());
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  pid_ = forkpty(&fd_, nullptr, nullptr, &size);
  if (pid_ == 0) {
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
}

Terminal::~Terminal() {
  if (fd_ >= 0) close(fd_);
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

void Terminal::type(const std::string& keys) {
  for (size_t done = 0; done < keys.size();) {
    const ssize_t n = write(fd_, keys.data() + done, keys.size() - done);
    if (n < 0) return;
    done += static_cast<size_t>(n);
  }
}

void Terminal::signal(int number) { kill(pid_, number); }

void Terminal::resize(int columns, int rows) {
  winsize size = {};
  size.ws_col = static_cast<unsigned short>(columns);
  size.ws_row = static_cast<unsigned short>(rows);
  ioctl(fd_, TIOCSWINSZ, &size);
}

bool Terminal::read_some(int milliseconds) {
  pollfd p = {fd_, POLLIN, 0};
  if (poll(&p, 1, milliseconds) <= 0) return false;
  char room[4096];
  const ssize_t n = read(fd_, room, sizeof room);
  if (n <= 0) return false;
  all.append(room, static_cast<size_t>(n));
  return true;
}

bool Terminal::see(const std::string& text) {
  for (const int64_t end = now() + kPatience;;) {
    const size_t at = all.find(text, seen_);
    if (at != all.npos) {
      seen_ = at + text.size();
      return true;
    }
    const int64_t left = end - now();
    if (left <= 0 || !read_some(static_cast<int>(left))) {
      ADD_FAILURE() << "\"" << text << "\" did not come; the end of what did: "
                    << all.substr(seen_ > 200 ? seen_ - 200 : 0);
      return false;
    }
  }
}

bool Terminal::enter(const std::string& entry, const std::string& text) {
  type(entry + "\r");
  return see("\r\n") && see(text) && prompt();
}

std::string Terminal::watch(int milliseconds) {
  const size_t from = all.size();
  for (const int64_t end = now() + milliseconds; now() < end;)
    if (!read_some(static_cast<int>(end - now())) && now() < end) usleep(1000);
  return all.substr(from);
}

int Terminal::exit_status() {
  for (const int64_t end = now() + kPatience; now() < end;) {
    read_some(10);
    int status;
    if (waitpid(pid_, &status, WNOHANG) == pid_) {
      pid_ = -1;
      while (read_some(50)) {
      }
      return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
  }
  return -1;
}

termios Terminal::settings() const {
  termios t = {};
  tcgetattr(fd_, &t);
  return t;
}

Launch at_home(const std::string& name, int columns) {
  const std::string home = temporary_directory() + "/" + name;
  mkdir(home.c_str(), 0700);
  return {.environment = {{"HOME", home}}, .columns = columns};
}
