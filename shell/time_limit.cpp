// A limit of time for a coroutine and for those that it makes: past it, every instruction raises,
// so that no pcall inside can go on.
#include <chrono>

#include "shell/native.h"

namespace tycho::shell {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int kInstructions = 10000;  // between two looks at the clock
Clock::time_point last_moment;
bool limited = false;

void look(lua_State* L, lua_Debug*) {
  if (!limited) {  // a coroutine that outlived the limit
    lua::drop_hook(L);
    return;
  }
  if (Clock::now() < last_moment) return;
  lua_sethook(L, look, LUA_MASKCOUNT, 1);
  lua_pushliteral(L, "it did not come to an end");
  lua_error(L);
}

}  // namespace

// limit(thread, seconds) begins, limit(thread) ends and tells whether the time was over.
int lua_limit(lua_State* L) {
  luaL_checktype(L, 1, LUA_TTHREAD);
  lua_State* thread = lua_tothread(L, 1);
  if (lua_isnoneornil(L, 2)) {
    lua_pushboolean(L, limited && Clock::now() >= last_moment && lua_gethook(thread) == look);
    limited = false;
    if (lua_gethook(thread) == look) lua_sethook(thread, nullptr, 0, 0);
    return 1;
  }
  const std::chrono::duration<double> seconds(luaL_checknumber(L, 2));
  last_moment = Clock::now() + std::chrono::duration_cast<Clock::duration>(seconds);
  limited = true;
  lua_sethook(thread, look, LUA_MASKCOUNT, kInstructions);
  return 0;
}

}  // namespace tycho::shell
