// The search for the first nan from Lua: after a loss that is nan (in scripts too, once), after
// gradients that are nan (where the prompt asks for it), and for %nan.
#include "bindings/lua.h"
#include "bindings/sweeps.h"
#include "engine/grad/nan.h"
#include "engine/grad/note.h"

namespace tycho::lua {
namespace {

bool said = false;
bool watching = false;  // the prompt looks at gradients too
thread_local LastSweep last;

void show_source(lua_State* L, const grad::NanSource& s) {
  const int top = lua_gettop(L);
  if (!push_note_function(L, "nan_found")) return;
  lua_pushstring(L, place_name(s.place));
  push_nan_source(L, s);
  lua_call(L, 2, 0);
  lua_settop(L, top);
}

}  // namespace

const char* place_name(grad::NanSource::Place place) {
  static const char* const names[] = {"nowhere", "loss", "data", "gradient", "somewhere"};
  return names[place];
}

void push_nan_source(lua_State* L, const grad::NanSource& s) {
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

LastSweep& last_sweep() { return last; }

// Before a sweep: is the loss a number? (One element in the CPU's memory: reading it costs nothing.)
void look_at_loss(lua_State* L, const Tensor& loss) {
  if (said || loss.numel() != 1 || !loss.device().is_cpu() || !is_floating(loss.dtype())) return;
  const double value = read_double(loss.get(), 0);
  if (value == value) [[likely]]
    return;
  if (grad::note_is_done("NAN", {})) return;
  said = true;
  show_source(L, grad::find_nan(loss));
}

bool wants_freed() { return watching; }

// After a sweep at the prompt: is every leaf's gradient finite? `freed` has what the graph kept.
void look_at_gradients(lua_State* L, const Tensor& loss, grad::Freed&& freed, bool retained) {
  if (!said && !(freed.too_much && !retained)) {
    bool finite = true;
    for (const auto& leaf : freed.leaves)
      if (leaf->extra && leaf->extra->grad)
        finite = finite && grad::all_finite(leaf->extra->grad);
    if (!finite) {
      said = true;
      const grad::Unfreed scope(freed);
      const grad::NanSource s = grad::find_nan_gradient(loss);
      if (s.place == grad::NanSource::Gradient) show_source(L, s);
    }
  }
  // Small graphs stay for a while: %graph shows their gradients after backward().
  constexpr size_t kSmall = 1 << 20;
  last.root = nullptr;
  last.freed = grad::Freed(kSmall);
  if (!freed.too_much && !retained && freed.bytes <= kSmall && freed.nodes.size() <= 2000) {
    last.root = loss->node;
    last.freed = std::move(freed);
  }
}

namespace {

// _nan(loss) -> where its first nan comes from: {place =, op =, at =, what =, element =, then_op =}
int lua_nan(lua_State* L) {
  const Tensor x = check_tensor(L, 1, "%nan");
  grad::NanSource s = grad::find_nan(x);
  if (s.place == grad::NanSource::Nowhere && x->node) {
    if (last.root.get() == x->node.get() && last.root) {
      const grad::Unfreed scope(last.freed);
      s = grad::find_nan_gradient(x);
    } else {
      s = grad::find_nan_gradient(x);
    }
  }
  push_nan_source(L, s);
  return 1;
}

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
  static const luaL_Reg functions[] = {{"_nan", guarded<lua_nan>},
                                       {"_watch_gradients", guarded<watch>},
                                       {"_nan_again", guarded<again>},
                                       {nullptr, nullptr}};
  lua_pushvalue(L, torch);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}

}  // namespace tycho::lua
