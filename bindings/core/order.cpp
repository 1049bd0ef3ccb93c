// Tables that keep an order: what a file or a state_dict names one after the other comes so out of
// pairs, although the tables are plain ones. Their keys stand in a list beside them, which goes
// when they go.
#include "bindings/core/lua.h"

namespace tycho::lua {
namespace {

const char kOrders = 0;  // its address is the registry's key of: table -> list of its keys

// The next of the keys that have a value, in their order, then what was added later. Upvalues: the
// list, how many of it are done (below 0: all), the set of the listed keys, the last key of the
// others.
int next_in_order(lua_State* L) {
  luaL_checktype(L, 1, LUA_TTABLE);
  lua_settop(L, 1);
  lua_Integer at = lua_tointeger(L, lua_upvalueindex(2));
  while (at >= 0) {
    if (lua_rawgeti(L, lua_upvalueindex(1), ++at) == LUA_TNIL) {
      at = -1;
      lua_newtable(L);
      for (lua_Integer k = 1; lua_rawgeti(L, lua_upvalueindex(1), k) != LUA_TNIL; ++k) {
        lua_pushboolean(L, 1);
        lua_rawset(L, -3);
      }
      lua_pop(L, 1);
      lua_replace(L, lua_upvalueindex(3));
      lua_settop(L, 1);
    }
    lua_pushinteger(L, at);
    lua_replace(L, lua_upvalueindex(2));
    if (at < 0) break;
    lua_pushvalue(L, -1);
    if (lua_rawget(L, 1) != LUA_TNIL) return 2;
    lua_settop(L, 1);
  }
  lua_pushvalue(L, lua_upvalueindex(4));
  while (lua_next(L, 1)) {
    lua_pushvalue(L, -2);
    if (lua_rawget(L, lua_upvalueindex(3)) == LUA_TNIL) {
      lua_pop(L, 1);
      lua_pushvalue(L, -2);
      lua_replace(L, lua_upvalueindex(4));
      return 2;
    }
    lua_pop(L, 2);
  }
  lua_pushnil(L);
  return 1;
}

// pairs as Lua has it, but in a table's order where it has one. Upvalues: Lua's, the orders, next.
int pairs(lua_State* L) {
  luaL_checkany(L, 1);
  if (lua_istable(L, 1) && !lua_getmetatable(L, 1)) {
    lua_pushvalue(L, 1);
    if (lua_rawget(L, lua_upvalueindex(2)) != LUA_TNIL) {
      lua_pushinteger(L, 0);
      lua_pushnil(L);
      lua_pushnil(L);
      lua_pushcclosure(L, next_in_order, 4);
    } else {
      lua_pushvalue(L, lua_upvalueindex(3));
    }
    lua_pushvalue(L, 1);
    lua_pushnil(L);
    return 3;
  }
  lua_settop(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 1);
  lua_call(L, 1, 3);
  return 3;
}

}  // namespace

void keep_order(lua_State* L, int table) {
  table = lua_absindex(L, table);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &kOrders);
  lua_pushvalue(L, table);
  lua_pushvalue(L, -3);
  lua_rawset(L, -3);
  lua_pop(L, 2);
}

void push_order(lua_State* L, int table) {
  lua_pushvalue(L, table);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &kOrders);
  lua_insert(L, -2);
  lua_rawget(L, -2);
  lua_remove(L, -2);
}

void open_order(lua_State* L) {
  lua_newtable(L);
  lua_createtable(L, 0, 1);
  lua_pushliteral(L, "k");
  lua_setfield(L, -2, "__mode");
  lua_setmetatable(L, -2);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kOrders);
  lua_getglobal(L, "pairs");
  lua_insert(L, -2);
  lua_getglobal(L, "next");
  lua_pushcclosure(L, pairs, 3);
  lua_setglobal(L, "pairs");
}

// torch._keep_order(table, keys)
int keep_order(lua_State* L) {
  TYCHO_CHECK(Kind::Argument, lua_istable(L, 1) && lua_istable(L, 2),
              "keep_order: wants a table and the list of its keys");
  lua_settop(L, 2);
  keep_order(L, 1);
  return 0;
}

}  // namespace tycho::lua
