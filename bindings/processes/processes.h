// Other processes of this program, seen from Lua: starting them, connections to them, and memory that
// is shared with them. What users see of it is torch.multiprocessing.
#pragma once
#include "bindings/core/lua.h"

namespace tycho::lua {

// torch._spawn, _child_begins, _living_children, and what the other files add.
void open_processes(lua_State* L, int torch);
// torch._share, _is_shared, _word, _mutex: memory of tensors (shared_words.cpp).
void open_shared_words(lua_State* L, int torch);
// torch._serve: where ranks meet (serve.cpp).
void open_serve(lua_State* L, int torch);

}  // namespace tycho::lua
