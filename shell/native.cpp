// shell.native: protected calls, what values hold, the terminal, child processes.
#include "shell/native.h"

#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>
#include <unordered_set>

#include "bindings/core/interrupt.h"
#include "shell/child.h"
#include "shell/kernel.h"
#include "shell/keys.h"
#include "shell/line/editor.h"
#include "shell/past.h"
#include "shell/private_file.h"
#include "shell/repl.h"
#include "shell/run.h"
#include "shell/status.h"

namespace tycho::shell {
namespace {

const char kRequire = 0;  // its address is the key of `require` in the registry

// guarded(f, ...): true and the results, or false, the error and {frames=, interrupted=}. Ctrl-C
// stops f.
// contained(f, ...): the same, but Ctrl-C stops f alone and not what called it, for commands that
// run the user's code and have more to do or to say afterwards.
template <bool contained>
int lua_guarded(lua_State* L) {
  luaL_checkany(L, 1);
  const Outcome outcome = call(L, lua_gettop(L) - 1, LUA_MULTRET);
  if (outcome == Outcome::Ok) {
    lua_pushboolean(L, 1);
    lua_insert(L, 1);
    return lua_gettop(L);
  }
  lua_pushboolean(L, 0);
  lua_insert(L, -2);
  push_trace(L);
  if (outcome == Outcome::Interrupted) {
    if (contained) lua::end_interrupt(L);
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, "interrupted");
    lua_pushstring(L, lua::stopped_at().name);
    lua_setfield(L, -2, "stopped_in");
    lua_pushstring(L, lua::stopped_at().place);
    lua_setfield(L, -2, "stopped_at");
  }
  return 3;
}

// Counts the bytes that can be reached from a value.
class Holdings {
 public:
  int64_t bytes = 0, device_bytes = 0;
  bool complete = true;
  explicit Holdings(lua_State* L) : L_(L) {}

  // The value on top of the stack, which stays.
  void visit(int depth) {
    constexpr int kMostVisits = 5000, kMostDepth = 8;
    if (const Impl* t = lua::to_impl(L_, -1)) return tensor(*t);
    const int type = lua_type(L_, -1);
    if (type == LUA_TSTRING) bytes += static_cast<int64_t>(lua_rawlen(L_, -1));
    if (type == LUA_TTHREAD) complete = false;  // its stack may hold anything
    if (type == LUA_TUSERDATA) bytes += static_cast<int64_t>(lua_rawlen(L_, -1));
    if (type != LUA_TTABLE && type != LUA_TFUNCTION) return;
    if (!seen_.insert(lua_topointer(L_, -1)).second) return;
    if (++visits_ > kMostVisits || depth > kMostDepth || !lua_checkstack(L_, 6)) {
      complete = false;
      return;
    }
    if (type == LUA_TFUNCTION) {
      for (int i = 1; complete && lua_getupvalue(L_, -1, i); ++i) {
        lua_pushglobaltable(L_);
        const bool globals = lua_rawequal(L_, -1, -2);
        lua_pop(L_, 1);
        if (!globals) visit(depth + 1);
        lua_pop(L_, 1);
      }
      return;
    }
    bytes += static_cast<int64_t>(lua_rawlen(L_, -1)) * 16;
    lua_pushglobaltable(L_);
    const bool globals = lua_rawequal(L_, -1, -2);
    lua_pop(L_, 1);
    if (globals) return;
    int64_t entries = 0;
    lua_pushnil(L_);
    while (lua_next(L_, -2)) {
      if (++entries > kMostVisits * 10) complete = false;
      if (complete) visit(depth + 1);
      lua_pop(L_, 1);
      if (!complete) {
        lua_pop(L_, 1);
        return;
      }
    }
  }

 private:
  void tensor(const Impl& t) {
    if (!t.storage || !seen_.insert(t.storage.get()).second) return;
    const auto n = static_cast<int64_t>(t.storage->bytes);
    bytes += n;
    if (t.node) complete = false;  // its graph may hold anything
    if (!t.storage->device.is_cpu()) device_bytes += n;
  }
  lua_State* L_;
  int visits_ = 0;
  std::unordered_set<const void*> seen_;
};

// held(value): bytes reached from it, those on devices, whether all was looked at, and the value in
// a few words.
int lua_held(lua_State* L) {
  luaL_checkany(L, 1);
  lua_settop(L, 1);
  Holdings h(L);
  h.visit(1);
  lua_settop(L, 1);
  std::string room;
  const std::string what = lua::describe_value(L, 1, &room);
  lua_pushinteger(L, h.bytes);
  lua_pushinteger(L, h.device_bytes);
  lua_pushboolean(L, h.complete);
  lua_pushlstring(L, what.data(), what.size());
  return 4;
}

// window(): columns and rows of the terminal.
int lua_window(lua_State* L) {
  const line::WindowSize size = line::window_size();
  lua_pushinteger(L, size.columns);
  lua_pushinteger(L, size.rows);
  return 2;
}

// is_terminal(0 | 1 | 2)
int lua_is_terminal(lua_State* L) {
  lua_pushboolean(L, isatty(static_cast<int>(luaL_checkinteger(L, 1))));
  return 1;
}

// chdir(path): true, or nil and why not. directory(): where we are.
int lua_chdir(lua_State* L) {
  if (chdir(luaL_checkstring(L, 1)) == 0) return lua_pushboolean(L, 1), 1;
  lua_pushnil(L);
  lua_pushstring(L, std::strerror(errno));
  return 2;
}
int lua_directory(lua_State* L) {
  char room[PATH_MAX];
  lua_pushstring(L, getcwd(room, sizeof room) ? room : ".");
  return 1;
}

// remember(text, private): into the history, when private only until forget(position); returns its
// position, for failed(position), and its stamp.
int lua_remember(lua_State* L) {
  size_t n;
  const char* text = luaL_checklstring(L, 1, &n);
  if (line::History* h = repl_history()) {
    const size_t position = h->add({text, n}, !lua_toboolean(L, 2));
    lua_pushinteger(L, static_cast<lua_Integer>(position));
    lua_pushinteger(L, h->record(position).time);
    return 2;
  }
  return 0;
}
// forget(position): the private entries from there on; forget() gives the position of the next one.
int lua_forget(lua_State* L) {
  line::History* h = repl_history();
  if (!h) return 0;
  if (lua_isinteger(L, 1)) h->forget(static_cast<size_t>(lua_tointeger(L, 1)));
  lua_pushinteger(L, static_cast<lua_Integer>(h->size()));
  return 1;
}
int lua_failed(lua_State* L) {
  line::History* h = repl_history();
  if (h && lua_isinteger(L, 1)) h->failed(static_cast<size_t>(lua_tointeger(L, 1)));
  return 0;
}

// stopped_mark(): what stands before "stopped": the terminal has written "^C" unless the status
// line took it away.
int lua_stopped_mark(lua_State* L) {
  lua_pushstring(L, !isatty(0) || !isatty(2) ? "" : status_was_shown() ? "^C " : " ");
  return 1;
}

int lua_start_of_line(lua_State*) {
  start_of_line();
  return 0;
}

// keep_frames(boolean): traces hold the values of locals.
int lua_keep_frames(lua_State* L) {
  keep_frame_values(lua_toboolean(L, 1));
  return 0;
}

// program(): the file of this program.
int lua_program(lua_State* L) {
  char room[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", room, sizeof room);
  if (n <= 0) return 0;
  lua_pushlstring(L, room, static_cast<size_t>(n));
  return 1;
}

int load(lua_State* L) {
  static const luaL_Reg functions[] = {
      {"guarded", lua_guarded<false>},
      {"contained", lua_guarded<true>},
      {"held", lua_held},
      {"window", lua_window},
      {"is_terminal", lua_is_terminal},
      {"system", lua_child},  // (command for /bin/sh): status, signal
      {"setenv", lua_setenv},
      {"environment", lua_environment},
      {"temporary", lua_temporary},
      {"restart", lua_restart},
      {"history", lua_history},
      {"chdir", lua_chdir},
      {"directory", lua_directory},
      {"program", lua_program},
      {"keep_frames", lua_keep_frames},
      {"write_private", lua_write_private},
      {"limit", lua_limit},
      {"remember", lua_remember},
      {"forget", lua_forget},
      {"failed", lua_failed},
      {"start_of_line", lua_start_of_line},
      {"stopped_mark", lua_stopped_mark},
      {"highlight", lua_highlight},  // (text, cursor): spans of colour
      {"list_directory", lua_list_directory},
      {"keys", lua_keys},          // what the keys of the line editor do
      {"read_key", lua_read_key},  // one key of the terminal
      {nullptr, nullptr}};
  luaL_newlib(L, functions);
  push_kernel(L);
  lua_setfield(L, -2, "kernel");
  lua_pushliteral(L, TYCHO_VERSION);
  lua_setfield(L, -2, "version");
  return 1;
}

}  // namespace

bool push_module(lua_State* L, const char* name) {
  lua_rawgetp(L, LUA_REGISTRYINDEX, &kRequire);
  lua_pushstring(L, name);
  return lua_pcall(L, 1, 1, 0) == LUA_OK;
}

int open_native(lua_State* L) {
  lua_getglobal(L, "require");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kRequire);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, load);
  lua_setfield(L, -2, "shell.native");
  lua_pop(L, 1);
  return 0;
}

}  // namespace tycho::shell
