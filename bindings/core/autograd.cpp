// Backward passes from Lua: backward, torch.autograd.grad, hooks on gradients.
#include "bindings/core/autograd.h"

#include <cstring>

#include "bindings/core/notes.h"
#include "engine/grad/backward.h"
#include "engine/grad/record.h"
#include "engine/ops/table/apply.h"
#include "engine/watch/notes.h"

namespace tycho::lua {
namespace {

// --- options in a table ---
bool option(lua_State* L, int table, const char* name) {
  if (lua_type(L, table) != LUA_TTABLE) return false;
  lua_getfield(L, table, name);
  const bool on = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return on;
}

// A tensor or a table of tensors (torch.none among them is an undefined one, when allowed).
std::vector<Tensor> tensor_list(lua_State* L, int i, const char* what, bool none = false) {
  std::vector<Tensor> list;
  if (to_impl(L, i)) {
    list.push_back(check_tensor(L, i, what));
  } else if (lua_type(L, i) == LUA_TTABLE) {
    for (int k = 1, n = static_cast<int>(lua_rawlen(L, i)); k <= n; ++k) {
      lua_rawgeti(L, i, k);
      if (none && lua_islightuserdata(L, -1))
        list.emplace_back();
      else
        list.push_back(check_tensor(L, -1, what));
      lua_pop(L, 1);
    }
  } else if (!lua_isnoneornil(L, i)) {
    std::string room;
    fail(Kind::Argument, format("%s: a tensor or a table of tensors is wanted, not %s", what,
                                describe_value(L, i, &room)));
  }
  return list;
}

// Runs a sweep; where a change in place stopped it, the hint is written with the user's own line.
template <class F>
void explained(lua_State* L, F sweep) {
  watch::last_blame = {};
  collect_before_sweep(L);
  struct Modes {  // scopes that hooks opened and closed inside saw the sweep's own modes
    lua_State* L;
    ~Modes() {
      modes_changed(L);
      look_from_here();
    }
  } const after{L};
  try {
    sweep();
  } catch (Error& e) {
    if (e.kind == Kind::Autograd && watch::last_blame.changed_at.source)
      e.hint = rewritten_change(L, e.hint);
    throw;
  }
}

// loss:backward(..), and of several tensors at once: _backward({losses}, {gradient = {..}, ..}).
int backward(lua_State* L) {
  const std::vector<Tensor> roots = lua_type(L, 1) == LUA_TTABLE && lua_rawlen(L, 1) > 0
                                        ? tensor_list(L, 1, "backward")
                                        : std::vector{check_tensor(L, 1, "backward")};
  const Tensor& x = roots.front();
  grad::SweepOptions o;
  std::vector<Tensor> grads, inputs;
  for (int i = 2, n = lua_gettop(L); i <= n; ++i) {
    if (to_impl(L, i)) {
      grads.push_back(check_tensor(L, i, "backward"));
    } else if (i == 3 && lua_isboolean(L, i)) {  // as PyTorch's positions
      o.retain_graph = lua_toboolean(L, i);
    } else if (i == 4 && lua_isboolean(L, i)) {
      o.create_graph = lua_toboolean(L, i);
    } else if (lua_type(L, i) == LUA_TTABLE) {
      check_options(L, i, "backward", {"gradient", "retain_graph", "create_graph", "inputs"});
      lua_getfield(L, i, "gradient");
      if (!lua_isnil(L, -1)) grads = tensor_list(L, lua_gettop(L), "backward", true);
      lua_getfield(L, i, "inputs");
      if (!lua_isnil(L, -1)) inputs = tensor_list(L, lua_gettop(L), "backward");
      lua_pop(L, 2);
      o.create_graph = option(L, i, "create_graph");
      o.retain_graph = option(L, i, "retain_graph");
    } else if (!lua_isnil(L, i)) {
      std::string room;
      fail(Kind::Argument,
           format("backward: the gradient must be a tensor, not %s", describe_value(L, i, &room)));
    }
  }
  sweep_begins(L, x);
  if (!wants_freed()) {
    explained(L, [&] { grad::backward(roots, grads, o, inputs); });
  } else {
    watch::Freed freed(64 << 20);
    o.observer = &freed;
    explained(L, [&] { grad::backward(roots, grads, o, inputs); });
    look_at_gradients(L, x, freed, o.retain_graph || o.create_graph);
  }
  pace_collector(L);
  return 0;
}

// torch.autograd.grad(outputs, inputs, {...}) -> one value per input
int grad_of(lua_State* L) {
  if (lua_gettop(L) == 1 && lua_istable(L, 1)) {  // grad{outputs=loss, inputs=x, ...}
    if (lua_getfield(L, 1, "outputs") != LUA_TNIL) {
      lua_getfield(L, 1, "inputs");
      lua_rotate(L, 1, 2);
    }
  }
  const std::vector<Tensor> outputs = tensor_list(L, 1, "grad"), inputs = tensor_list(L, 2, "grad");
  TYCHO_CHECK(Kind::Argument, !outputs.empty() && !inputs.empty(),
              "grad: wants the result(s) and the input(s)");
  grad::SweepOptions o;
  std::vector<Tensor> grads;
  if (lua_gettop(L) > 3) {  // as PyTorch's positions; the last may be a table of names
    TYCHO_CHECK(Kind::Argument, lua_gettop(L) <= (lua_istable(L, -1) ? 8 : 7),
                "grad: takes at most 7 arguments, not %d", lua_gettop(L));
    if (!lua_istable(L, -1)) lua_newtable(L);
    const int named = lua_gettop(L);
    static constexpr const char* names[] = {"grad_outputs", "retain_graph", "create_graph",
                                            "only_inputs", "allow_unused"};
    for (int i = 3; i < named; ++i) {
      if (lua_isnil(L, i)) continue;
      lua_pushvalue(L, i);
      lua_setfield(L, named, names[i - 3]);
    }
    lua_replace(L, 3);
    lua_settop(L, 3);
  }
  if (lua_type(L, 3) == LUA_TTABLE && !to_impl(L, 3)) {
    check_options(L, 3, "grad",
                  {"grad_outputs", "retain_graph", "create_graph", "allow_unused", "outputs",
                   "inputs", "only_inputs"});
    o.create_graph = option(L, 3, "create_graph");
    o.retain_graph = option(L, 3, "retain_graph");
    o.allow_unused = option(L, 3, "allow_unused");
    lua_getfield(L, 3, "grad_outputs");
    grads = tensor_list(L, lua_gettop(L), "grad", true);
    lua_pop(L, 1);
  } else if (!lua_isnoneornil(L, 3)) {
    grads = tensor_list(L, 3, "grad", true);
  }
  std::vector<Tensor> result;
  explained(L, [&] { result = grad::gradients(outputs, inputs, grads, o); });
  luaL_checkstack(L, static_cast<int>(result.size()) + 2, "grad");
  for (const Tensor& t : result) push(L, t);
  pace_collector(L);
  return static_cast<int>(result.size());
}

// --- hooks ---
struct LuaHook final : Hook {
  int ref;
  explicit LuaHook(int r) : ref(r) {}
  Tensor call(const Tensor& g) override {
    lua_State* L = running;
    luaL_checkstack(L, 4, "hook");
    lua_rawgeti(L, LUA_REGISTRYINDEX, ref);
    push(L, g);
    lua_call(L, 1, 1);
    Tensor other;
    if (Impl* t = to_impl(L, -1)) other = Tensor(t);
    lua_pop(L, 1);
    if (other && !(other.shape() == g.shape()))
      fail(Kind::Shape, format("hook: it returned a gradient of shape %s for one of shape %s",
                               to_string(other.shape()).c_str(), to_string(g.shape()).c_str()));
    return other;
  }
  void free_hook() override {
    drop_later(ref);
    delete this;
  }
};

int remove_hook(lua_State* L) {
  lua_getfield(L, 1, "tensor");
  lua_getfield(L, 1, "id");
  if (to_impl(L, -2)) grad::remove_hook(check_tensor(L, -2, "remove"), lua_tointeger(L, -1));
  return 0;
}

int register_hook(lua_State* L) {
  const bool after = lua_toboolean(L, lua_upvalueindex(1));  // x:_hook_after(f)
  const Tensor x = check_tensor(L, 1, "register_hook");
  TYCHO_CHECK(Kind::Argument, lua_isfunction(L, 2),
              "register_hook: wants a function of the gradient");
  TYCHO_CHECK(Kind::Autograd, after || grad::requires_grad(x.get()),
              "register_hook: the tensor does not require grad");
  lua_pushvalue(L, 2);
  const Ref<Hook> hook(new LuaHook(luaL_ref(L, LUA_REGISTRYINDEX)));
  const int64_t id = after ? grad::add_hook_after(x, hook) : grad::add_hook(x, hook);
  lua_createtable(L, 0, 3);
  lua_pushvalue(L, 1);
  lua_setfield(L, -2, "tensor");
  lua_pushinteger(L, id);
  lua_setfield(L, -2, "id");
  lua_pushcfunction(L, guarded<remove_hook>);
  lua_setfield(L, -2, "remove");
  return 1;
}

int retain_grad(lua_State* L) {
  grad::retain_grad(check_tensor(L, 1, "retain_grad"));
  return 0;
}

int detach_(lua_State* L) {
  const Tensor& x = check_tensor(L, 1, "detach_");
  TYCHO_CHECK(Kind::Autograd, !x->base, "detach_: this tensor is a view; use y = x:detach()");
  x->node = nullptr;
  x->requires_grad = false;
  lua_settop(L, 1);
  return 1;
}

}  // namespace

void check_options(lua_State* L, int table, const char* op,
                   std::initializer_list<const char*> names) {
  lua_pushnil(L);
  while (lua_next(L, table)) {
    lua_pop(L, 1);
    if (lua_type(L, -1) != LUA_TSTRING) continue;
    const char* key = lua_tostring(L, -1);
    bool known = false;
    std::string all;
    for (const char* n : names) {
      known = known || !std::strcmp(n, key);
      all += (all.empty() ? "" : ", ") + std::string(n);
    }
    TYCHO_CHECK(Kind::Argument, known, "%s: no argument \"%s\" (it has: %s)", op, key, all.c_str());
  }
}

void open_autograd(lua_State* L, int torch) {
  torch = lua_absindex(L, torch);
  static const luaL_Reg autograd[] = {
      {"grad", guarded<grad_of>}, {"_backward", guarded<backward>}, {nullptr, nullptr}};
  luaL_newlib(L, autograd);
  lua_setfield(L, torch, "autograd");
  push_methods(L);
  static const luaL_Reg methods[] = {{"backward", guarded<backward>},
                                     {"register_hook", guarded<register_hook>},
                                     {"retain_grad", guarded<retain_grad>},
                                     {"detach_", guarded<detach_>},
                                     {nullptr, nullptr}};
  luaL_setfuncs(L, methods, 0);
  lua_pushboolean(L, true);
  lua_pushcclosure(L, guarded<register_hook>, 1);
  lua_setfield(L, -2, "_hook_after");
  lua_pop(L, 1);
  open_script_line(L);
  open_function(L, torch);
  open_modes(L, torch);
}

}  // namespace tycho::lua
