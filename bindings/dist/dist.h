// Ranks seen from Lua: the process's job, its groups, works and collectives. What users see of it is
// torch.distributed.
#pragma once
#include "bindings/core/lua.h"
#include "engine/dist/group.h"

namespace tycho::lua {

// The group that a Lua value stands for: a process group, or nil for the world's. Raises when there
// is none.
dist::Group* to_group(lua_State* L, int i);

// The script ends with the error on top of the stack, which stays there: other ranks are told why.
void script_failed(lua_State* L);

// torch._dist (dist.cpp, calls.cpp, monitored.cpp).
void open_dist(lua_State* L, int torch);
void open_dist_calls(lua_State* L, int table);
void open_monitored(lua_State* L, int table);

}  // namespace tycho::lua
