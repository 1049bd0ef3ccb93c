// The thread's modes from Lua: no_grad and its relatives, autocast, anomaly detection, and what the
// half in Lua switches for a while. Each runs a function inside, or gives a scope for <close>.
#include <cstdio>
#include <cstring>

#include "bindings/core/autograd.h"
#include "bindings/core/device.h"
#include "bindings/core/notes.h"
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
  bool leaves;   // it is no mode: its value is the function that puts back what it switched
};
const char kScope[] = "tycho.scope";
// Their addresses are the keys of the scope object that was opened last, and of its coroutine.
const char kOpened = 0, kOpener = 0;

// That scope: where it was opened, until it is known that somebody holds it.
struct Opened {
  Before* scope = nullptr;
  lua_State* L = nullptr;
  char name[32] = "";
  int line = 0;
  char source[LUA_IDSIZE] = "";
};
constinit thread_local Opened opened;

void forget_opened(lua_State* L) {
  opened.scope = nullptr;
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kOpened);
  lua_pushnil(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kOpener);
}

// The scope object on top of the stack stays open until somebody closes it: looked at by the next
// entry.
void look_later(lua_State* L, Before* scope, const char* name) {
  opened.scope = scope;
  opened.L = L;
  std::snprintf(opened.name, sizeof opened.name, "%s", name);
  opened.line = 0;
  opened.source[0] = 0;
  lua_Debug ar;
  for (int level = 1; lua_getstack(L, level, &ar) && lua_getinfo(L, "Sl", &ar); ++level)
    if (ar.currentline > 0 && std::strncmp(ar.source, "=torch/", 7) != 0) {
      opened.line = ar.currentline;
      std::strcpy(opened.source, ar.short_src);
      break;
    }
  lua_pushvalue(L, -1);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kOpened);
  lua_pushthread(L);
  lua_rawsetp(L, LUA_REGISTRYINDEX, &kOpener);
  entered = nullptr;
}

// Does a local variable of a running function hold it? Pushes the variable's name.
bool push_holder(lua_State* L) {
  constexpr int kMostLevels = 200;
  lua_Debug ar;
  int level = 0;
  for (; level < kMostLevels && lua_getstack(opened.L, level, &ar); ++level) {
    const char* name;
    for (int i = 1; (name = lua_getlocal(opened.L, &ar, i)); ++i) {
      const bool same = lua_touserdata(opened.L, -1) == opened.scope;
      lua_pop(opened.L, 1);
      // Values on the way and those that a call has left behind are "(temporary)".
      if (same && (name[0] != '(' || !std::strcmp(name, "(for state)")))
        return lua_pushstring(L, name), true;
    }
  }
  if (level < kMostLevels) return false;
  return lua_pushliteral(L, "(far below)"), true;
}

void end_scope(lua_State* L, Before* b) {
  if (!b->open) return;
  b->open = false;
  if (b == opened.scope) forget_opened(L);
  if (b->leaves) return;
  mode.grad = b->grad;
  mode.inference = b->inference;
  amp::set(b->region);
  grad::detect_anomaly = b->anomaly;
  modes_changed(L);
  if (b->collect) lua_gc(L, LUA_GCCOLLECT);
}
int close_scope(lua_State* L) {
  auto* b = static_cast<Before*>(luaL_checkudata(L, 1, kScope));
  const bool leaves = b->open && b->leaves;
  end_scope(L, b);
  if (!leaves) return 0;
  lua_getiuservalue(L, 1, 1);
  lua_pushvalue(L, 2);  // the error that it ends by, if any
  lua_call(L, 1, 0);
  return 0;
}

// What the prompt shows of a scope that stands alone, and print of one that is held.
int scope_text(lua_State* L) {
  const auto* b = static_cast<Before*>(luaL_checkudata(L, 1, kScope));
  lua_pushstring(L, b->open ? "a scope, which ends where its <close> variable does"
                            : "a scope, which has ended");
  return 1;
}

// That it is closed says that it was held, also where it is before the next entry.
int close_held(lua_State* L) {
  if (opened.scope && lua_touserdata(L, 1) == opened.scope) forget_opened(L);
  return guarded<close_scope>(L);
}

int finish_scope(lua_State* L, int, lua_KContext base) {
  // Results lie above the scope object, which closes as this function returns.
  return lua_gettop(L) - static_cast<int>(base);
}

// Changes the modes, then either runs the function at stack slot `f` inside or returns the scope.
int open_scope(lua_State* L, int f, void (*change)(lua_State*), const char* name = nullptr,
               bool collect = false, int leave = 0) {
  auto* b = static_cast<Before*>(lua_newuserdatauv(L, sizeof(Before), leave ? 1 : 0));
  *b = Before{mode.grad, mode.inference, amp::current(), true, grad::detect_anomaly,
              collect,   leave != 0};
  if (leave) {
    lua_pushvalue(L, leave);
    lua_setiuservalue(L, -2, 1);
  }
  luaL_setmetatable(L, kScope);
  change(L);
  modes_changed(L);
  if (!lua_isfunction(L, f)) {
    if (name) look_later(L, b, name);
    return 1;
  }
  lua_toclose(L, -1);
  const int base = lua_gettop(L);
  lua_pushvalue(L, f);
  lua_callk(L, 0, LUA_MULTRET, base, finish_scope);
  return finish_scope(L, LUA_OK, base);
}

int scope(lua_State* L) {
  return open_scope(
      L, 1, [](lua_State*) {}, nullptr, true);
}
// _scope(leave, f, name): for parts in Lua, which have switched something. Runs f, if given, and then
// leave(error or nil); without f gives the scope. With its full name as the user calls it, one that
// nobody holds ends as no_grad does.
int lua_scope(lua_State* L) {
  TYCHO_CHECK(Kind::Argument,
              lua_isfunction(L, 1) && (lua_isnoneornil(L, 3) || lua_type(L, 3) == LUA_TSTRING),
              "_scope: wants a function that ends it, one that runs inside or nil, and a name");
  const char* name = lua_tostring(L, 3);
  lua_settop(L, 3);
  if (!lua_isnil(L, 2) && !lua_isfunction(L, 2)) {
    lua_pushvalue(L, 1);
    lua_call(L, 0, 0);
    if (!name) name = "a scope";
    fail(Kind::Argument,
         format("%s: its last argument is a function that runs inside, or nothing: do local _ "
                "<close> = %s(..) ... end",
                name, name));
  }
  return open_scope(
      L, 2, [](lua_State*) {}, name, false, 1);
}
int no_grad(lua_State* L) {
  return open_scope(
      L, 1, [](lua_State*) { mode.grad = false; }, "torch.no_grad");
}
int enable_grad(lua_State* L) {
  return open_scope(
      L, 1, [](lua_State*) { mode.grad = true; }, "torch.enable_grad");
}
int inference_mode(lua_State* L) {
  const bool off = lua_isboolean(L, 1) && !lua_toboolean(L, 1);
  const int f = lua_isfunction(L, 1) ? 1 : 2;
  if (off) return open_scope(L, f, [](lua_State*) {});
  return open_scope(
      L, f,
      [](lua_State*) {
        mode.grad = false;
        mode.inference = true;
      },
      "torch.inference_mode");
}
int set_grad_enabled(lua_State* L) {
  TYCHO_CHECK(Kind::Argument, lua_isboolean(L, 1), "set_grad_enabled: wants true or false");
  return open_scope(
      L, 2, [](lua_State* S) { mode.grad = lua_toboolean(S, 1); }, "torch.set_grad_enabled");
}
int detect_anomaly(lua_State* L) {
  return open_scope(
      L, 1, [](lua_State*) { grad::detect_anomaly = true; }, "torch.autograd.detect_anomaly");
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
  return open_scope(
      L, f,
      [](lua_State* S) {
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
      },
      "torch.autocast");
}
int is_autocast_enabled(lua_State* L) {
  const bool cuda = !std::strncmp(device_argument(L, "is_autocast_enabled"), "cuda", 4);
  lua_pushboolean(L, cuda ? amp::current().cuda : amp::current().cpu);
  return 1;
}
int get_autocast_dtype(lua_State* L) {
  const bool cuda = !std::strncmp(device_argument(L, "get_autocast_dtype"), "cuda", 4);
  push_dtype(L, cuda ? amp::current().cuda_dtype : amp::current().cpu_dtype);
  return 1;
}

}  // namespace

bool scope_is_open() { return opened.scope != nullptr; }

void settle_scope(lua_State* L) {
  if (!opened.scope || !lua_checkstack(L, 12)) return;
  const int top = lua_gettop(L);
  const bool held = push_holder(L);
  if (!push_note_function(L, "scope_held")) return;
  lua_pushstring(L, opened.name);
  lua_pushstring(L, opened.source);
  lua_pushinteger(L, opened.line);
  if (held)
    lua_pushvalue(L, top + 1);
  else
    lua_pushnil(L);
  Before* const scope = opened.scope;
  lua_State* const opener = opened.L;
  const auto end = [&] {  // a coroutine has modes of its own
    if (opener != L) switch_modes(opener);
    end_scope(opener, scope);
    if (opener != L) switch_modes(L);
    if (!scope->leaves) return;
    lua_getiuservalue(L, top + 2, 1);
    lua_call(L, 0, 0);
  };
  lua_rawgetp(L, LUA_REGISTRYINDEX, &kOpened);  // both alive until it is closed
  lua_insert(L, top + 1);
  lua_rawgetp(L, LUA_REGISTRYINDEX, &kOpener);
  lua_insert(L, top + 1);
  forget_opened(L);
  // The note may raise where it is switched to "error": the scope ends before.
  if (!held) end();
  lua_call(L, 4, 1);
  if (held && !lua_toboolean(L, -1)) end();
  lua_settop(L, top);
}

void open_modes(lua_State* L, int torch) {
  luaL_newmetatable(L, kScope);
  lua_pushcfunction(L, close_held);
  lua_setfield(L, -2, "__close");
  lua_pushcfunction(L, scope_text);
  lua_setfield(L, -2, "__tostring");
  lua_pop(L, 1);
  static const luaL_Reg functions[] = {{"scope", guarded<scope>},
                                       {"_scope", guarded<lua_scope>},
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
                                       {"get_autocast_dtype", guarded<get_autocast_dtype>},
                                       {nullptr, nullptr}};
  lua_pushvalue(L, torch);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}

}  // namespace tycho::lua
