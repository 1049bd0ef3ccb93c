// What torch.cuda's streams and events (torch/cuda.lua) stand on: the numbered queues of a device,
// marks in them, and memory of the host that devices read by themselves.
#include "bindings/core/device.h"
#include "bindings/devices/devices.h"
#include "bindings/tools/check.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/defer.h"

namespace tycho::lua {
namespace {

// The device of a call about its streams: what was asked of it before stands in them.
Device cuda_at(lua_State* L, int i) {
  run_held_rows();
  return cuda_device(check_integer(L, i, "torch.cuda"));
}
StreamId stream_at(lua_State* L, int i) {
  const int64_t n = check_integer(L, i, "torch.cuda");
  return n >= 0 && n <= INT32_MAX ? static_cast<StreamId>(n) : -1;
}
uint64_t mark_at(lua_State* L, int i) {
  return static_cast<uint64_t>(check_integer(L, i, "torch.cuda"));
}

int new_stream(lua_State* L) {
  const Device d = cuda_at(L, 1);
  lua_pushinteger(L, backend_of(d).new_stream(d));
  return 1;
}
int release_stream(lua_State* L) {
  const Device d = cuda_at(L, 1);
  backend_of(d).release_stream(d, stream_at(L, 2));
  return 0;
}
int lua_current_stream(lua_State* L) {
  lua_pushinteger(L, current_stream(cuda_at(L, 1)));
  return 1;
}
int lua_set_stream(lua_State* L) {
  const Device d = cuda_at(L, 1);
  backend_of(d).mark(d, stream_at(L, 2));  // raises where it has no such stream
  set_current_stream(d, stream_at(L, 2));
  return 0;
}
int mark(lua_State* L) {
  const Device d = cuda_at(L, 1);
  lua_pushinteger(L, static_cast<lua_Integer>(backend_of(d).mark(d, stream_at(L, 2))));
  return 1;
}
int passed(lua_State* L) {
  const Device d = cuda_at(L, 1);
  lua_pushboolean(L, backend_of(d).passed(d, stream_at(L, 2), mark_at(L, 3)));
  return 1;
}
int wait(lua_State* L) {
  const Device d = cuda_at(L, 1);
  backend_of(d).wait(d, stream_at(L, 2), mark_at(L, 3));
  return 0;
}
// _wait_on_device(waiting device, its stream, device, stream, mark)
int wait_on_device(lua_State* L) {
  const Device waiting = cuda_at(L, 1), d = cuda_at(L, 3);
  backend_of(d).wait_on_device(waiting, stream_at(L, 2), d, stream_at(L, 4), mark_at(L, 5));
  return 0;
}
int new_time(lua_State* L) {
  const Device d = cuda_at(L, 1);
  lua_pushinteger(L, backend_of(d).new_time(d, stream_at(L, 2)));
  return 1;
}
int release_time(lua_State* L) {
  const Device d = cuda_at(L, 1);
  backend_of(d).release_time(d, check_integer(L, 2, "torch.cuda"));
  return 0;
}
int milliseconds(lua_State* L) {
  const Device d = cuda_at(L, 1);
  const int64_t from = check_integer(L, 2, "torch.cuda"), to = check_integer(L, 3, "torch.cuda");
  lua_pushnumber(L, backend_of(d).milliseconds(d, from, to));
  return 1;
}
int lua_is_pinned(lua_State* L) {
  lua_pushboolean(L, is_pinned(*check_tensor(L, 1, "is_pinned")->storage));
  return 1;
}

}  // namespace

void open_streams(lua_State* L, int cuda) {
  static const luaL_Reg functions[] = {{"_new_stream", guarded<new_stream>},
                                       {"_release_stream", guarded<release_stream>},
                                       {"_current_stream", guarded<lua_current_stream>},
                                       {"_set_stream", guarded<lua_set_stream>},
                                       {"_mark", guarded<mark>},
                                       {"_passed", guarded<passed>},
                                       {"_wait", guarded<wait>},
                                       {"_wait_on_device", guarded<wait_on_device>},
                                       {"_new_time", guarded<new_time>},
                                       {"_release_time", guarded<release_time>},
                                       {"_milliseconds", guarded<milliseconds>},
                                       {"_is_pinned", guarded<lua_is_pinned>},
                                       {nullptr, nullptr}};
  lua_pushvalue(L, cuda);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}

}  // namespace tycho::lua
