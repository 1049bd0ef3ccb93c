// Reducers as Lua values, torch._reducer: what DistributedDataParallel (torch/nn/parallel.lua) is
// made of; and what makes ranks equal before they train.
#include "bindings/dist/reducer.h"

#include "bindings/dist/dist.h"
#include "bindings/tools/check.h"
#include "engine/dist/reducer.h"
#include "engine/dist/sync_norm.h"

namespace tycho::lua {
namespace {

const char kReducer[] = "tycho.reducer";

Ref<dist::Reducer>& box_at(lua_State* L) {
  auto* box = static_cast<Ref<dist::Reducer>*>(luaL_testudata(L, 1, kReducer));
  TYCHO_CHECK(Kind::Argument, box && *box, "_reducer: wants a reducer");
  return *box;
}

Ref<dist::Group> group_at(lua_State* L, int i) { return Ref<dist::Group>(to_group(L, i)); }

std::vector<Tensor> tensors_at(lua_State* L, int i, const char* what) {
  std::vector<Tensor> list;
  TYCHO_CHECK(Kind::Argument, lua_istable(L, i), "_reducer: wants a list");
  for (int k = 1, n = static_cast<int>(lua_rawlen(L, i)); k <= n; ++k) {
    lua_rawgeti(L, i, k);
    list.push_back(check_tensor(L, -1, what));
    lua_pop(L, 1);
  }
  return list;
}

std::vector<std::string> texts_at(lua_State* L, int i) {
  std::vector<std::string> list;
  TYCHO_CHECK(Kind::Argument, lua_istable(L, i), "_reducer: wants a list");
  for (int k = 1, n = static_cast<int>(lua_rawlen(L, i)); k <= n; ++k) {
    lua_rawgeti(L, i, k);
    list.emplace_back(check_text(L, -1, "_reducer"));
    lua_pop(L, 1);
  }
  return list;
}

// _reducer(group, parameters, names, first_bytes, bucket_bytes, shares)
int new_reducer(lua_State* L) {
  const Ref<dist::Group> group = group_at(L, 1);
  dist::ReducerOptions o;
  o.first_bytes = lua_isnoneornil(L, 4) ? o.first_bytes : check_integer(L, 4, "_reducer");
  o.bucket_bytes = lua_isnoneornil(L, 5) ? 0 : check_integer(L, 5, "_reducer");
  if (lua_istable(L, 6))
    for (int k = 1, n = static_cast<int>(lua_rawlen(L, 6)); k <= n; ++k) {
      lua_rawgeti(L, 6, k);
      o.shares.push_back(check_number(L, -1, "_reducer"));
      lua_pop(L, 1);
    }
  const Ref<dist::Reducer> made(new dist::Reducer(
      group, tensors_at(L, 2, "DistributedDataParallel"), texts_at(L, 3), std::move(o)));
  new (lua_newuserdatauv(L, sizeof(Ref<dist::Reducer>), 0)) Ref<dist::Reducer>(made);
  luaL_setmetatable(L, kReducer);
  return 1;
}

int set_sync(lua_State* L) {
  const Ref<dist::Reducer>& r = box_at(L);
  TYCHO_CHECK(Kind::Distributed, !lua_toboolean(L, 2) || !r->group().closed(),
              "DistributedDataParallel: its process group is destroyed; net.module goes on alone");
  r->sync = lua_toboolean(L, 2);
  return 0;
}

int count_forward(lua_State* L) {
  ++box_at(L)->forwards;
  return 0;
}

int set_says_yes(lua_State* L) {
  box_at(L)->says_yes = lua_toboolean(L, 2);
  return 0;
}

int any_said_yes(lua_State* L) {
  lua_pushboolean(L, box_at(L)->any_said_yes());
  return 1;
}

// join(on, divide_by_all, raise_early)
int set_join(lua_State* L) {
  box_at(L)->join = {static_cast<bool>(lua_toboolean(L, 2)), static_cast<bool>(lua_toboolean(L, 3)),
                     static_cast<bool>(lua_toboolean(L, 4))};
  box_at(L)->forwards = 0;  // ranks had different numbers of them
  return 0;
}

int tell(lua_State* L) {
  static constexpr const char* names[] = {"done", "forward", "backward", "step", "step"};
  const std::string_view name = check_text(L, 2, "_reducer");
  int event = 0;
  while (event < 3 && names[event] != name) ++event;
  TYCHO_CHECK(Kind::Argument, event < 3, "_reducer: wants done, forward or backward");
  const auto events = box_at(L)->tell(static_cast<dist::Reducer::Event>(event));
  lua_createtable(L, static_cast<int>(events.size()), 0);
  for (size_t r = 0; r < events.size(); ++r) {
    lua_pushstring(L, names[events[r]]);
    lua_rawseti(L, -2, static_cast<lua_Integer>(r) + 1);
  }
  return 1;
}

// any_infinite(mine, scale)
int any_infinite(lua_State* L) {
  const Ref<dist::Reducer>& r = box_at(L);
  lua_pushboolean(L, r->any_infinite(lua_toboolean(L, 2), check_number(L, 3, "_reducer")));
  return 1;
}

int last_active(lua_State* L) {
  lua_pushinteger(L, box_at(L)->last_active());
  return 1;
}

int pass_without_gradients(lua_State* L) {
  box_at(L)->pass_without_gradients();
  return 0;
}

int layout(lua_State* L) {
  const auto buckets = box_at(L)->layout();
  lua_createtable(L, static_cast<int>(buckets.size()), 0);
  for (size_t i = 0; i < buckets.size(); ++i) {
    lua_createtable(L, static_cast<int>(buckets[i].names.size()), 1);
    for (size_t k = 0; k < buckets[i].names.size(); ++k) {
      lua_pushstring(L, buckets[i].names[k].c_str());
      lua_rawseti(L, -2, static_cast<lua_Integer>(k) + 1);
    }
    lua_pushinteger(L, buckets[i].bytes);
    lua_setfield(L, -2, "bytes");
    lua_rawseti(L, -2, static_cast<lua_Integer>(i) + 1);
  }
  return 1;
}

int free_reducer(lua_State* L) {
  box_at(L) = nullptr;
  return 0;
}

// _check_same(group, what, texts)
int check_same(lua_State* L) {
  const Ref<dist::Group> group = group_at(L, 1);
  dist::check_same(*group, std::string(check_text(L, 2, "_check_same")).c_str(), texts_at(L, 3));
  return 0;
}

// _broadcast_all(group, tensors, root, compare)
int broadcast_all(lua_State* L) {
  const Ref<dist::Group> group = group_at(L, 1);
  dist::broadcast_all(*group, tensors_at(L, 2, "DistributedDataParallel"),
                      static_cast<int>(check_integer(L, 3, "_broadcast_all")), lua_toboolean(L, 4));
  return 0;
}

Tensor tensor_or_none(lua_State* L, int i) {
  return lua_isnoneornil(L, i) ? Tensor() : check_tensor(L, i, "SyncBatchNorm");
}

// _sync_batch_norm(group, x, weight, bias, running_mean, running_var, momentum, eps)
int sync_batch_norm(lua_State* L) {
  const Ref<dist::Group> group = group_at(L, 1);
  push(L, dist::sync_batch_norm(group, check_tensor(L, 2, "SyncBatchNorm"), tensor_or_none(L, 3),
                                tensor_or_none(L, 4), tensor_or_none(L, 5), tensor_or_none(L, 6),
                                check_number(L, 7, "SyncBatchNorm"),
                                check_number(L, 8, "SyncBatchNorm")));
  return 1;
}

}  // namespace

void open_reducer(lua_State* L, int torch) {
  torch = lua_absindex(L, torch);
  static const luaL_Reg methods[] = {{"sync", guarded<set_sync>},
                                     {"count_forward", guarded<count_forward>},
                                     {"says_yes", guarded<set_says_yes>},
                                     {"any_said_yes", guarded<any_said_yes>},
                                     {"join", guarded<set_join>},
                                     {"tell", guarded<tell>},
                                     {"pass_without_gradients", guarded<pass_without_gradients>},
                                     {"any_infinite", guarded<any_infinite>},
                                     {"last_active", guarded<last_active>},
                                     {"layout", guarded<layout>},
                                     {nullptr, nullptr}};
  luaL_newmetatable(L, kReducer);
  luaL_newlib(L, methods);
  lua_setfield(L, -2, "__index");
  lua_pushcfunction(L, guarded<free_reducer>);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  lua_pushvalue(L, torch);
  static const luaL_Reg functions[] = {{"_reducer", guarded<new_reducer>},
                                       {"_check_same", guarded<check_same>},
                                       {"_broadcast_all", guarded<broadcast_all>},
                                       {"_sync_batch_norm", guarded<sync_batch_norm>},
                                       {nullptr, nullptr}};
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}

}  // namespace tycho::lua
