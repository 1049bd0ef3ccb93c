// Ctrl-C in Lua code. Native work looks at the engine's flag; a hook stops Lua code at its next
// instruction, in the running coroutine and in all that wait for it. The hook stays until the error
// has reached the entry (the shell), so that a pcall in a loop cannot swallow the stop for ever.
#include "bindings/core/interrupt.h"

#include <cstdio>
#include <cstring>

#include "bindings/tools/check.h"
#include "engine/amp/autocast.h"
#include "engine/base/interrupt.h"
#include "engine/ops/table/apply.h"

namespace tycho::lua {
namespace {

constinit thread_local volatile bool stopping = false;  // written by a handler on this thread
constinit thread_local volatile bool fresh = false;     // nobody has seen yet where the program was
// While held, the first Ctrl-C waits for the end of what must not be cut in two.
constinit thread_local volatile bool held = false, waiting = false;
thread_local StoppedAt stop;

void note_place(lua_State* L) {
  fresh = false;
  stop = {};
  lua_Debug ar;
  for (int level = 0; lua_getstack(L, level, &ar); ++level) {
    lua_getinfo(L, "Sln", &ar);
    // Reading an unknown global runs the prompt's own Lua inside the user's.
    if (ar.currentline <= 0 || !std::strncmp(ar.source, "=torch/", 7) ||
        !std::strncmp(ar.source, "=shell/", 7))
      continue;
    std::snprintf(stop.place, sizeof stop.place, "%s:%d", ar.short_src, ar.currentline);
    if (ar.name && std::strcmp(ar.what, "main"))
      std::snprintf(stop.name, sizeof stop.name, "%s", ar.name);
    return;
  }
}

}  // namespace

const StoppedAt& stopped_at() { return stop; }
bool stop_under_way() { return stopping; }
void note_stop(lua_State* L) {
  if (fresh) note_place(L);
}

void interrupt_hook(lua_State* L, lua_Debug* ar) {
  if (!stopping) {  // a coroutine left armed by an earlier stop
    drop_hook(L);
    return;
  }
  if (ar->event == LUA_HOOKCALL && lua_getinfo(L, "f", ar)) {
    const lua_CFunction f = lua_tocfunction(L, -1);
    const bool closes = f == close_workers || f == close_children;
    lua_pop(L, 1);
    if (closes) return;
  }
  clear_interrupt();
  note_stop(L);
  raise(L, Error(Kind::Interrupt, "interrupted"));
}

void arm_interrupt(lua_State* L) {
  lua_sethook(L, interrupt_hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
}

void drop_hook(lua_State* L) {
  lua_sethook(L, nullptr, 0, 0);
  if (stopping) arm_interrupt(L);  // Ctrl-C came just before that line, or while it ran
}

void arm_all() {
  if (running) arm_interrupt(running);
  for (Resumer* r = resumers; r; r = r->outer) arm_interrupt(r->L);
}

void interrupt_lua() {
  if (held && !waiting && !stopping) {
    waiting = true;
    return;
  }
  if (!stopping) fresh = true;
  stopping = true;
  request_interrupt();
  arm_all();
}

void end_interrupt(lua_State* L) {
  stopping = false;
  held = false;
  waiting = false;
  lua_sethook(L, nullptr, 0, 0);
  clear_interrupt();
}

namespace {

// Back to what held before; a Ctrl-C that waited acts now.
void release(lua_State* L, bool was) {
  held = was;
  if (held || !waiting) return;
  waiting = false;
  interrupt_lua();
  clear_interrupt();
  note_stop(L);
  raise(L, Error(Kind::Interrupt, "interrupted"));
}

}  // namespace

int uninterrupted(lua_State* L) {
  check_function(L, 1, "uninterrupted");
  const bool was = held;
  held = true;
  const int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  release(L, was);
  return status == LUA_OK ? lua_gettop(L) : lua_error(L);
}

int hold_interrupt(lua_State* L) {
  const bool was = held, hold = lua_toboolean(L, 1) != 0;
  if (lua_type(L, 1) == LUA_TSTRING && !std::strcmp(lua_tostring(L, 1), "stop")) {
    waiting = true;
    release(L, false);
  }
  if (hold)
    held = true;
  else
    release(L, false);
  lua_pushboolean(L, was);
  return 1;
}

int interrupt_waits(lua_State* L) {
  lua_pushboolean(L, waiting);
  return 1;
}

int until_interrupt(lua_State* L) {
  check_function(L, 1, "until_interrupt");
  const bool grad = mode.grad, inference = mode.inference, was_held = held;
  const amp::Region region = amp::current();
  if (lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0) == LUA_OK) {
    lua_pushboolean(L, 1);
    lua_insert(L, 1);
    return lua_gettop(L);
  }
  if (!stopping) return lua_error(L);
  end_interrupt(L);
  held = was_held;
  // The stop also ended the functions that close scopes.
  mode.grad = grad;
  mode.inference = inference;
  amp::set(region);
  modes_changed(L);
  lua_pushboolean(L, 0);
  lua_pushstring(L, stop.place);
  return 2;
}

}  // namespace tycho::lua
