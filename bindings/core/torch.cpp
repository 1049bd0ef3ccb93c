// The module `torch`: the op table, dtypes, devices, and the half written in Lua, which travels
// inside the program (bindings/torch/*.lua) and is loaded part by part on first use.
#include <chrono>

#include "bindings/codec/codec.h"
#include "bindings/core/device.h"
#include "bindings/core/edits.h"
#include "bindings/core/format.h"
#include "bindings/core/graph.h"
#include "bindings/core/interrupt.h"
#include "bindings/core/lua.h"
#include "bindings/dist/dist.h"
#include "bindings/dist/reducer.h"
#include "bindings/dist/store.h"
#include "bindings/processes/processes.h"
#include "bindings/show/show.h"
#include "bindings/tools/help.h"
#include "bindings/workers/worker.h"
#include "engine/base/memory.h"
#include "engine/base/parallel.h"
#include "engine/fuse/fuse.h"
#include "engine/tensor/defer.h"

namespace tycho::lua {
namespace {

// Pushes the environment of the embedded files: Lua's own names and torch as they were at the
// start, then the globals. A user who calls a variable `table` must not break what is written in
// Lua here.
void push_environment(lua_State* L) {
  static const char key = 0;
  if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key) == LUA_TTABLE) return;
  lua_pop(L, 1);
  lua_newtable(L);
  lua_pushglobaltable(L);
  lua_pushnil(L);
  while (lua_next(L, -2)) {
    lua_pushvalue(L, -2);
    lua_insert(L, -2);
    lua_rawset(L, -5);
  }
  lua_createtable(L, 0, 2);
  for (const char* event : {"__index", "__newindex"}) {
    lua_pushvalue(L, -2);
    lua_setfield(L, -2, event);
  }
  lua_setmetatable(L, -3);
  lua_pop(L, 1);
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &key);
}

// package.searchers entry: require "torch.nn" finds torch/nn.lua (or torch/nn/init.lua) inside, and
// require "shell.help" the prompt's shell/help.lua.
int search_embedded(lua_State* L) {
  std::string path = luaL_checkstring(L, 1);
  for (char& c : path)
    if (c == '.') c = '/';
  for (const std::string& candidate : {path + ".lua", path + "/init.lua"})
    for (const EmbeddedFile* f = tycho_embedded_lua; f->name; ++f)
      if (candidate == f->name) {
        if (luaL_loadbuffer(L, f->code, f->code_size, f->name) != LUA_OK) return lua_error(L);
        push_environment(L);
        lua_setupvalue(L, -2, 1);
        lua_pushstring(L, candidate.c_str());
        return 2;
      }
  lua_pushfstring(L, "no embedded file '%s.lua'", path.c_str());
  return 1;
}

int perf_counter(lua_State* L) {
  run_held_rows();  // work that was asked for before counts as done before
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  lua_pushnumber(L, std::chrono::duration<double>(now).count());
  return 1;
}

// set_fusion(true|false|from): `from`: results with at least so many elements.
int lua_set_fusion(lua_State* L) {
  if (lua_isboolean(L, 1)) {
    fuse::set_least(lua_toboolean(L, 1) ? fuse::kLeast : 0);
    return 0;
  }
  const lua_Integer from = lua_isinteger(L, 1) ? lua_tointeger(L, 1) : 0;
  TYCHO_CHECK(Kind::Argument, from >= 1,
              "set_fusion: wants true, false, or from how many elements on (1 or more)");
  fuse::set_least(from);
  return 0;
}
int lua_get_fusion(lua_State* L) {
  lua_pushboolean(L, fuse::least() > 0);
  lua_pushinteger(L, fuse::least());
  return 2;
}
int lua_set_num_threads(lua_State* L) {
  const lua_Integer n = lua_isinteger(L, 1) ? lua_tointeger(L, 1) : 0;
  TYCHO_CHECK(Kind::Value, n >= 1 && n <= 256, "set_num_threads: wants 1 to 256 threads");
  TYCHO_CHECK(Kind::Value, n == 1 || !computes_alone(),
              "set_num_threads: a worker of a DataLoader computes alone, beside the others");
  set_num_threads(static_cast<int>(n));
  return 0;
}
int lua_get_num_threads(lua_State* L) {
  lua_pushinteger(L, get_num_threads());
  return 1;
}

int device(lua_State* L) {
  Device d;
  std::string room;
  TYCHO_CHECK(Kind::Argument, to_device_value(L, 1, &d),
              "device: %s is no device; write \"cpu\", \"cuda\" or \"cuda:0\"",
              describe_value(L, 1, &room));
  if (lua_type(L, 1) == LUA_TSTRING && !std::strcmp(lua_tostring(L, 1), "cuda")) d = kCurrentCuda;
  if (lua_isinteger(L, 2)) {
    TYCHO_CHECK(Kind::Device, !d.is_cpu() || lua_tointeger(L, 2) == 0,
                "device: the CPU is one device, without a number %lld",
                static_cast<long long>(lua_tointeger(L, 2)));
    if (!d.is_cpu()) d = parse_device("cuda:" + std::to_string(lua_tointeger(L, 2)));
  }
  push_device(L, d);
  return 1;
}

int set_default_dtype(lua_State* L) {
  DType t;
  TYCHO_CHECK(Kind::DType, to_dtype(L, 1, &t) && is_floating(t),
              "set_default_dtype: wants a floating point dtype");
  tycho::set_default_dtype(t);
  return 0;
}
int get_default_dtype(lua_State* L) {
  push_dtype(L, default_dtype());
  return 1;
}

// set_default_device(device or nil); "cuda" is whichever is the current one when a tensor is made.
int set_default_device(lua_State* L) {
  if (lua_isnoneornil(L, 1) || lua_islightuserdata(L, 1)) return default_device = {}, 0;
  lua_settop(L, 1);
  device(L);
  to_device_value(L, -1, &default_device.device);
  default_device.set = true;
  return 0;
}
// What was set, as it was said; nil when nothing was.
int said_default_device(lua_State* L) {
  if (!default_device.set) return 0;
  push_device(L, default_device.device);
  return 1;
}

}  // namespace

// Registry of embedded parts: torch.nn and the like are loaded when first looked at.
int open_torch(lua_State* L) {
  open_error(L);
  open_coroutine(L);
  open_caught(L);
  open_order(L);
  open_objects(L);
  open_tensor(L);
  lua_newtable(L);
  const int torch = lua_gettop(L);
  for (int i = 0; i < kDTypes; ++i) {
    push_dtype(L, static_cast<DType>(i));
    lua_setfield(L, torch, dtype_name(static_cast<DType>(i)));
  }
  static const struct {
    const char* name;
    DType t;
  } more[] = {{"float", DType::Float32}, {"double", DType::Float64}, {"half", DType::Float16},
              {"long", DType::Int64},    {"int", DType::Int32},      {"short", DType::Int16}};
  for (const auto& m : more) {
    push_dtype(L, m.t);
    lua_setfield(L, torch, m.name);
  }
  static const luaL_Reg functions[] = {{"perf_counter", guarded<perf_counter>},
                                       {"until_interrupt", guarded<until_interrupt>},
                                       {"uninterrupted", guarded<uninterrupted>},
                                       {"_hold_interrupt", guarded<hold_interrupt>},
                                       {"_interrupt_waits", interrupt_waits},
                                       {"_raise", guarded<raise_text>},
                                       {"_edits", guarded<lua_edits>},
                                       {"_near", guarded<lua_near>},
                                       {"_keep_order", guarded<keep_order>},
                                       {"set_fusion", guarded<lua_set_fusion>},
                                       {"get_fusion", guarded<lua_get_fusion>},
                                       {"set_num_threads", guarded<lua_set_num_threads>},
                                       {"get_num_threads", guarded<lua_get_num_threads>},
                                       {"device", guarded<device>},
                                       {"set_default_dtype", guarded<set_default_dtype>},
                                       {"get_default_dtype", guarded<get_default_dtype>},
                                       {"set_default_device", guarded<set_default_device>},
                                       {"_default_device", guarded<said_default_device>},
                                       {nullptr, nullptr}};
  luaL_setfuncs(L, functions, 0);
  lua_pushlightuserdata(L, nullptr);
  lua_setfield(L, torch, "none");
  open_cuda(L, torch);
  open_index(L, torch);
  open_autograd(L, torch);
  open_graph(L, torch);
  open_batch(L, torch);
  open_saved(L, torch);
  open_stats(L, torch);
  open_io(L, torch);
  open_random(L, torch);
  open_shapes_only(L, torch);
  open_notes(L, torch);
  open_help(L, torch);
  open_tools(L, torch);
  open_show(L, torch);
  open_codec(L, torch);
  open_workers(L, torch);
  open_processes(L, torch);
  open_store(L, torch);
  open_reducer(L, torch);
  open_ops(L, torch);
  open_dist(L, torch);
  open_format(L);
  open_convert(L, torch);  // its x:to(...) takes more than the op's signatures say

  // require finds the embedded files first.
  lua_getglobal(L, "table");
  lua_getfield(L, -1, "insert");
  lua_getglobal(L, "package");
  lua_getfield(L, -1, "searchers");
  lua_remove(L, -2);
  lua_pushinteger(L, 2);
  lua_pushcfunction(L, search_embedded);
  lua_call(L, 3, 0);
  lua_pop(L, 1);
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
  lua_pushvalue(L, torch);
  lua_setfield(L, -2, "torch");
  lua_pop(L, 1);
  lua_pushvalue(L, torch);
  lua_setglobal(L, "torch");
  push_methods(L);
  lua_setfield(L, torch, "_methods");
  // torch/init.lua completes the table (lazily loaded parts, functions written in Lua).
  lua_getglobal(L, "require");
  lua_pushliteral(L, "torch.init");
  lua_call(L, 1, 0);
  lua_settop(L, torch);
  return 1;
}

}  // namespace tycho::lua
