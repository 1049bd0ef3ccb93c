// Lua functions that look into the graph or take part in what it keeps (graph.cpp).
#pragma once
#include "bindings/core/lua.h"

namespace tycho::lua {

void open_graph(lua_State* L, int torch);  // torch._reaches
void open_batch(lua_State* L, int torch);  // torch._batch (batch.cpp)
void open_saved(lua_State* L, int torch);  // torch._checkpoint, _saved_tensors_hooks (saved.cpp)

}  // namespace tycho::lua
