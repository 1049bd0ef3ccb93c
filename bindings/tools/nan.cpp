// The notes about nan: of a loss that is nan (in scripts too, once a run) and, where the prompt
// asks for it, of gradients that are not finite.
#include "engine/watch/nan.h"

#include "bindings/core/lua.h"
#include "bindings/core/notes.h"
#include "engine/tensor/read.h"
#include "engine/watch/notes.h"

namespace tycho::lua {
namespace {

thread_local bool said = false;
thread_local bool watching = false;  // the prompt looks at gradients too

const char* place_name(watch::NanSource::Place place) {
  static const char* const names[] = {"nowhere",   "loss",     "data",
                                      "parameter", "gradient", "somewhere"};
  return names[place];
}

void push_nan_source(lua_State* L, const watch::NanSource& s) {
  lua_createtable(L, 0, 6);
  const auto set = [&](const char* name, const std::string& value) {
    lua_pushlstring(L, value.data(), value.size());
    lua_setfield(L, -2, name);
  };
  set("op", s.op);
  set("at", at(s.where));
  set("what", s.infinite ? "infinity" : "nan");
  set("then_op", s.then);
  set("element", s.element);
  set("place", place_name(s.place));
}

void show_source(lua_State* L, const watch::NanSource& s) {
  const int top = lua_gettop(L);
  if (!push_note_function(L, "nan_found")) return;
  lua_pushstring(L, place_name(s.place));
  push_nan_source(L, s);
  lua_call(L, 2, 0);
  lua_settop(L, top);
}

}  // namespace

// Before a sweep: is the loss a number? (One element in the CPU's memory: reading it costs
// nothing.)
void look_at_loss(lua_State* L, const Tensor& loss) {
  if (said || loss.numel() != 1 || !loss.device().is_cpu() || !is_floating(loss.dtype())) return;
  const double value = item(loss);
  if (value == value) [[likely]]
    return;
  if (watch::note_is_done("NAN", {})) return;
  said = true;
  show_source(L, watch::find_nan(loss));
}

bool wants_freed() { return watching; }

// After a sweep at the prompt: is every leaf's gradient finite? `freed` has what the graph kept.
void look_at_gradients(lua_State* L, const Tensor& loss, const watch::Freed& freed, bool retained) {
  if (said || (freed.too_much && !retained)) return;
  bool finite = true;
  for (const auto& leaf : freed.leaves)
    if (leaf->extra && leaf->extra->grad) finite = finite && watch::all_finite(leaf->extra->grad);
  if (finite) return;
  for (const auto& kept : freed.nodes)  // a user's own gradient is not run a second time
    if (static_cast<Node*>(kept.node.get())->custom) return;
  said = true;
  const watch::Unfreed scope(freed);
  watch::NanSource s;
  try {
    s = watch::find_nan_gradient(loss);
  } catch (const Error& e) {
    if (e.kind == Kind::Interrupt) throw;
  }
  if (s.place == watch::NanSource::Gradient) show_source(L, s);
}

namespace {

int watch(lua_State* L) {
  watching = lua_toboolean(L, 1);
  return 0;
}

int again(lua_State*) {
  said = false;
  return 0;
}

}  // namespace

void open_nan(lua_State* L, int torch) {
  static const luaL_Reg functions[] = {
      {"_watch_gradients", guarded<watch>}, {"_nan_again", guarded<again>}, {nullptr, nullptr}};
  lua_pushvalue(L, torch);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}

}  // namespace tycho::lua
