// Runs chunks so that nothing in them can end the program: Ctrl-C stops them and keeps the
// variables, errors of any type are shown, modes come back as they were.
#include "shell/run.h"

#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <string>

#include "bindings/core/interrupt.h"
#include "engine/amp/autocast.h"
#include "engine/ops/table/apply.h"
#include "shell/status.h"
#include "shell/terminal.h"

namespace tycho::shell {
namespace {

enum class State { Idle, Running, Closing };
volatile State state = State::Idle;
volatile int presses = 0;  // of Ctrl-C since the stop that is under way began
volatile bool stays = false;
pthread_t main_thread;
bool keep_values = false;
const char kTrace = 0;  // its address is the trace's key in the registry

void say(const char* text) {
  if (write(2, text, std::strlen(text)) < 0) return;
}

// In the signal handler. Lua code would have stopped at the first Ctrl-C, so Lua waits inside a C
// function: its stack is in order, and reading it allocates nothing.
void say_what_runs() {
  say("\nStill waiting for ");
  lua_Debug ar;
  lua_State* L = lua::running;
  if (L && lua_getstack(L, 0, &ar) && lua_getinfo(L, "nS", &ar) && ar.what[0] == 'C' && ar.name)
    say(ar.name);
  else
    say("the running operation");
  say(" to end; Ctrl-C again ends the process.\n");
}

void on_interrupt(int) {
  const int error = errno;
  if (!pthread_equal(pthread_self(), main_thread)) {  // a worker of OpenMP took the signal
    pthread_kill(main_thread, SIGINT);
  } else if (state == State::Closing) {
    _exit(130);
  } else if (state == State::Running) {
    presses = lua::stop_under_way() ? presses + 1 : 1;
    if (presses >= 3 && !stays) {
      say("\ntycho: ended by the third Ctrl-C\n");
      restore_settings();
      _exit(130);
    }
    if (presses == 2 && !stays) say_what_runs();
    lua::interrupt_lua();
  }
  errno = error;
}

// The value on top of the stack in a few words; pops it.
void push_description(lua_State* L) {
  std::string room, text;
  switch (lua_type(L, -1)) {
    case LUA_TSTRING: {
      size_t n;
      const char* s = lua_tolstring(L, -1, &n);
      text = '"' + std::string(s, n < 60 ? n : 60) + (n > 60 ? "\".." : "\"");
      break;
    }
    case LUA_TNUMBER:
      lua_pushvalue(L, -1);
      text = lua_tostring(L, -1);
      lua_pop(L, 1);
      break;
    case LUA_TBOOLEAN:
      text = lua_toboolean(L, -1) ? "true" : "false";
      break;
    default:
      text = lua::describe_value(L, lua_gettop(L), &room);
  }
  lua_pop(L, 1);
  lua_pushlstring(L, text.data(), text.size());
}

// The value on top of the stack goes into the table below it: as it is when values are kept, else
// in a table that keeps it no longer than others do.
void set_value(lua_State* L) {
  if (keep_values) return lua_setfield(L, -2, "value");
  if (lua_isnil(L, -1)) return lua_pop(L, 1);
  lua_createtable(L, 1, 0);
  lua_insert(L, -2);
  lua_rawseti(L, -2, 1);
  if (luaL_newmetatable(L, "tycho.weak_value")) {
    lua_pushliteral(L, "v");
    lua_setfield(L, -2, "__mode");
  }
  lua_setmetatable(L, -2);
  lua_setfield(L, -2, "weak");
}

// The locals of a frame: a list of {name=, text=, value= or weak={value}}.
void push_locals(lua_State* L, lua_Debug* ar) {
  constexpr int kMostLocals = 30;
  lua_newtable(L);
  int count = 0;
  const char* name;
  for (int i = 1; count < kMostLocals && (name = lua_getlocal(L, ar, i)); ++i) {
    if (name[0] == '(' || !std::strcmp(name, "_tycho_")) {
      lua_pop(L, 1);
      continue;
    }
    lua_createtable(L, 0, 3);
    lua_insert(L, -2);  // list, entry, value
    lua_pushvalue(L, -2);
    lua_pushvalue(L, -2);
    set_value(L);
    lua_pop(L, 1);
    push_description(L);
    lua_setfield(L, -2, "text");
    lua_pushstring(L, name);
    lua_setfield(L, -2, "name");
    lua_rawseti(L, -2, ++count);
  }
}

int last_level(lua_State* L) {  // without walking the stack once per level
  lua_Debug ar;
  int low = 1, high = 1;
  while (lua_getstack(L, high, &ar)) low = high, high *= 2;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (lua_getstack(L, middle, &ar))
      low = middle + 1;
    else
      high = middle;
  }
  return high - 1;
}

// The user's functions on the stack, innermost first: not C, not torch's or the prompt's own.
void push_frames(lua_State* L) {
  constexpr int kFirst = 40, kLast = 10;
  const int last = last_level(L);
  lua_newtable(L);
  int count = 0;
  lua_Debug ar;
  for (int level = 1; lua_getstack(L, level, &ar); ++level) {
    if (level == kFirst && last > kFirst + kLast) {
      lua_createtable(L, 0, 1);
      lua_pushinteger(L, last - kLast - level);
      lua_setfield(L, -2, "skipped");
      lua_rawseti(L, -2, ++count);
      level = last - kLast;
      continue;
    }
    lua_getinfo(L, "Sln", &ar);
    const std::string_view source = ar.source;
    if (ar.currentline <= 0 || source.substr(0, 7) == "=torch/" || source.substr(0, 7) == "=shell/")
      continue;
    lua_createtable(L, 0, 5);
    lua_pushstring(L, ar.short_src);
    lua_setfield(L, -2, "source");
    lua_pushinteger(L, ar.currentline);
    lua_setfield(L, -2, "line");
    lua_pushstring(L, ar.what);
    lua_setfield(L, -2, "what");
    lua_pushstring(L, ar.name ? ar.name : nullptr);
    lua_setfield(L, -2, "name");
    push_locals(L, &ar);
    lua_setfield(L, -2, "locals");
    lua_getinfo(L, "f", &ar);  // for its upvalues
    lua_createtable(L, 0, 1);
    lua_insert(L, -2);
    set_value(L);
    lua_setfield(L, -2, "code");
    lua_rawseti(L, -2, ++count);
  }
}

int remember_trace(lua_State* L) {
  lua::explain_self(L, L);
  if (lua_checkstack(L, 20)) {
    lua_createtable(L, 0, 3);
    push_frames(L);
    lua_setfield(L, -2, "frames");
    luaL_traceback(L, L, nullptr, 1);
    lua_setfield(L, -2, "full");
    lua_rawsetp(L, LUA_REGISTRYINDEX, &kTrace);
  }
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

}  // namespace

void install_interrupts() {
  main_thread = pthread_self();
  struct sigaction action = {};
  action.sa_handler = on_interrupt;
  action.sa_flags = 0;  // reads return, so that the hook comes to run
  sigaction(SIGINT, &action, nullptr);
}

void stay_on_interrupts() { stays = true; }

void stop_listening() { state = State::Closing; }

Outcome call(lua_State* L, int arguments, int results) {
  const int base = lua_gettop(L) - arguments;
  lua_pushcfunction(L, remember_trace);
  lua_insert(L, base);
  const Mode modes = mode;
  const amp::Region region = amp::current();
  const bool outermost = state != State::Running;
  if (outermost) {
    state = State::Running;
    begin_status();
  }
  const int status = lua_pcall(L, arguments, results, base);
  if (outermost) {
    state = State::Idle;
    end_status();
    lua::end_interrupt(L);
  }
  lua_remove(L, base);
  if (status == LUA_OK) return Outcome::Ok;
  if (!is_interrupt(L)) return Outcome::Failed;
  // The stop also ended the functions that close scopes.
  mode = modes;
  amp::set(region);
  lua::modes_changed(L);
  return Outcome::Interrupted;
}

void push_trace(lua_State* L) {
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &kTrace) != LUA_TTABLE) {
    lua_pop(L, 1);
    lua_newtable(L);
  }
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kTrace);
}

void keep_frame_values(bool yes) { keep_values = yes; }

}  // namespace tycho::shell
