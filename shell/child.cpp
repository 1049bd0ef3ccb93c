// Programs run from the prompt. At a terminal a program becomes its foreground process group, so
// that Ctrl-C reaches it alone; when it is stopped (Ctrl-Z), we stop with it, and `fg` goes on with
// both.
#include "shell/child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

extern char** environ;

namespace tycho::shell {
namespace {

constexpr int kTerminal = 0;

// A signal's action while it lives.
class Ignored {
 public:
  explicit Ignored(int signal) : signal_(signal) {
    struct sigaction ignore = {};
    ignore.sa_handler = SIG_IGN;
    sigaction(signal, &ignore, &before_);
  }
  ~Ignored() { sigaction(signal_, &before_, nullptr); }
  Ignored(const Ignored&) = delete;

 private:
  int signal_;
  struct sigaction before_;
};

int spawn(const std::vector<std::string>& argv, bool own_group, pid_t* pid) {
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t defaults, none;
  sigemptyset(&none);
  sigemptyset(&defaults);
  for (int s : {SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE, SIGXFSZ})
    sigaddset(&defaults, s);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           static_cast<short>(POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK |
                                              (own_group ? POSIX_SPAWN_SETPGROUP : 0)));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)
  // In the child, before it runs: it may read at once.
  if (own_group) posix_spawn_file_actions_addtcsetpgrp_np(&actions, kTerminal);
#endif
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const int error = posix_spawnp(pid, words[0], &actions, &attributes, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error;
}

}  // namespace

ChildEnd run_child(const std::vector<std::string>& argv) {
  std::fflush(nullptr);
  const pid_t own_group = getpgrp();
  const bool handover = isatty(kTerminal) && tcgetpgrp(kTerminal) == own_group;
  termios settings;
  const bool known = handover && tcgetattr(kTerminal, &settings) == 0;
  const Ignored output(SIGTTOU);  // taking the terminal back from the background
  const Ignored interrupt(SIGINT), quit(SIGQUIT);
  ChildEnd end;
  pid_t pid = 0;
  if (const int error = spawn(argv, handover, &pid)) {
    if (handover) tcsetpgrp(kTerminal, own_group);
    end.status = 127;
    end.failure = argv[0] + ": " + std::strerror(error);
    return end;
  }
  if (handover) {
    setpgid(pid, pid);
    tcsetpgrp(kTerminal, pid);
  }
  int status = 0;
  while (true) {
    if (waitpid(pid, &status, handover ? WUNTRACED : 0) < 0) {
      if (errno == EINTR) continue;
      break;
    }
    if (!WIFSTOPPED(status)) break;
    tcsetpgrp(kTerminal, own_group);
    kill(0, SIGSTOP);  // here we wait for `fg`
    tcsetpgrp(kTerminal, pid);
    kill(-pid, SIGCONT);
  }
  if (handover) tcsetpgrp(kTerminal, own_group);
  if (WIFSIGNALED(status)) {
    end.signal = WTERMSIG(status);
    end.status = 128 + end.signal;
    if (known) tcsetattr(kTerminal, TCSADRAIN, &settings);  // it had no time to do so
  } else {
    end.status = WEXITSTATUS(status);
  }
  return end;
}

int lua_child(lua_State* L) {
  const ChildEnd end = run_child({"/bin/sh", "-c", luaL_checkstring(L, 1)});
  if (!end.failure.empty()) {
    lua_pushlstring(L, end.failure.data(), end.failure.size());
    return lua_error(L);
  }
  lua_pushinteger(L, end.status);
  if (end.signal)
    lua_pushinteger(L, end.signal);
  else
    lua_pushnil(L);
  return 2;
}

int lua_setenv(lua_State* L) {
  setenv(luaL_checkstring(L, 1), luaL_checkstring(L, 2), 1);
  return 0;
}

int lua_temporary(lua_State* L) {
  const char* directory = std::getenv("TMPDIR");
  std::string name =
      std::string(directory && *directory ? directory : "/tmp") + "/tycho-XXXXXX.lua";
  const int fd = mkostemps(name.data(), 4, O_CLOEXEC);  // mode 0600
  if (fd < 0) return luaL_error(L, "%s: %s", name.c_str(), std::strerror(errno));
  close(fd);
  lua_pushlstring(L, name.data(), name.size());
  return 1;
}

int lua_restart(lua_State* L) {
  std::vector<std::string> words;
  std::ifstream line("/proc/self/cmdline");
  for (std::string word; std::getline(line, word, '\0');) words.push_back(word);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);
  for (int s : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGPIPE, SIGTSTP, SIGCONT, SIGWINCH})
    std::signal(s, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execv("/proc/self/exe", argv.data());
  return luaL_error(L, "cannot begin anew: %s", std::strerror(errno));
}

int lua_environment(lua_State* L) {
  lua_newtable(L);
  for (int i = 0; environ[i]; ++i) {
    lua_pushstring(L, environ[i]);
    lua_rawseti(L, -2, i + 1);
  }
  return 1;
}

}  // namespace tycho::shell
