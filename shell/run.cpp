// Runs chunks so that nothing in them can end the program: Ctrl-C stops them and keeps the
// variables, errors of any type are shown, modes come back as they were.
#include "shell/run.h"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "engine/amp/autocast.h"
#include "engine/ops/apply.h"

namespace tycho::shell {
namespace {

enum class State { Idle, Running, Closing };
volatile State state = State::Idle;
volatile int presses = 0;  // of Ctrl-C since the running chunk began
pthread_t main_thread;
std::string last_traceback;

void say(const char* text) {
  if (write(2, text, std::strlen(text)) < 0) return;
}

void on_interrupt(int) {
  const int error = errno;
  if (!pthread_equal(pthread_self(), main_thread)) {  // a worker of OpenMP took the signal
    pthread_kill(main_thread, SIGINT);
  } else if (state == State::Closing) {
    _exit(130);
  } else if (state == State::Running) {
    presses = presses + 1;
    if (presses >= 3) {
      say("\ntycho: ended by the third Ctrl-C\n");
      _exit(130);
    }
    if (presses == 2)
      say("\nStill waiting for the running operation to end; Ctrl-C again ends the process.\n");
    lua::interrupt_lua();
  }
  errno = error;
}

int remember_traceback(lua_State* L) {
  luaL_traceback(L, L, nullptr, 1);
  last_traceback = lua_tostring(L, -1);
  lua_settop(L, 1);
  return 1;
}

bool is_interrupt(lua_State* L) {
  if (lua_type(L, -1) != LUA_TTABLE) return false;
  lua_pushliteral(L, "kind");
  lua_rawget(L, -2);
  const bool yes = lua_type(L, -1) == LUA_TSTRING && !std::strcmp(lua_tostring(L, -1), "interrupt");
  lua_pop(L, 1);
  return yes;
}

// A table that somebody raised, as text: {code = 7, message = "no"}.
std::string table_text(lua_State* L, int i, int depth) {
  constexpr int kMostEntries = 20, kMostDepth = 3;
  if (depth > kMostDepth || !lua_checkstack(L, 8)) return "{..}";
  const auto value = [&](int at) -> std::string {
    if (lua_type(L, at) == LUA_TTABLE) return table_text(L, lua_absindex(L, at), depth + 1);
    if (lua_type(L, at) == LUA_TSTRING)
      return '"' + std::string(lua_tostring(L, at)).substr(0, 200) + '"';
    std::string text = luaL_tolstring(L, at, nullptr);
    lua_pop(L, 1);
    return text;
  };
  std::string out = "{";
  int entries = 0;
  const auto next = [&] {
    if (entries) out += ", ";
    return ++entries <= kMostEntries;
  };
  const int n = static_cast<int>(lua_rawlen(L, i));
  for (int k = 1; k <= n && next(); ++k) {
    lua_rawgeti(L, i, k);
    out += value(-1);
    lua_pop(L, 1);
  }
  lua_pushnil(L);
  while (entries <= kMostEntries && lua_next(L, i)) {
    if (!(lua_isinteger(L, -2) && lua_tointeger(L, -2) >= 1 && lua_tointeger(L, -2) <= n) &&
        next()) {
      const bool plain = lua_type(L, -2) == LUA_TSTRING;
      out += plain ? lua_tostring(L, -2) : "[" + value(-2) + "]";
      out += " = " + value(-1);
    }
    lua_pop(L, 1);
  }
  return out + (entries > kMostEntries ? "..}" : "}");
}

// Error value -> text; runs inside a call, because a __tostring may do anything.
int error_text(lua_State* L) {
  const bool bare =
      lua_type(L, 1) == LUA_TTABLE && luaL_getmetafield(L, 1, "__tostring") == LUA_TNIL;
  if (bare) {
    const std::string text = table_text(L, 1, 1);
    lua_pushlstring(L, text.data(), text.size());
  } else {
    luaL_tolstring(L, 1, nullptr);
  }
  return 1;
}

}  // namespace

void install_interrupts() {
  main_thread = pthread_self();
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = 0;  // reads return, so that the hook comes to run
  sigaction(SIGINT, &action, nullptr);
}

void stop_listening() { state = State::Closing; }

Outcome call(lua_State* L, int arguments, int results) {
  const int base = lua_gettop(L) - arguments;
  lua_pushcfunction(L, remember_traceback);
  lua_insert(L, base);
  const Mode modes = mode;
  const amp::Region region = amp::current();
  presses = 0;
  state = State::Running;
  const int status = lua_pcall(L, arguments, results, base);
  state = State::Idle;
  lua::end_interrupt(L);
  lua_remove(L, base);
  if (status == LUA_OK) return Outcome::Ok;
  if (!is_interrupt(L)) return Outcome::Failed;
  // The stop also ended the functions that close scopes.
  mode = modes;
  amp::set(region);
  lua::modes_changed(L);
  return Outcome::Interrupted;
}

void report(lua_State* L, const char* prefix, bool traceback) {
  const std::string trace = traceback ? last_traceback : "";
  lua_pushcfunction(L, error_text);
  lua_insert(L, -2);
  const char* text = call(L, 1, 1) == Outcome::Ok ? lua_tostring(L, -1) : nullptr;
  std::fprintf(stderr, "%s%s\n", prefix, text ? text : "an error whose __tostring fails");
  if (!trace.empty()) std::fprintf(stderr, "%s\n", trace.c_str());
  lua_pop(L, 1);
}

}  // namespace tycho::shell
