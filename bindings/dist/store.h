// Stores seen from Lua. What users see of them is torch.distributed.TCPStore and its kin.
#pragma once
#include <string>

#include "bindings/core/lua.h"

namespace tycho::lua {

// torch._store: tcp, hash, prefix, and the methods of what they give.
void open_store(lua_State* L, int torch);
// The server behind a TCPStore, where a job may meet too: false for other stores, and for values that
// are none. The store must live as long as the job.
bool store_server(lua_State* L, int i, std::string* address, std::string* token);

}  // namespace tycho::lua
