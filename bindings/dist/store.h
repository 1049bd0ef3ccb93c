// A store as a Lua value: with its server where this process serves it, and what others need to reach
// that.
#pragma once
#include "bindings/core/lua.h"
#include "engine/dist/server.h"
#include "engine/dist/store.h"

namespace tycho::lua {

struct StoreBox {
  std::shared_ptr<dist::Store> store;
  std::unique_ptr<dist::Server> server;
  std::string address, token;
};
StoreBox* to_store(lua_State* L, int i);  // null when the value is none
void open_store(lua_State* L, int table);

}  // namespace tycho::lua
