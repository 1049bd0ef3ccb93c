// What the bindings do around a backward pass for the notes.
#pragma once
#include "bindings/core/lua.h"
#include "engine/watch/nan.h"

namespace tycho::lua {

void look_at_loss(lua_State* L, const Tensor& loss);
bool wants_freed();
void look_at_gradients(lua_State* L, const Tensor& loss, const watch::Freed& freed, bool retained);

bool push_note_function(lua_State* L, const char* name);  // of torch/notes.lua
void open_nan(lua_State* L, int torch);

}  // namespace tycho::lua
