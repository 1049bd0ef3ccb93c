// coroutine.resume, wrap and close as Lua has them, but they keep `running` and the chain of those
// that wait: Ctrl-C must reach a coroutine that never calls the engine, and whoever resumed it. For
// the same reason os.execute passes on the Ctrl-C that ended its program.
#include <atomic>
#include <csignal>
#include <cstring>

#include "bindings/core/interrupt.h"
#include "bindings/core/lua.h"

namespace tycho::lua {

constinit thread_local Resumer* resumers = nullptr;

namespace {

// While it lives, `co` is what runs, and L waits for it.
class Resumed {
 public:
  Resumed(lua_State* L, lua_State* co) : me_{L, resumers} {
    resumers = &me_;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    switch_modes(co);
    if (const lua_Hook stop = lua_gethook(L); stop && stop == interrupt_hook)
      arm_interrupt(co);  // L was told to stop: what it resumes must stop too
  }
  ~Resumed() {
    switch_modes(me_.L);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    resumers = me_.outer;  // last: at no moment may a Ctrl-C find L in neither place
  }
  Resumed(const Resumed&) = delete;
  Resumed& operator=(const Resumed&) = delete;

 private:
  Resumer me_;
};

// The number of results, which are moved to L, or -1 with the error on top of L's stack.
int resume_with(lua_State* L, lua_State* co, int arguments) {
  if (!lua_checkstack(co, arguments)) {
    lua_pushliteral(L, "too many arguments to resume");
    return -1;
  }
  lua_xmove(L, co, arguments);
  int results = 0;
  const int status = [&] {
    const Resumed scope(L, co);
    return lua_resume(co, L, arguments, &results);
  }();
  if (status != LUA_OK && status != LUA_YIELD) {
    lua_xmove(co, L, 1);
    explain_self(L, co);
    return -1;
  }
  if (!lua_checkstack(L, results + 1)) {
    lua_pop(co, results);
    lua_pushliteral(L, "too many results to resume");
    return -1;
  }
  lua_xmove(co, L, results);
  return results;
}

int resume(lua_State* L) {
  lua_State* co = lua_tothread(L, 1);
  luaL_argexpected(L, co, 1, "coroutine");
  const int results = resume_with(L, co, lua_gettop(L) - 1);
  lua_pushboolean(L, results >= 0);
  if (results < 0) {
    lua_insert(L, -2);
    return 2;
  }
  lua_insert(L, -(results + 1));
  return results + 1;
}

int close_thread(lua_State* L, lua_State* co) {
  const Resumed scope(L, co);
#if LUA_VERSION_RELEASE_NUM >= 50406
  return lua_closethread(co, L);
#else
  return lua_resetthread(co);
#endif
}

int call_wrapped(lua_State* L) {
  lua_State* co = lua_tothread(L, lua_upvalueindex(1));
  const int results = resume_with(L, co, lua_gettop(L));
  if (results >= 0) return results;
  int status = lua_status(co);
  if (status != LUA_OK && status != LUA_YIELD) {  // it failed: end its scopes
    status = close_thread(L, co);
    lua_xmove(co, L, 1);
  }
  if (status != LUA_ERRMEM && lua_type(L, -1) == LUA_TSTRING) {
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

int wrap(lua_State* L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State* co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_pushcclosure(L, call_wrapped, 1);
  return 1;
}

// Lua's own close knows which coroutines may be closed; it runs with ours as the running one.
int close(lua_State* L) {
  lua_State* co = lua_tothread(L, 1);
  luaL_argexpected(L, co, 1, "coroutine");
  lua_settop(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  const Resumed scope(L, co);
  lua_call(L, 1, LUA_MULTRET);
  return lua_gettop(L);
}

// os.execute as Lua has it; but while a program runs, Ctrl-C goes to it alone, so when it was ended
// by Ctrl-C, the code that started it stops too.
int execute(lua_State* L) {
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  if (lua_gettop(L) == 3 && lua_isinteger(L, 3) && lua_tointeger(L, 3) == SIGINT &&
      lua_isstring(L, 2) && !std::strcmp(lua_tostring(L, 2), "signal"))
    pass_interrupt();
  return lua_gettop(L);
}

}  // namespace

void open_coroutine(lua_State* L) {
  lua_getglobal(L, "coroutine");
  lua_pushcfunction(L, resume);
  lua_setfield(L, -2, "resume");
  lua_pushcfunction(L, wrap);
  lua_setfield(L, -2, "wrap");
  lua_getfield(L, -1, "close");
  lua_pushcclosure(L, close, 1);
  lua_setfield(L, -2, "close");
  lua_getglobal(L, "os");
  lua_getfield(L, -1, "execute");
  lua_pushcclosure(L, execute, 1);
  lua_setfield(L, -2, "execute");
  lua_pop(L, 2);
}

}  // namespace tycho::lua
