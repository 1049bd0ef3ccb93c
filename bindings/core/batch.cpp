// What torch.vmap asks of the engine (engine/ops/table/batch.h): torch._batch, a table of functions.
#include "engine/ops/table/batch.h"

#include "bindings/core/graph.h"
#include "bindings/tools/check.h"

namespace tycho::lua {
namespace {

int depth_at(lua_State* L, int i) { return static_cast<int>(check_integer(L, i, "_batch")); }
size_t mark_at(lua_State* L, int i) { return static_cast<size_t>(check_integer(L, i, "_batch")); }

// one(all, depth): the tensor of one example. It wants a gradient where those of all do.
int lua_one(lua_State* L) {
  const Tensor all = check_tensor(L, 1, "_batch.one");
  TYCHO_CHECK(Kind::Shape, all.rank() > 0,
              "_batch.one: a tensor without dimensions has no examples");
  const Tensor one = one_of(all, depth_at(L, 2));
  one->requires_grad = all->requires_grad;
  push(L, one);
  return 1;
}

// all(tensor, depth): that of all examples, or nil.
int lua_all(lua_State* L) {
  push(L, all_of(check_tensor(L, 1, "_batch.all").get(), depth_at(L, 2)));
  return 1;
}

int lua_refused(lua_State* L) {
  const char* why = refused_batch();
  if (why)
    lua_pushstring(L, why);
  else
    lua_pushnil(L);
  return 1;
}

// first(): a map begins; ended(first, undo): it has ended, and what it changed in place is taken back.
int lua_first(lua_State* L) {
  lua_pushinteger(L, static_cast<lua_Integer>(begin_map()));
  return 1;
}

int lua_ended(lua_State* L) {
  end_map(mark_at(L, 1), lua_toboolean(L, 2));
  return 0;
}

}  // namespace

void open_batch(lua_State* L, int torch) {
  torch = lua_absindex(L, torch);
  static const luaL_Reg functions[] = {
      {"one", guarded<lua_one>},         {"all", guarded<lua_all>},
      {"refused", guarded<lua_refused>}, {"first", guarded<lua_first>},
      {"ended", guarded<lua_ended>},     {nullptr, nullptr}};
  luaL_newlib(L, functions);
  lua_setfield(L, torch, "_batch");
}

}  // namespace tycho::lua
