// Autograd from Lua: backward, grad, hooks, and the modes with their two scope forms.
#include <cstring>

#include "bindings/core/insides.h"
#include "bindings/core/sweeps.h"
#include "engine/amp/autocast.h"
#include "engine/grad/backward.h"
#include "engine/grad/record.h"
#include "engine/ops/table/apply.h"
#include "engine/watch/notes.h"

namespace tycho::lua {
namespace {

// --- places in scripts ---
Where look_up_line(lua_State* L) {
  lua_Debug ar;
  for (int level = 1; level < 12 && lua_getstack(L, level, &ar); ++level) {
    lua_getinfo(L, "Sl", &ar);
    if (ar.currentline <= 0 || !std::strncmp(ar.source, "=torch/", 7)) continue;
    // The same chunk as last time, almost always: compare before looking up.
    static thread_local std::string last;
    static thread_local uint32_t last_id = 0;
    if (last != ar.short_src) {
      last = ar.short_src;
      last_id = intern_source(ar.short_src);
    }
    return {last_id, ar.currentline};
  }
  return {};
}

// Finding a line costs as much as making a node, so lines are kept by the caller's program counter,
// where that can be found. Code that is freed may be followed by other code at its place: code_epoch
// counts what the collector frees.
Where line_by_program_counter() {
  struct Kept {
    const void* pc;
    uint64_t epoch;
    Where where;
  };
  static thread_local Kept kept[64];
  lua_State* L = running;
  lua_Debug ar;
  if (!lua_getstack(L, 1, &ar)) return {};
  const void* pc = insides::program_counter(ar);
  Kept& k = kept[(reinterpret_cast<uintptr_t>(pc) >> 2) % 64];
  if (k.pc == pc && k.epoch == code_epoch && pc) return k.where;
  const Where where = look_up_line(L);
  lua_getinfo(L, "l", &ar);
  if (ar.currentline > 0) k = {pc, code_epoch, where};  // the direct caller is Lua code, not C
  return where;
}
Where line_looked_up() { return look_up_line(running); }

// --- options in a table ---
bool option(lua_State* L, int table, const char* name) {
  if (lua_type(L, table) != LUA_TTABLE) return false;
  lua_getfield(L, table, name);
  const bool on = lua_toboolean(L, -1);
  lua_pop(L, 1);
  return on;
}

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
  struct Modes {  // scopes that hooks opened and closed inside saw the sweep's own modes
    lua_State* L;
    ~Modes() { modes_changed(L); }
  } const after{L};
  try {
    sweep();
  } catch (Error& e) {
    if (e.kind == Kind::Autograd && watch::last_blame.changed_at.source)
      e.hint = rewritten_change(L, e.hint);
    throw;
  }
}

int backward(lua_State* L) {
  const Tensor x = check_tensor(L, 1, "backward");
  grad::SweepOptions o;
  std::vector<Tensor> grads, inputs;
  bool retain_given = false;
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
      retain_given = true;
    } else if (!lua_isnil(L, i)) {
      std::string room;
      fail(Kind::Argument,
           format("backward: the gradient must be a tensor, not %s", describe_value(L, i, &room)));
    }
  }
  (void)retain_given;
  sweep_begins(L, x);
  if (!wants_freed()) {
    explained(L, [&] { grad::backward({x}, grads, o, inputs); });
  } else {
    watch::Freed freed(64 << 20);
    o.observer = &freed;
    explained(L, [&] { grad::backward({x}, grads, o, inputs); });
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

// --- torch.autograd.Function ---
struct LuaGrad final : CustomGrad {
  int ctx, function;
  LuaGrad(int c, int f) : ctx(c), function(f) {}
  std::vector<Tensor> backward(Node& node, const std::vector<Tensor>& grads) override {
    lua_State* L = running;
    const int top = lua_gettop(L), n = static_cast<int>(grads.size());
    luaL_checkstack(L, n + 8, "backward");
    if (node.freed)
      fail(Kind::Autograd,
           format("backward: the graph of %s%s was already used and is freed", name.c_str(),
                  at(node.where).c_str()),
           "loss:backward{retain_graph=true}  -- only if two passes over one graph are meant");
    lua_rawgeti(L, LUA_REGISTRYINDEX, function);
    lua_rawgeti(L, LUA_REGISTRYINDEX, ctx);
    lua_pushlightuserdata(L, &node);
    lua_setfield(L, -2, "_node");
    lua_getfield(L, -1, "_keep_undefined");
    const bool keep = lua_toboolean(L, -1);
    lua_pop(L, 1);
    for (int i = 0; i < n; ++i) {
      if (grads[static_cast<size_t>(i)] || keep)
        push(L, grads[static_cast<size_t>(i)]);
      else
        push(L, filled(node.outputs[i].shape, 0, node.outputs[i].dtype, node.outputs[i].device));
    }
    lua_call(L, n + 1, LUA_MULTRET);
    std::vector<Tensor> out;
    const int m = lua_gettop(L) - top;
    for (int i = 0; i < node.edges.size(); ++i) {
      Tensor g;
      if (i < m && !lua_isnil(L, top + 1 + i))
        g = check_tensor(L, top + 1 + i, (name + ".backward").c_str());
      if (g && node.edges[i] && !broadcast_fits(node.edges[i], g))
        fail(Kind::Shape,
             format("%s.backward: gradient %d has shape %s, which does not fit its input",
                    name.c_str(), i + 1, to_string(g.shape()).c_str()));
      out.push_back(std::move(g));
    }
    lua_settop(L, top);
    return out;
  }
  static bool broadcast_fits(const Edge& e, const Tensor& g) {
    const Sizes want =
        e.leaf ? Sizes(e.leaf->shape, e.leaf->rank)
               : static_cast<Node*>(e.node.get())->outputs[static_cast<int>(e.output)].shape;
    if (want.n > g.rank()) return false;
    const int lead = g.rank() - want.n;
    for (int d = 0; d < want.n; ++d)
      if (want[d] != 1 && want[d] != g.size(lead + d)) return false;
    return true;
  }
  void free_custom() override {
    drop_later(ctx);
    drop_later(function);
    delete this;
  }
};

// Gives what ctx saved to the hooks: it moves from ctx into the node.
void pack_context(lua_State* L, Node* node, int places) {
  lua_getfield(L, 2, "_saved");
  for (int k = 1, n = lua_istable(L, -1) ? static_cast<int>(lua_rawlen(L, -1)) : 0; k <= n; ++k) {
    lua_rawgeti(L, -1, k);
    lua_rawgeti(L, places, k);
    Impl* t = to_impl(L, -2);
    Saved& s = node->saved.emplace_back();
    s.tensor = Ref<Impl>(t);
    s.output = lua_isinteger(L, -1);
    grad::pack_saved(s, s.output ? nullptr : t);
    lua_pop(L, 2);
    lua_pushboolean(L, false);
    lua_rawseti(L, -2, k);
  }
  lua_pop(L, 1);
}

// _record(name, ctx, backward, {inputs, n=}, {outputs, n=}) -> outputs with history. ctx._saved
// holds saved tensors; those that are outputs are noted in ctx._saved_outputs (place -> output
// number).
int record_custom(lua_State* L) {
  Ref<GraphNode> hold(new_node(nullptr));
  Node* node = static_cast<Node*>(hold.get());
  const auto length = [&](int table) {
    lua_getfield(L, table, "n");
    const int n = static_cast<int>(lua_tointeger(L, -1));
    lua_pop(L, 1);
    return n;
  };
  const int inputs = length(4), outputs = length(5);
  for (int i = 1; i <= inputs; ++i) {
    lua_rawgeti(L, 4, i);
    node->edges.push_back(edge_of(to_impl(L, -1)));
    lua_pop(L, 1);
  }
  luaL_checkstack(L, outputs + 4, "outputs");
  lua_newtable(L);  // saved place -> output
  const int places = lua_gettop(L);
  int output = 0;
  for (int i = 1; i <= outputs; ++i) {
    lua_rawgeti(L, 5, i);
    Impl* t = to_impl(L, -1);
    if (!t) continue;  // not a tensor: handed through
    lua_getfield(L, 2, "_saved");
    for (int k = 1, n = lua_istable(L, -1) ? static_cast<int>(lua_rawlen(L, -1)) : 0; k <= n; ++k) {
      lua_rawgeti(L, -1, k);
      if (to_impl(L, -1) == t) {
        lua_pushinteger(L, output);
        lua_rawseti(L, places, k);
      }
      lua_pop(L, 1);
    }
    lua_pop(L, 1);
    bool differentiable = is_floating(t->dtype);
    if (lua_getfield(L, 2, "_constant") == LUA_TTABLE)
      for (int k = 1, n = static_cast<int>(lua_rawlen(L, -1)); k <= n; ++k) {
        lua_rawgeti(L, -1, k);
        if (to_impl(L, -1) == t) differentiable = false;
        lua_pop(L, 1);
      }
    lua_pop(L, 1);
    // The user gets another header of the same storage: what ctx saved stays without history, so
    // that node and ctx make no cycle.
    Tensor y = alias(Tensor(t));
    node->outputs.push_back({y.shape(), y.dtype(), y.device()});
    if (differentiable) grad::set_history(y, node, static_cast<uint32_t>(output));
    ++output;
    lua_pop(L, 1);
    push(L, y);
  }
  if (save_hooks) [[unlikely]]
    pack_context(L, node, places);
  lua_pushvalue(L, places);
  lua_setfield(L, 2, "_saved_outputs");
  lua_pushvalue(L, 2);
  const int ctx = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_pushvalue(L, 3);
  auto* custom = new LuaGrad(ctx, luaL_ref(L, LUA_REGISTRYINDEX));
  custom->name = luaL_checkstring(L, 1);
  node->custom = Ref<CustomGrad>(custom);
  return lua_gettop(L) - places;
}

// _saved(ctx): the saved tensors, checked against changes; outputs come back with their history.
int saved_tensors(lua_State* L) {
  lua_getfield(L, 1, "_saved");
  lua_getfield(L, 1, "_versions");
  lua_getfield(L, 1, "_saved_outputs");
  lua_getfield(L, 1, "_node");
  const int saved = 2, versions = 3, places = 4;
  const int n = lua_istable(L, saved) ? static_cast<int>(lua_rawlen(L, saved)) : 0;
  auto* node = static_cast<Node*>(lua_touserdata(L, 5));
  lua_createtable(L, n, 0);
  for (int k = 1; k <= n; ++k) {
    if (node && k <= node->saved.size()) {  // the hooks have it
      lua_rawgeti(L, places, k);
      push(L, unpack_saved(*node, node->saved[k - 1], static_cast<int>(lua_tointeger(L, -1))));
      lua_rawseti(L, -3, k);
      lua_pop(L, 1);
      continue;
    }
    lua_rawgeti(L, saved, k);
    lua_rawgeti(L, versions, k);
    if (Impl* t = to_impl(L, -2); t && t->storage->version != lua_tointeger(L, -1))
      fail(Kind::Autograd,
           format("backward: saved tensor %d of %s was changed in place since", k,
                  node ? node->name() : "the function"),
           "save a clone: ctx:save_for_backward(x:clone())");
    lua_pop(L, 1);
    if (node && lua_istable(L, places)) {
      if (lua_rawgeti(L, places, k) == LUA_TNUMBER) {
        Tensor y = alias(Tensor(to_impl(L, -2)));
        grad::set_history(y, node, static_cast<uint32_t>(lua_tointeger(L, -1)));
        push(L, y);
        lua_replace(L, -3);
      }
      lua_pop(L, 1);
    }
    lua_rawseti(L, -2, k);
  }
  return 1;
}

// --- modes and scopes ---
enum class Scope : int { NoGrad, EnableGrad, SetGrad, Inference, Autocast };

struct Before {
  bool grad, inference;
  amp::Region region;
  bool open;
  bool anomaly;
  bool collect;  // torch.scope: what was made inside and is not reachable goes at once
};
const char kScope[] = "tycho.scope";

int close_scope(lua_State* L) {
  auto* b = static_cast<Before*>(luaL_checkudata(L, 1, kScope));
  if (!b->open) return 0;
  b->open = false;
  mode.grad = b->grad;
  mode.inference = b->inference;
  amp::set(b->region);
  grad::detect_anomaly = b->anomaly;
  modes_changed(L);
  if (b->collect) lua_gc(L, LUA_GCCOLLECT);
  return 0;
}

int finish_scope(lua_State* L, int, lua_KContext base) {
  // Results lie above the scope object, which closes as this function returns.
  return lua_gettop(L) - static_cast<int>(base);
}

// Changes the modes, then either runs the function at stack slot `f` inside or returns the scope.
int open_scope(lua_State* L, int f, void (*change)(lua_State*), bool collect = false) {
  auto* b = static_cast<Before*>(lua_newuserdatauv(L, sizeof(Before), 0));
  *b = Before{mode.grad, mode.inference, amp::current(), true, grad::detect_anomaly, collect};
  luaL_setmetatable(L, kScope);
  change(L);
  modes_changed(L);
  if (!lua_isfunction(L, f)) return 1;
  lua_toclose(L, -1);
  const int base = lua_gettop(L);
  lua_pushvalue(L, f);
  lua_callk(L, 0, LUA_MULTRET, base, finish_scope);
  return finish_scope(L, LUA_OK, base);
}

int scope(lua_State* L) {
  return open_scope(
      L, 1, [](lua_State*) {}, true);
}
int no_grad(lua_State* L) {
  return open_scope(L, 1, [](lua_State*) { mode.grad = false; });
}
int enable_grad(lua_State* L) {
  return open_scope(L, 1, [](lua_State*) { mode.grad = true; });
}
int inference_mode(lua_State* L) {
  const bool off = lua_isboolean(L, 1) && !lua_toboolean(L, 1);
  const int f = lua_isfunction(L, 1) ? 1 : 2;
  if (off) return open_scope(L, f, [](lua_State*) {});
  return open_scope(L, f, [](lua_State*) {
    mode.grad = false;
    mode.inference = true;
  });
}
int set_grad_enabled(lua_State* L) {
  TYCHO_CHECK(Kind::Argument, lua_isboolean(L, 1), "set_grad_enabled: wants true or false");
  return open_scope(L, 2, [](lua_State* S) { mode.grad = lua_toboolean(S, 1); });
}
int detect_anomaly(lua_State* L) {
  return open_scope(L, 1, [](lua_State*) { grad::detect_anomaly = true; });
}
int set_detect_anomaly(lua_State* L) {
  TYCHO_CHECK(Kind::Argument, lua_isboolean(L, 1), "set_detect_anomaly: wants true or false");
  return open_scope(L, 2, [](lua_State* S) { grad::detect_anomaly = lua_toboolean(S, 1); });
}
int is_grad_enabled(lua_State* L) {
  lua_pushboolean(L, mode.grad);
  return 1;
}
int is_inference_mode(lua_State* L) {
  lua_pushboolean(L, mode.inference);
  return 1;
}

// The name of a device as argument 1, "cpu" when absent.
const char* device_argument(lua_State* L, const char* function) {
  if (lua_isnoneornil(L, 1)) return "cpu";
  std::string room;
  TYCHO_CHECK(Kind::Argument, lua_type(L, 1) == LUA_TSTRING,
              "%s: argument 1 must be \"cpu\" or \"cuda\", not %s", function,
              describe_value(L, 1, &room));
  return lua_tostring(L, 1);
}

// autocast{device_type="cuda", dtype=...}: the device comes first, and the table has the rest.
void take_device_type(lua_State* L) {
  if (!lua_istable(L, 1)) return;
  lua_newtable(L);
  lua_pushnil(L);
  while (lua_next(L, 1)) {
    const bool word = lua_type(L, -2) == LUA_TSTRING;
    if (word && std::strcmp(lua_tostring(L, -2), "device_type") != 0) {
      lua_pushvalue(L, -2);
      lua_insert(L, -2);
      lua_rawset(L, -4);
    } else {
      lua_pop(L, 1);
    }
  }
  if (lua_getfield(L, 1, "device_type") == LUA_TNIL) {
    lua_pop(L, 1);
    lua_rawgeti(L, 1, 1);
  }
  lua_replace(L, 1);
  lua_insert(L, 2);
}

// torch.autocast(device, {dtype=, enabled=, cache_enabled=}, f)
// autocast(device, dtype, enabled, cache_enabled, f): what stands by position goes into the table.
void take_positions(lua_State* L) {
  static constexpr const char* names[] = {"dtype", "enabled", "cache_enabled"};
  int end = 2;
  if (!lua_istable(L, 2))
    while (end <= lua_gettop(L) && end < 5 && !lua_isfunction(L, end)) ++end;
  if (end == 2) return;
  lua_createtable(L, 0, 3);
  for (int i = 2; i < end; ++i) {
    lua_pushvalue(L, i);
    lua_setfield(L, -2, names[i - 2]);
  }
  lua_insert(L, 2);
  for (int i = 2; i < end; ++i) lua_remove(L, 3);
}

int autocast(lua_State* L) {
  take_device_type(L);
  take_positions(L);
  if (Device d; lua_type(L, 1) == LUA_TUSERDATA && to_device(L, 1, &d)) {
    lua_pushstring(L, d.is_cpu() ? "cpu" : "cuda");
    lua_replace(L, 1);
  }
  const char* device = device_argument(L, "autocast");
  const bool cuda = !std::strncmp(device, "cuda", 4);
  TYCHO_CHECK(Kind::Device, cuda || !std::strcmp(device, "cpu"),
              "autocast: \"%s\" is no device; write \"cpu\" or \"cuda\"", device);
  int f = 2;
  if (lua_istable(L, 2)) {
    f = 3;
    check_options(L, 2, "autocast", {"dtype", "enabled", "cache_enabled"});
    lua_getfield(L, 2, "dtype");
    DType t;
    std::string room;
    if (!lua_isnil(L, -1)) {
      TYCHO_CHECK(Kind::DType, to_dtype(L, -1, &t), "autocast: %s is no dtype",
                  describe_value(L, -1, &room));
      TYCHO_CHECK(Kind::DType, t == DType::BFloat16 || t == DType::Float16,
                  "autocast: runs in bfloat16 or float16, not %s", dtype_name(t));
    }
    lua_pop(L, 1);
  }
  return open_scope(L, f, [](lua_State* S) {
    amp::Region r = amp::current();
    const bool on_cuda = !std::strncmp(device_argument(S, "autocast"), "cuda", 4);
    bool enabled = true;
    if (lua_istable(S, 2)) {
      lua_getfield(S, 2, "enabled");
      enabled = lua_isnil(S, -1) || lua_toboolean(S, -1);
      lua_getfield(S, 2, "dtype");
      DType t;
      if (to_dtype(S, -1, &t)) (on_cuda ? r.cuda_dtype : r.cpu_dtype) = t;
      lua_getfield(S, 2, "cache_enabled");
      if (!lua_isnil(S, -1)) r.cache = lua_toboolean(S, -1);
      lua_pop(S, 3);
    }
    (on_cuda ? r.cuda : r.cpu) = enabled;
    amp::set(r);
  });
}
int is_autocast_enabled(lua_State* L) {
  const bool cuda = !std::strncmp(device_argument(L, "is_autocast_enabled"), "cuda", 4);
  lua_pushboolean(L, cuda ? amp::current().cuda : amp::current().cpu);
  return 1;
}

}  // namespace

void open_autograd(lua_State* L, int torch) {
  torch = lua_absindex(L, torch);
  if (!current_where)
    current_where = insides::knows_program_counter(L) ? line_by_program_counter : line_looked_up;
  luaL_newmetatable(L, kScope);
  lua_pushcfunction(L, guarded<close_scope>);
  lua_setfield(L, -2, "__close");
  lua_pop(L, 1);
  lua_pushvalue(L, torch);
  static const luaL_Reg functions[] = {{"scope", guarded<scope>},
                                       {"no_grad", guarded<no_grad>},
                                       {"enable_grad", guarded<enable_grad>},
                                       {"inference_mode", guarded<inference_mode>},
                                       {"_detect_anomaly", guarded<detect_anomaly>},
                                       {"_set_detect_anomaly", guarded<set_detect_anomaly>},
                                       {"set_grad_enabled", guarded<set_grad_enabled>},
                                       {"is_grad_enabled", guarded<is_grad_enabled>},
                                       {"is_inference_mode_enabled", guarded<is_inference_mode>},
                                       {"autocast", guarded<autocast>},
                                       {"is_autocast_enabled", guarded<is_autocast_enabled>},
                                       {nullptr, nullptr}};
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
  static const luaL_Reg autograd[] = {{"grad", guarded<grad_of>},
                                      {"_record", guarded<record_custom>},
                                      {"_saved", guarded<saved_tensors>},
                                      {nullptr, nullptr}};
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
}

}  // namespace tycho::lua
