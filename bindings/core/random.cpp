// Random streams in Lua: torch.manual_seed and its family, the state of a stream as a tensor of
// bytes, and torch.Generator objects, which every random operation takes as `generator`.
#include "engine/ops/random/random.h"

#include <cmath>
#include <cstring>
#include <new>

#include "bindings/core/lua.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/backend.h"

namespace tycho::lua {
namespace {

const char kGenerator[] = "tycho.generator";

// A torch.Generator: its own stream, or (torch.default_generator) the default one of a device.
struct GeneratorBox {
  Generator own;
  PhiloxStream own_philox{Generator::kDefaultSeed};
  DeviceGenerator g;

  explicit GeneratorBox(Device device) : g{device, own} {
    if (backend_of(device).random == RandomKind::Philox) g.stream = own_philox;
  }
};

GeneratorBox* push_generator(lua_State* L, Device device) {
  auto* box = new (lua_newuserdatauv(L, sizeof(GeneratorBox), 0)) GeneratorBox(device);
  luaL_setmetatable(L, kGenerator);
  return box;
}

GeneratorBox& generator_at(lua_State* L, int i) {
  auto* box = static_cast<GeneratorBox*>(luaL_testudata(L, i, kGenerator));
  std::string room;
  TYCHO_CHECK(Kind::Argument, box,
              "wants a torch.Generator (g:manual_seed(0), with a colon), not %s",
              describe_value(L, i, &room));
  return *box;
}

// A seed: any integer, also one written as a float.
uint64_t seed_at(lua_State* L, int i, const char* name) {
  int ok = 0;
  const lua_Integer seed = lua_type(L, i) == LUA_TNUMBER ? lua_tointegerx(L, i, &ok) : 0;
  std::string room;
  TYCHO_CHECK(Kind::Argument, ok, "%s: the seed must be an integer, not %s", name,
              describe_value(L, i, &room));
  return static_cast<uint64_t>(seed);
}

Device device_at(lua_State* L, int i, Device otherwise, const char* name) {
  if (lua_isnoneornil(L, i)) return otherwise;
  Device d;
  std::string room;
  TYCHO_CHECK(Kind::Argument, to_device(L, i, &d), "%s: wants a device, not %s", name,
              describe_value(L, i, &room));
  return d;
}
Device cuda_at(lua_State* L, int i, const char* name) {
  TYCHO_CHECK(Kind::Device, cuda_device_count() > 0, "%s: there is no CUDA device", name);
  const Device d = device_at(L, i, current_cuda_device(), name);
  TYCHO_CHECK(Kind::Device, !d.is_cpu(), "%s: wants a CUDA device, not the CPU", name);
  return d;
}

void push_state(lua_State* L, RandomStream g) {
  const std::string bytes = g.state();
  const Tensor t = empty(Sizes{static_cast<int64_t>(bytes.size())}, DType::UInt8);
  std::memcpy(t.host(), bytes.data(), bytes.size());
  push(L, t);
}

void set_state(lua_State* L, int i, RandomStream g, const char* name) {
  const Tensor& t = check_tensor(L, i, name);
  TYCHO_CHECK(Kind::DType, t.dtype() == DType::UInt8 && t.device().is_cpu(),
              "%s: a state is a CPU tensor of uint8, as get_rng_state() gives it, not %s", name,
              describe(t).c_str());
  const Tensor dense = packed(t);
  g.set_state(std::string(dense.host(), static_cast<size_t>(dense.numel())));
}

int manual_seed(lua_State* L) {
  seed_all(seed_at(L, 1, "manual_seed"));
  lua_getfield(L, LUA_REGISTRYINDEX, "tycho.default_generator");
  return 1;
}
int seed(lua_State* L) {
  const uint64_t s = system_seed();
  seed_all(s);
  lua_pushinteger(L, static_cast<lua_Integer>(s));
  return 1;
}
int initial_seed(lua_State* L) {
  lua_pushinteger(L, static_cast<lua_Integer>(default_generator().initial_seed()));
  return 1;
}
int get_rng_state(lua_State* L) {
  push_state(L, default_generator());
  return 1;
}
int set_rng_state(lua_State* L) {
  set_state(L, 1, default_generator(), "set_rng_state");
  return 0;
}

// As in PyTorch, seeding CUDA where there is none does nothing.
int cuda_manual_seed(lua_State* L) {
  const uint64_t s = seed_at(L, 1, "manual_seed");
  if (cuda_device_count() > 0) generator_of(current_cuda_device()).seed(s);
  return 0;
}
int cuda_manual_seed_all(lua_State* L) {
  const uint64_t s = seed_at(L, 1, "manual_seed_all");
  for (int i = 0; i < cuda_device_count(); ++i)
    generator_of(Device{static_cast<int8_t>(i)}).seed(s);
  return 0;
}
int cuda_seed(lua_State*) {
  if (cuda_device_count() > 0) generator_of(current_cuda_device()).seed(system_seed());
  return 0;
}
int cuda_seed_all(lua_State*) {
  for (int i = 0; i < cuda_device_count(); ++i)
    generator_of(Device{static_cast<int8_t>(i)}).seed(system_seed());
  return 0;
}
int cuda_initial_seed(lua_State* L) {
  lua_pushinteger(
      L, static_cast<lua_Integer>(generator_of(cuda_at(L, 1, "initial_seed")).initial_seed()));
  return 1;
}
int cuda_get_rng_state(lua_State* L) {
  push_state(L, generator_of(cuda_at(L, 1, "get_rng_state")));
  return 1;
}
int cuda_set_rng_state(lua_State* L) {
  set_state(L, 1, generator_of(cuda_at(L, 2, "set_rng_state")), "set_rng_state");
  return 0;
}

// torch.Generator(), torch.Generator("cuda:0"), torch.Generator{device = ...}
int new_generator(lua_State* L) {
  if (lua_type(L, 1) == LUA_TTABLE) {
    lua_getfield(L, 1, "device");
    lua_replace(L, 1);
  }
  push_generator(L, device_at(L, 1, {}, "Generator"));
  return 1;
}
int generator_manual_seed(lua_State* L) {
  generator_at(L, 1).g.stream.seed(seed_at(L, 2, "manual_seed"));
  lua_settop(L, 1);
  return 1;
}
int generator_seed(lua_State* L) {
  const uint64_t s = system_seed();
  generator_at(L, 1).g.stream.seed(s);
  lua_pushinteger(L, static_cast<lua_Integer>(s));
  return 1;
}
int generator_initial_seed(lua_State* L) {
  lua_pushinteger(L, static_cast<lua_Integer>(generator_at(L, 1).g.stream.initial_seed()));
  return 1;
}
int generator_get_state(lua_State* L) {
  push_state(L, generator_at(L, 1).g.stream);
  return 1;
}
int generator_set_state(lua_State* L) {
  set_state(L, 2, generator_at(L, 1).g.stream, "set_state");
  lua_settop(L, 1);
  return 1;
}
int generator_clone(lua_State* L) {
  const GeneratorBox& from = generator_at(L, 1);
  push_generator(L, from.g.device)->g.stream.set_state(from.g.stream.state());
  return 1;
}
int generator_index(lua_State* L) {
  const GeneratorBox& box = generator_at(L, 1);
  if (lua_type(L, 2) == LUA_TSTRING && !std::strcmp(lua_tostring(L, 2), "device"))
    push_device(L, box.g.device);
  else if (lua_getmetatable(L, 1)) {
    lua_pushvalue(L, 2);
    lua_rawget(L, -2);
  }
  return 1;
}
int generator_tostring(lua_State* L) {
  lua_pushfstring(L, "torch.Generator(\"%s\")", device_name(generator_at(L, 1).g.device).c_str());
  return 1;
}

}  // namespace

DeviceGenerator* to_generator(lua_State* L, int i) {
  auto* box = static_cast<GeneratorBox*>(luaL_testudata(L, i, kGenerator));
  return box ? &box->g : nullptr;
}

void open_random(lua_State* L, int torch) {
  static const luaL_Reg methods[] = {{"manual_seed", guarded<generator_manual_seed>},
                                     {"seed", guarded<generator_seed>},
                                     {"initial_seed", guarded<generator_initial_seed>},
                                     {"get_state", guarded<generator_get_state>},
                                     {"set_state", guarded<generator_set_state>},
                                     {"clone_state", guarded<generator_clone>},
                                     {"__index", guarded<generator_index>},
                                     {"__tostring", guarded<generator_tostring>},
                                     {nullptr, nullptr}};
  luaL_newmetatable(L, kGenerator);
  luaL_setfuncs(L, methods, 0);
  lua_pushliteral(L, "Generator");
  lua_setfield(L, -2, "__name");
  lua_pop(L, 1);
  push_generator(L, {})->g.stream = default_generator();
  lua_pushvalue(L, -1);
  lua_setfield(L, torch, "default_generator");
  lua_setfield(L, LUA_REGISTRYINDEX, "tycho.default_generator");
  static const luaL_Reg functions[] = {
      {"manual_seed", guarded<manual_seed>},     {"seed", guarded<seed>},
      {"initial_seed", guarded<initial_seed>},   {"get_rng_state", guarded<get_rng_state>},
      {"set_rng_state", guarded<set_rng_state>}, {nullptr, nullptr}};
  lua_pushvalue(L, torch);
  luaL_setfuncs(L, functions, 0);
  luaL_newlib(L, functions);  // PyTorch has them as torch.random.* too
  lua_setfield(L, torch, "random");
  lua_pushcfunction(L, guarded<new_generator>);
  lua_setfield(L, torch, "Generator");
  static const luaL_Reg cuda[] = {{"manual_seed", guarded<cuda_manual_seed>},
                                  {"manual_seed_all", guarded<cuda_manual_seed_all>},
                                  {"seed", guarded<cuda_seed>},
                                  {"seed_all", guarded<cuda_seed_all>},
                                  {"initial_seed", guarded<cuda_initial_seed>},
                                  {"get_rng_state", guarded<cuda_get_rng_state>},
                                  {"set_rng_state", guarded<cuda_set_rng_state>},
                                  {nullptr, nullptr}};
  lua_getfield(L, torch, "cuda");
  luaL_setfuncs(L, cuda, 0);
  lua_settop(L, torch);
}

}  // namespace tycho::lua
