// Child processes as Lua values: the same program, started anew by posix_spawn from the main thread
// (a child ends with the thread that made it), with one connection to its parent. What they run and
// how they report is written in Lua (torch/multiprocessing).
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>

#include "bindings/core/interrupt.h"
#include "bindings/processes/processes.h"
#include "bindings/processes/socket.h"
#include "bindings/tools/check.h"
#include "engine/base/interrupt.h"
#include "engine/dist/types.h"

extern char** environ;

namespace tycho::lua {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

const char kChild[] = "tycho.child_process";
const char kTogether[] = "tycho.children";
constexpr int kSliceMs = 50;  // within which Ctrl-C is seen
constexpr int kControl = 3;   // the child's descriptor of the connection to its parent

struct Child {
  pid_t pid = -1;
  dist::Descriptor ended;  // a pidfd: readable at the end
  std::string name;
  bool daemon = false, reaped = false;
  int status = 0;
};

// Those that are not known to have ended, for the end of this process.
struct Children {
  std::mutex mutex;
  std::deque<std::shared_ptr<Child>> all;
};
Children& children() {
  static Children* const c = new Children;  // outlives what runs after main
  return *c;
}

// Has it ended? Waits at most so long.
bool has_ended(Child& child, int ms) {
  if (child.reaped) return true;
  pollfd look{child.ended.get(), POLLIN, 0};
  poll(&look, 1, ms);
  if (waitpid(child.pid, &child.status, WNOHANG) == 0) return false;
  child.reaped = true;
  child.ended.reset();
  const std::lock_guard lock(children().mutex);
  std::erase_if(children().all, [&](const auto& c) { return c.get() == &child; });
  return true;
}

// As Python counts: minus the signal that ended it.
int exit_code(const Child& child) {
  return WIFEXITED(child.status) ? WEXITSTATUS(child.status) : -WTERMSIG(child.status);
}

std::deque<std::shared_ptr<Child>> living() {
  const std::lock_guard lock(children().mutex);
  return children().all;
}

// Ends them: SIGTERM, and SIGKILL for those that do not mind it.
void end_all(const std::vector<std::shared_ptr<Child>>& list) {
  constexpr auto kPatience = milliseconds(3000);
  for (const auto& child : list)
    if (!has_ended(*child, 0)) kill(child->pid, SIGTERM);
  const auto give_up = Clock::now() + kPatience;
  for (const auto& child : list)
    while (!has_ended(*child, 10) && Clock::now() < give_up) continue;
  for (const auto& child : list)
    if (!has_ended(*child, 0)) kill(child->pid, SIGKILL);
  for (const auto& child : list)
    while (!has_ended(*child, kSliceMs)) continue;
}

// The process ends: of a program that ended well, those that are no daemons are waited for; the
// others get SIGTERM, and SIGKILL when they do not mind it.
void end_children(int status, void*) {
  constexpr auto kSayAfter = milliseconds(10000);
  signal(SIGINT, SIG_DFL);  // Ctrl-C ends the waiting, and with this process its children
  const auto began = Clock::now();
  bool said = status != 0;
  for (const auto& child : living())
    while (status == 0 && !child->daemon && !has_ended(*child, kSliceMs)) {
      if (said || Clock::now() - began < kSayAfter) continue;
      said = true;
      std::fprintf(stderr, "note: waiting for %s (pid %d) to end; Ctrl-C ends it\n",
                   child->name.c_str(), static_cast<int>(child->pid));
    }
  const auto rest = living();
  end_all({rest.begin(), rest.end()});
}

const std::shared_ptr<Child>& child_at(lua_State* L) {
  auto* child = static_cast<std::shared_ptr<Child>*>(luaL_testudata(L, 1, kChild));
  TYCHO_CHECK(Kind::Argument, child && *child, "_child: wants a child process");
  return *child;
}

// This process's environment with the fields of the table at `i`: "NAME=value" each.
std::vector<std::string> environment(lua_State* L, int i) {
  std::vector<std::string> own;
  lua_pushnil(L);
  while (lua_istable(L, i) && lua_next(L, i)) {
    lua_pushvalue(L, -2);
    TYCHO_CHECK(Kind::Argument, lua_type(L, -1) == LUA_TSTRING && lua_isstring(L, -2),
                "_spawn: the environment is a table of texts by their names");
    own.push_back(std::string(lua_tostring(L, -1)) + "=" + lua_tostring(L, -2));
    lua_pop(L, 2);
  }
  const size_t set = own.size();
  for (char** e = environ; *e; ++e) {
    const std::string_view entry = *e;
    const auto same = [&](const std::string& o) {
      return entry.substr(0, entry.find('=') + 1) == std::string_view(o).substr(0, o.find('=') + 1);
    };
    if (std::none_of(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(set), same))
      own.emplace_back(entry);
  }
  return own;
}

struct Actions {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  Actions() {
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
  }
  ~Actions() {
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
  }
};

// _spawn(end of a connection, name, environment, daemon): the child.
int spawn(lua_State* L) {
  const Handle* control = to_handle(L, 1);
  TYCHO_CHECK(Kind::Argument, control && *control, "_spawn: wants the end of a connection");
  const std::string name(check_text(L, 2, "_spawn"));
  TYCHO_CHECK(Kind::Value, syscall(SYS_gettid) == getpid(),
              "Process: processes start from the main thread, and this is another one");
  std::vector<std::string> entries = environment(L, 3);
  std::vector<char*> env;
  for (std::string& e : entries) env.push_back(e.data());
  env.push_back(nullptr);
  std::string number = std::to_string(kControl), parent = std::to_string(getpid());
  std::string words[] = {"tycho", "--process", number, parent, name};
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);

  auto child = std::make_shared<Child>();
  child->name = name;
  child->daemon = lua_toboolean(L, 4);
  Actions actions;
  sigset_t none, defaults;
  sigemptyset(&none);
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGINT);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setflags(&actions.attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  posix_spawnattr_setsigmask(&actions.attributes, &none);
  posix_spawnattr_setsigdefault(&actions.attributes, &defaults);
  posix_spawn_file_actions_addopen(&actions.files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions.files, (*control)->get(), kControl);
  posix_spawn_file_actions_addclosefrom_np(&actions.files, kControl + 1);
  static const int registered = on_exit(end_children, nullptr);
  (void)registered;
  const int failed = posix_spawn(&child->pid, "/proc/self/exe", &actions.files, &actions.attributes,
                                 argv.data(), env.data());
  if (failed == 0)
    child->ended = dist::Descriptor(static_cast<int>(syscall(SYS_pidfd_open, child->pid, 0)));
  if (failed == 0 && !child->ended) {
    kill(child->pid, SIGKILL);
    waitpid(child->pid, nullptr, 0);
  }
  if (failed != 0 || !child->ended)
    throw dist::DistError(
        {dist::Reason::System,
         {},
         format("%s cannot start: %s", name.c_str(), std::strerror(failed ? failed : errno))});
  {
    const std::lock_guard lock(children().mutex);
    children().all.push_back(child);
  }
  new (lua_newuserdatauv(L, sizeof(std::shared_ptr<Child>), 0))
      std::shared_ptr<Child>(std::move(child));
  luaL_setmetatable(L, kChild);
  return 1;
}

// child:wait(seconds): its exit code, or nil when it has not ended by then.
int child_wait(lua_State* L) {
  const auto child = child_at(L);
  const double seconds = check_seconds(L, 2, "_child");
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(seconds));
  for (;;) {
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
    if (has_ended(*child, static_cast<int>(std::clamp<int64_t>(left, 0, kSliceMs)))) break;
    check_interrupt();
    if (Clock::now() >= until) return 0;
  }
  lua_pushinteger(L, exit_code(*child));
  return 1;
}

// child:kill(signal)
int child_kill(lua_State* L) {
  const auto child = child_at(L);
  if (!has_ended(*child, 0)) kill(child->pid, static_cast<int>(check_integer(L, 2, "_child")));
  return 0;
}
int child_pid(lua_State* L) {
  lua_pushinteger(L, child_at(L)->pid);
  return 1;
}
int child_gc(lua_State* L) {
  if (auto* child = static_cast<std::shared_ptr<Child>*>(luaL_testudata(L, 1, kChild)))
    child->reset();
  return 0;
}

// _together(): a scope; processes that are added to it end with it when it ends in an error.
using Together = std::vector<std::shared_ptr<Child>>;

int together(lua_State* L) {
  new (lua_newuserdatauv(L, sizeof(Together), 0)) Together;
  luaL_setmetatable(L, kTogether);
  return 1;
}
Together& together_at(lua_State* L) {
  auto* list = static_cast<Together*>(luaL_testudata(L, 1, kTogether));
  TYCHO_CHECK(Kind::Argument, list, "_together: wants a scope of processes");
  return *list;
}
int together_add(lua_State* L) {
  Together& list = together_at(L);
  const auto* child = static_cast<std::shared_ptr<Child>*>(luaL_testudata(L, 2, kChild));
  TYCHO_CHECK(Kind::Argument, child && *child, "_together: wants a child process");
  list.push_back(*child);
  return 0;
}
// together:stop(): ends them now.
int together_stop(lua_State* L) {
  end_all(together_at(L));
  return 0;
}
int together_gc(lua_State* L) {
  if (auto* list = static_cast<Together*>(luaL_testudata(L, 1, kTogether))) {
    list->~Together();
    new (list) Together;
  }
  return 0;
}

// _living_children(seconds): how many have not ended; waits so long for one that does.
int living_children(lua_State* L) {
  const double seconds = lua_isnoneornil(L, 1) ? 0.0 : check_seconds(L, 1, "_living_children");
  const auto until = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double>(seconds));
  for (;;) {
    const auto now = living();
    std::vector<pollfd> ends;
    for (const auto& child : now) ends.push_back({child->ended.get(), POLLIN, 0});
    const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
    if (left > 0 && !ends.empty())
      poll(ends.data(), ends.size(), static_cast<int>(std::min<int64_t>(left, kSliceMs)));
    bool ended = now.empty();
    for (const auto& child : now) ended |= has_ended(*child, 0);
    if (ended || left <= 0) break;
    check_interrupt();
  }
  lua_pushinteger(L, static_cast<lua_Integer>(living().size()));
  return 1;
}

// _child_begins(descriptor, parent's pid): in the child, before all else. The connection to the
// parent; nothing when there is no such parent (any more).
int child_begins(lua_State* L) {
  const auto fd = static_cast<int>(check_integer(L, 1, "_child_begins"));
  const auto parent = static_cast<pid_t>(check_integer(L, 2, "_child_begins"));
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent || fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) return 0;
  dist::raise_descriptor_limit();
  push_handle(L, std::make_shared<dist::Descriptor>(fd));
  return 1;
}

int process_id(lua_State* L) {
  lua_pushinteger(L, getpid());
  return 1;
}
int cpu_count(lua_State* L) {
  lua_pushinteger(L, std::max<long>(1, sysconf(_SC_NPROCESSORS_ONLN)));
  return 1;
}

}  // namespace

int close_children(lua_State* L) {
  auto* list = static_cast<Together*>(luaL_testudata(L, 1, kTogether));
  if (list && !lua_isnoneornil(L, 2)) end_all(*list);
  return 0;
}

void open_processes(lua_State* L, int torch) {
  static const luaL_Reg methods[] = {{"wait", guarded<child_wait>},
                                     {"kill", guarded<child_kill>},
                                     {"pid", guarded<child_pid>},
                                     {"__gc", child_gc},
                                     {nullptr, nullptr}};
  luaL_newmetatable(L, kChild);
  luaL_setfuncs(L, methods, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pushliteral(L, "child process");
  lua_setfield(L, -2, "__name");
  lua_pop(L, 1);
  static const luaL_Reg scope[] = {{"add", guarded<together_add>},
                                   {"stop", guarded<together_stop>},
                                   {"__gc", together_gc},
                                   {"__close", close_children},
                                   {nullptr, nullptr}};
  luaL_newmetatable(L, kTogether);
  luaL_setfuncs(L, scope, 0);
  lua_pushvalue(L, -1);
  lua_setfield(L, -2, "__index");
  lua_pop(L, 1);
  static const luaL_Reg functions[] = {{"_spawn", guarded<spawn>},
                                       {"_together", guarded<together>},
                                       {"_living_children", guarded<living_children>},
                                       {"_child_begins", guarded<child_begins>},
                                       {"_process_id", process_id},
                                       {"_cpu_count", cpu_count},
                                       {nullptr, nullptr}};
  lua_pushvalue(L, torch);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
  open_sockets(L, torch);
  open_shared_words(L, torch);
  open_serve(L, torch);
}

}  // namespace tycho::lua
