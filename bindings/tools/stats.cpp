// What tensors take: torch.memory_allocated and the like for the CPU, torch.cuda's for its devices.
#include "bindings/core/lua.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/defer.h"

namespace tycho::lua {
namespace {

// The device asked for: an argument, else `standard`.
Device device_at(lua_State* L, Device standard) {
  Device d = standard;
  std::string room;
  if (!lua_isnoneornil(L, 1))
    TYCHO_CHECK(Kind::Argument, to_device(L, 1, &d),
                "%s is no device; write \"cpu\", \"cuda\" or \"cuda:0\"",
                describe_value(L, 1, &room));
  return d;
}

using Number = int64_t (*)(const MemoryStats&);

template <Number number, bool cuda>
int stat(lua_State* L) {
  if (cuda && cuda_device_count() == 0) return lua_pushinteger(L, 0), 1;
  const Device d = device_at(L, cuda ? current_cuda_device() : Device{});
  run_held_rows();
  lua_pushinteger(L, number(backend_of(d).memory_stats(d)));
  return 1;
}
template <bool cuda>
int reset_peak(lua_State* L) {
  const Device d = device_at(L, cuda ? current_cuda_device() : Device{});
  run_held_rows();
  backend_of(d).reset_peak_memory(d);
  return 0;
}
template <bool cuda>
int drop_cache(lua_State* L) {
  if (cuda && cuda_device_count() == 0) return 0;
  const Device d = device_at(L, cuda ? current_cuda_device() : Device{});
  backend_of(d).empty_cache(d);
  return 0;
}

constexpr int64_t live(const MemoryStats& s) { return s.live; }
constexpr int64_t peak(const MemoryStats& s) { return s.peak; }
constexpr int64_t reserved(const MemoryStats& s) { return s.live + s.cached; }

template <bool cuda>
void add(lua_State* L) {
  static const luaL_Reg functions[] = {{"memory_allocated", guarded<stat<live, cuda>>},
                                       {"max_memory_allocated", guarded<stat<peak, cuda>>},
                                       {"memory_reserved", guarded<stat<reserved, cuda>>},
                                       {"reset_peak_memory_stats", guarded<reset_peak<cuda>>},
                                       {"empty_cache", guarded<drop_cache<cuda>>},
                                       {nullptr, nullptr}};
  luaL_setfuncs(L, functions, 0);
}

}  // namespace

void open_stats(lua_State* L, int torch) {
  lua_pushvalue(L, torch);
  add<false>(L);
  lua_getfield(L, -1, "cuda");
  add<true>(L);
  lua_pop(L, 2);
}

}  // namespace tycho::lua
