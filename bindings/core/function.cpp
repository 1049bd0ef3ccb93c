// torch.autograd.Function: a user's own gradient becomes a node of the graph (torch/autograd.lua has
// the class).
#include "bindings/core/autograd.h"
#include "engine/grad/record.h"
#include "engine/ops/table/apply.h"

namespace tycho::lua {
namespace {

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

// _attach(name, ctx, backward, inputs, outputs): ties what another thread computed from the inputs to
// them: from here on the outputs have a graph, whose gradient is backward(ctx, gradients...).
int attach(lua_State* L) {
  TYCHO_CHECK(Kind::Argument, lua_isstring(L, 1) && lua_istable(L, 4) && lua_istable(L, 5),
              "_attach: wants a name, a context, a function and two lists of tensors");
  Ref<GraphNode> hold(new_node(nullptr));
  Node* node = static_cast<Node*>(hold.get());
  for (lua_Integer i = 1; lua_rawgeti(L, 4, i) != LUA_TNIL; ++i) {
    node->edges.push_back(edge_of(to_impl(L, -1)));
    lua_pop(L, 1);
  }
  lua_settop(L, 5);
  for (lua_Integer i = 1; lua_rawgeti(L, 5, i) != LUA_TNIL; ++i) {
    const Tensor& y = check_tensor(L, -1, "_attach");
    node->outputs.push_back({y.shape(), y.dtype(), y.device()});
    grad::set_history(y, node, static_cast<uint32_t>(i - 1));
    lua_pop(L, 1);
  }
  lua_pushvalue(L, 2);
  const int ctx = luaL_ref(L, LUA_REGISTRYINDEX);
  lua_pushvalue(L, 3);
  auto* custom = new LuaGrad(ctx, luaL_ref(L, LUA_REGISTRYINDEX));
  custom->name = luaL_checkstring(L, 1);
  node->custom = Ref<CustomGrad>(custom);
  return 0;
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

}  // namespace

void open_function(lua_State* L, int torch) {
  static const luaL_Reg functions[] = {{"_record", guarded<record_custom>},
                                       {"_attach", guarded<attach>},
                                       {"_saved", guarded<saved_tensors>},
                                       {nullptr, nullptr}};
  lua_getfield(L, torch, "autograd");
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}

}  // namespace tycho::lua
