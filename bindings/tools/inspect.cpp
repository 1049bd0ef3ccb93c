// A look at tensors that keeps none alive: where a tensor's values lie, what it is a view of, and
// what its graph holds, as plain tables. Storages and tensors are told apart by their addresses.
#include <unordered_map>
#include <unordered_set>

#include "bindings/tools/tools.h"
#include "engine/grad/node.h"
#include "engine/grad/record.h"
#include "engine/tensor/backend.h"

namespace tycho::lua {
namespace {

void set_flag(lua_State* L, const char* key, bool on) {
  lua_pushboolean(L, on);
  lua_setfield(L, -2, key);
}
int64_t address(const void* p) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(p)); }

void push_node(lua_State* L, const Node* n) {
  lua_createtable(L, 0, 6);
  lua_pushstring(L, n->name());
  lua_setfield(L, -2, "name");
  lua_pushstring(L, n->where.source ? source_name(n->where.source).c_str() : "");
  lua_setfield(L, -2, "source");
  set_integer(L, "line", n->where.line);
  set_integer(L, "id", static_cast<int64_t>(n->id));
  set_integer(L, "saved", n->saved.size());
  set_flag(L, "freed", n->freed);
}

}  // namespace

// _inspect(x) -> {id=, storage=, storage_bytes=, bytes=, offset=, numel=, base=, leaf=,
// mapped=, requires_grad=, grad=, node={name=, source=, line=, id=, saved=, freed=}}; nil for other
// values.
int lua_inspect(lua_State* L) {
  Impl* t = to_impl(L, 1);
  if (!t) {
    lua_pushnil(L);
    return 1;
  }
  lua_createtable(L, 0, 12);
  set_integer(L, "id", address(t));
  set_integer(L, "storage", address(t->storage.get()));
  set_integer(L, "storage_bytes", static_cast<int64_t>(t->storage->bytes));
  set_integer(L, "bytes", t->numel * dtype_size(t->dtype));
  set_integer(L, "offset", t->offset);
  set_integer(L, "numel", t->numel);
  set_flag(L, "requires_grad", grad::requires_grad(t));
  set_flag(L, "leaf", !t->node);
  // Its memory is a file's.
  set_flag(L, "mapped",
           t->storage->free_data && !has_no_values(*t->storage) && !is_pinned(*t->storage));
  if (t->base) set_integer(L, "base", address(t->base.get()));
  if (t->extra && t->extra->grad) set_integer(L, "grad", address(t->extra->grad.get()));
  lua_pushstring(L, dtype_short_name(t->dtype));
  lua_setfield(L, -2, "dtype");
  if (t->node) {
    push_node(L, static_cast<const Node*>(t->node.get()));
    lua_setfield(L, -2, "node");
  }
  return 1;
}

// _graph(x) -> {nodes=, saved={[storage]=bytes}, leaves={[storage]=bytes}}: every tensor that the
// gradient of x will read, and the leaves it goes to; nil when x has no graph.
int lua_graph(lua_State* L) {
  Impl* t = to_impl(L, 1);
  if (!t || !grad::requires_grad(t) || !t->node) {
    lua_pushnil(L);
    return 1;
  }
  std::unordered_set<const Node*> seen;
  std::unordered_map<const Storage*, int64_t> saved, leaves;
  std::vector<const Node*> todo{static_cast<const Node*>(t->node.get())};
  seen.insert(todo[0]);
  while (!todo.empty()) {
    const Node* n = todo.back();
    todo.pop_back();
    for (const Saved& s : n->saved)
      if (s.tensor) saved[s.tensor->storage.get()] = static_cast<int64_t>(s.tensor->storage->bytes);
    for (const Edge& e : n->edges) {
      if (e.leaf) leaves[e.leaf->storage.get()] = static_cast<int64_t>(e.leaf->storage->bytes);
      if (const auto* m = static_cast<const Node*>(e.node.get()); m && seen.insert(m).second)
        todo.push_back(m);
    }
  }
  lua_createtable(L, 0, 3);
  set_integer(L, "nodes", static_cast<int64_t>(seen.size()));
  const auto push_map = [&](const char* key,
                            const std::unordered_map<const Storage*, int64_t>& map) {
    lua_createtable(L, 0, static_cast<int>(map.size()));
    for (const auto& [storage, bytes] : map) {
      lua_pushinteger(L, bytes);
      lua_rawseti(L, -2, address(storage));
    }
    lua_setfield(L, -2, key);
  };
  push_map("saved", saved);
  push_map("leaves", leaves);
  return 1;
}

void open_tools(lua_State* L, int torch) {
  static const luaL_Reg functions[] = {
      {"_attempt", guarded<lua_attempt>},   {"_observe", guarded<lua_observe>},
      {"_measure", guarded<lua_measure>},   {"_inspect", guarded<lua_inspect>},
      {"_graph", guarded<lua_graph>},       {"_unfold", guarded<lua_unfold>},
      {"_find_bad", guarded<lua_find_bad>}, {nullptr, nullptr}};
  lua_pushvalue(L, torch);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
  open_undo(L, torch);
}

}  // namespace tycho::lua
