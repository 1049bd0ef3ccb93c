// pcall and xpcall as Lua has them, but while the stack of what failed still stands, an error that
// a wrong `self` made (a method called with a point, or on what its class does not know) becomes an
// error object that says so: torch.explain.self.
#include <cstring>

#include "bindings/core/lua.h"

namespace tycho::lua {
namespace {

const char kRequire = 0;  // its address is the key of Lua's require

// Is the first parameter of a function on the stack called self, and its value no object?
bool selfless(lua_State* L) {
  constexpr int kMostLevels = 40;
  lua_Debug ar;
  for (int level = 0; level < kMostLevels && lua_getstack(L, level, &ar); ++level) {
    const char* name = lua_getlocal(L, &ar, 1);
    if (!name) continue;
    const bool object = lua_istable(L, -1) && lua_getmetatable(L, -1);
    lua_pop(L, object ? 2 : 1);
    if (!object && !std::strcmp(name, "self")) return true;
  }
  return false;
}

// Lua's own texts, and objects, which are looked at where a self is wrong.
bool worth_a_look(lua_State* L, lua_State* failed) {
  if (lua_type(L, -1) == LUA_TSTRING) {
    const char* text = lua_tostring(L, -1);
    return !std::strncmp(text, "torch/", 6) || std::strstr(text, "attempt to ") ||
           std::strstr(text, "bad argument #") || std::strstr(text, "non-closable value");
  }
  if (lua_type(L, -1) != LUA_TTABLE || luaL_getmetafield(L, -1, "__name") == LUA_TNIL) return false;
  lua_pop(L, 1);
  return lua_checkstack(failed, 4) && selfless(failed);
}

// `above`: levels of ours between the function that failed and the one that calls this.
void explain(lua_State* L, lua_State* failed, int above) {
  if (!lua_checkstack(L, 8) || !worth_a_look(L, failed)) return;
  const int top = lua_gettop(L);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &kRequire);
  lua_pushliteral(L, "torch.explain.self");
  if (lua_pcall(L, 1, 1, 0) == LUA_OK && lua_isfunction(L, -1)) {
    lua_pushvalue(L, top);
    if (failed == L) {
      lua_pushnil(L);
    } else {
      lua_pushthread(failed);
      lua_xmove(failed, L, 1);
    }
    lua_pushinteger(L, above);
    if (lua_pcall(L, 3, 1, 0) == LUA_OK && !lua_isnil(L, -1)) {
      lua_replace(L, top);
    }
  }
  lua_settop(L, top);
}

// The handler of pcall: one value, the error.
int handle(lua_State* L) {
  explain(L, L, 0);
  return 1;
}

int finish(lua_State* L, int status, lua_KContext) {
  if (status == LUA_OK || status == LUA_YIELD) return lua_gettop(L) - 1;
  lua_pushboolean(L, 0);
  lua_insert(L, -2);
  return 2;
}

int protected_call(lua_State* L) {
  luaL_checkany(L, 1);
  lua_pushcfunction(L, handle);
  lua_insert(L, 1);
  lua_pushboolean(L, 1);
  lua_insert(L, 2);
  return finish(L, lua_pcallk(L, lua_gettop(L) - 3, LUA_MULTRET, 1, 0, finish), 0);
}

// The error as xpcall's handler gets it. A function of Lua's calls it, so it is one level higher.
int explained(lua_State* L) {
  lua_settop(L, 1);
  explain(L, L, 1);
  return 1;
}

// Makes a handler from the user's. In Lua, since a call that ends a function of Lua's leaves
// nothing of it on the stack: what the user's handler sees below itself is what failed.
constexpr char kHandler[] =
    "local explained = ...\n"
    "return function(handler) return function(err) return handler(explained(err)) end end";

int protected_call_with_handler(lua_State* L) {
  luaL_checktype(L, 2, LUA_TFUNCTION);
  const int n = lua_gettop(L);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_pushvalue(L, 2);
  lua_call(L, 1, 1);
  lua_replace(L, 2);
  lua_pushvalue(L, 1);  // handler, true, f, arguments
  lua_pushvalue(L, 2);
  lua_replace(L, 1);
  lua_pushboolean(L, 1);
  lua_replace(L, 2);
  lua_insert(L, 3);
  return finish(L, lua_pcallk(L, n - 2, LUA_MULTRET, 1, 0, finish), 0);
}

}  // namespace

void explain_self(lua_State* L, lua_State* failed) { explain(L, failed, 0); }

void open_caught(lua_State* L) {
  lua_getglobal(L, "require");
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kRequire);
  lua_pushcfunction(L, protected_call);
  lua_setglobal(L, "pcall");
  luaL_loadbufferx(L, kHandler, sizeof kHandler - 1, "=torch/caught.lua", "t");
  lua_pushcfunction(L, explained);
  lua_call(L, 1, 1);
  lua_pushcclosure(L, protected_call_with_handler, 1);
  lua_setglobal(L, "xpcall");
}

}  // namespace tycho::lua
