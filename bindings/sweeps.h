// What the bindings do around a backward pass: notes about nan, and the last small graph, which
// the prompt can still show after it was freed.
#pragma once
#include "bindings/lua.h"
#include "engine/grad/nan.h"

namespace tycho::lua {

struct LastSweep {
  Ref<GraphNode> root;
  grad::Freed freed{0};
};
LastSweep& last_sweep();

void look_at_loss(lua_State* L, const Tensor& loss);
bool wants_freed();
void look_at_gradients(lua_State* L, const Tensor& loss, grad::Freed&& freed, bool retained);

const char* place_name(grad::NanSource::Place place);
void push_nan_source(lua_State* L, const grad::NanSource& s);
bool push_note_function(lua_State* L, const char* name);  // of torch/notes.lua
void open_nan(lua_State* L, int torch);
void open_graph(lua_State* L, int torch);

}  // namespace tycho::lua
