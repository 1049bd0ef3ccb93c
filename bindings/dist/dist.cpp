// The job of this process and its groups: meeting, regrouping, and saying goodbye.
#include "bindings/dist/dist.h"

#include <cstdlib>
#include <new>

#include "bindings/dist/store.h"
#include "bindings/tools/check.h"
#include "engine/dist/env.h"

namespace tycho::lua {
namespace {

const char kGroup[] = "tycho.process_group";

struct World {
  std::shared_ptr<dist::Job> job;
  Ref<dist::Group> group;
  std::vector<Ref<dist::Group>> more;  // all others that were made
  uint32_t next_id = 1;
  std::string failed;  // why the script ends
};
// Of the thread that has called init_process_group.
constinit thread_local World* world = nullptr;

void leave() {
  if (!world) return;
  World* const w = std::exchange(world, nullptr);
  // Who ends with an error waits for nobody.
  if (!w->failed.empty() || w->job->failed()) w->job->close(w->failed);
  const auto close = [](const Ref<dist::Group>& g) {
    try {
      if (g) g->close();
    } catch (const Error&) {
    }
  };
  for (const auto& g : w->more) close(g);
  close(w->group);
  w->job->close(w->failed);
  delete w;
}

[[noreturn]] void no_group() {
  fail(Kind::Distributed, "there is no process group yet", "dist.init_process_group()");
}

World& need_world() {
  if (!world) no_group();
  return *world;
}

Ref<dist::Group>* group_box(lua_State* L, int i) {
  return static_cast<Ref<dist::Group>*>(luaL_testudata(L, i, kGroup));
}

void push_group(lua_State* L, const Ref<dist::Group>& g) {
  new (lua_newuserdatauv(L, sizeof(Ref<dist::Group>), 0)) Ref<dist::Group>(g);
  luaL_setmetatable(L, kGroup);
}

std::vector<int> integers(lua_State* L, int i) {
  std::vector<int> list;
  std::string room;
  TYCHO_CHECK(Kind::Argument, lua_type(L, i) == LUA_TTABLE, "wants a list of ranks, not %s",
              describe_value(L, i, &room));
  for (lua_Integer k = 1, n = static_cast<lua_Integer>(lua_rawlen(L, i)); k <= n; ++k) {
    lua_rawgeti(L, i, k);
    int ok = 0;
    list.push_back(static_cast<int>(lua_tointegerx(L, -1, &ok)));
    TYCHO_CHECK(Kind::Argument, ok, "ranks are integers, counted from 0");
    lua_pop(L, 1);
  }
  return list;
}

// init(backend, init_method, rank, world_size, timeout, store) -> the world's group
int init(lua_State* L) {
  TYCHO_CHECK(Kind::Distributed, !world,
              "init_process_group: there is a process group already; "
              "dist.destroy_process_group() ends it");
  const std::string backend(check_text(L, 1, "init_process_group"));
  dist::Told told;
  told.init_method = check_text(L, 2, "init_process_group");
  told.rank = static_cast<int>(check_integer(L, 3, "init_process_group"));
  told.world_size = static_cast<int>(check_integer(L, 4, "init_process_group"));
  const double timeout = check_number(L, 5, "init_process_group");
  if (timeout > 0) told.timeout = dist::Seconds(timeout);
  dist::Env env;
  if (!lua_isnoneornil(L, 6)) {
    TYCHO_CHECK(Kind::Argument, store_server(L, 6, &env.address, &env.token),
                "init_process_group: store wants a dist.TCPStore");
    TYCHO_CHECK(Kind::Argument, told.rank >= 0 && told.world_size > 0,
                "init_process_group: with a store, rank and world_size are given too");
    env.rank = env.local_rank = told.rank;
    env.world_size = env.local_world_size = told.world_size;
  } else {
    env = dist::find_env(told);
  }
  if (timeout > 0) env.init_timeout = env.timeout = dist::Seconds(timeout);
  auto job = dist::Job::join(env);
  std::vector<int> ranks;
  for (int r = 0; r < job->env().world_size; ++r) ranks.push_back(r);
  Ref<dist::Group> group;
  try {
    group = dist::Group::make(job, 0, ranks, backend);
  } catch (const Error& e) {
    job->close(e.text);
    throw;
  }
  world = new World{std::move(job), group, {}, 1, {}};
  [[maybe_unused]] static const int registered = std::atexit(leave);
  push_group(L, group);
  return 1;
}

int destroy(lua_State* L) {
  if (lua_isnoneornil(L, 1) || (world && group_box(L, 1) && *group_box(L, 1) == world->group)) {
    leave();
    return 0;
  }
  dist::Group* const g = to_group(L, 1);
  if (world) std::erase_if(world->more, [&](const auto& m) { return m.get() == g; });
  g->close();
  return 0;
}

// new_group(ranks, backend) -> the group, or nil where this rank is no member. All ranks of the
// world call it.
int new_group(lua_State* L) {
  World& w = need_world();
  const std::vector<int> ranks = integers(L, 1);
  const std::string backend(check_text(L, 2, "new_group"));
  const uint32_t id = w.next_id++;
  for (const int r : ranks)
    if (r == w.job->env().rank) {
      w.more.push_back(dist::Group::make(w.job, id, ranks, backend));
      push_group(L, w.more.back());
      return 1;
    }
  lua_pushnil(L);
  return 1;
}

// shrink(ranks that leave) -> the world's new group, of those that stay
int shrink(lua_State* L) {
  World& w = need_world();
  const std::vector<int> stay = w.job->shrink(integers(L, 1));
  const std::string backend = w.group->backend();
  for (const auto& g : w.more) g->close();
  w.more.clear();
  w.group->close();
  w.group = dist::Group::make(w.job, w.next_id++, stay, backend);
  push_group(L, w.group);
  return 1;
}

int current(lua_State* L) {
  if (!world) return 0;
  push_group(L, world->group);
  return 1;
}

// about(group) -> handle, rank, ranks of the world, backend, transport, last collective
int about(lua_State* L) {
  const dist::Group& g = *to_group(L, 1);
  lua_settop(L, 1);
  lua_pushinteger(L, g.handle());
  lua_pushinteger(L, g.members().rank);
  lua_createtable(L, g.members().size(), 0);
  for (int i = 0; i < g.members().size(); ++i) {
    lua_pushinteger(L, g.members().ranks[static_cast<size_t>(i)]);
    lua_seti(L, -2, i + 1);
  }
  lua_pushstring(L, g.backend());
  lua_pushstring(L, g.transport());
  lua_pushinteger(L, g.seq());
  return 6;
}

// where() -> rank of the world, world size, local rank, local size, address
int where(lua_State* L) {
  const dist::Env& e = need_world().job->env();
  lua_pushinteger(L, e.rank);
  lua_pushinteger(L, e.world_size);
  lua_pushinteger(L, e.local_rank);
  lua_pushinteger(L, e.local_world_size);
  lua_pushlstring(L, e.address.data(), e.address.size());
  return 5;
}

int same_group(lua_State* L) {
  lua_pushboolean(L, group_box(L, 1) && group_box(L, 2) && *group_box(L, 1) == *group_box(L, 2));
  return 1;
}

int group_text(lua_State* L) {
  const dist::Group& g = **group_box(L, 1);
  lua_pushfstring(L, "process group of %d ranks (%s)", g.members().size(), g.backend());
  return 1;
}

int drop_group(lua_State* L) {
  group_box(L, 1)->~Ref();
  return 0;
}

}  // namespace

dist::Group* to_group(lua_State* L, int i) {
  if (lua_isnoneornil(L, i)) return need_world().group.get();
  if (Ref<dist::Group>* box = group_box(L, i)) return box->get();
  std::string room;
  fail(Kind::Argument,
       format("wants a process group (dist.new_group(..)), not %s", describe_value(L, i, &room)));
}

void script_failed(lua_State* L) {
  if (!world) return;
  const char* const text = luaL_tolstring(L, -1, nullptr);
  world->failed = text;
  world->failed.resize(std::min(world->failed.find('\n'), world->failed.size()));
  lua_pop(L, 1);
}

void open_dist(lua_State* L, int torch) {
  torch = lua_absindex(L, torch);
  luaL_newmetatable(L, kGroup);
  static const luaL_Reg meta[] = {{"__eq", same_group},
                                  {"__tostring", guarded<group_text>},
                                  {"__gc", guarded<drop_group>},
                                  {nullptr, nullptr}};
  luaL_setfuncs(L, meta, 0);
  lua_pop(L, 1);
  static const luaL_Reg functions[] = {
      {"init", guarded<init>},           {"destroy", guarded<destroy>},
      {"new_group", guarded<new_group>}, {"shrink", guarded<shrink>},
      {"current", guarded<current>},     {"about", guarded<about>},
      {"where", guarded<where>},         {nullptr, nullptr}};
  luaL_newlib(L, functions);
  open_dist_calls(L, lua_gettop(L));
  open_monitored(L, lua_gettop(L));
  lua_setfield(L, torch, "_dist");
}

}  // namespace tycho::lua
