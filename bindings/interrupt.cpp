// Ctrl-C in Lua code. Native work looks at the engine's flag; a hook stops Lua code at its next
// instruction, in the running coroutine and in all that wait for it. The hook stays until the error
// has reached the entry (the shell), so that a pcall in a loop cannot swallow the stop for ever.
#include "engine/base/interrupt.h"

#include "bindings/lua.h"

namespace tycho::lua {
namespace {

volatile bool stopping = false;  // written by a signal handler on this same thread

}  // namespace

void interrupt_hook(lua_State* L, lua_Debug*) {
  if (!stopping) {  // a coroutine left armed by an earlier stop
    lua_sethook(L, nullptr, 0, 0);
    return;
  }
  clear_interrupt();
  raise(L, Error(Kind::Interrupt, "interrupted"));
}

void arm_interrupt(lua_State* L) {
  lua_sethook(L, interrupt_hook, LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT, 1);
}

void interrupt_lua() {
  stopping = true;
  request_interrupt();
  if (running) arm_interrupt(running);
  for (Resumer* r = resumers; r; r = r->outer) arm_interrupt(r->L);
}

void end_interrupt(lua_State* L) {
  stopping = false;
  lua_sethook(L, nullptr, 0, 0);
  clear_interrupt();
}

}  // namespace tycho::lua
