// The thread's modes from Lua: no_grad and its relatives, autocast, anomaly detection. Each runs a
// function inside, or gives a scope for <close>.
#include <cstring>

#include "bindings/core/autograd.h"
#include "bindings/core/device.h"
#include "engine/amp/autocast.h"
#include "engine/grad/backward.h"
#include "engine/ops/table/apply.h"

namespace tycho::lua {
namespace {

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

// torch.autocast(device, {dtype=, enabled=, cache_enabled=}, f)
int autocast(lua_State* L) {
  take_device_type(L);
  take_positions(L);
  if (Device d; lua_type(L, 1) == LUA_TUSERDATA && to_device_value(L, 1, &d)) {
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

void open_modes(lua_State* L, int torch) {
  luaL_newmetatable(L, kScope);
  lua_pushcfunction(L, guarded<close_scope>);
  lua_setfield(L, -2, "__close");
  lua_pop(L, 1);
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
  lua_pushvalue(L, torch);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}

}  // namespace tycho::lua
