// What torch.cuda.CUDAGraph (torch/cuda_graphs.lua) stands on: a graph as a userdata, which its end resets.
#include <utility>

#include "bindings/core/device.h"
#include "bindings/devices/devices.h"
#include "bindings/tools/check.h"
#include "engine/tensor/graph.h"

namespace tycho::lua {
namespace {

constexpr char kGraph[] = "tycho.graph";

Graph& graph_at(lua_State* L, int i) {
  auto** g = static_cast<Graph**>(luaL_testudata(L, i, kGraph));
  TYCHO_CHECK(Kind::Argument, g && *g, "wants a graph");
  return **g;
}

int new_graph(lua_State* L) {
  auto** g = static_cast<Graph**>(lua_newuserdatauv(L, sizeof(Graph*), 0));
  *g = nullptr;
  luaL_setmetatable(L, kGraph);
  *g = new Graph;
  return 1;
}
int end_graph(lua_State* L) {
  auto** g = static_cast<Graph**>(luaL_checkudata(L, 1, kGraph));
  delete std::exchange(*g, nullptr);
  return 0;
}
// _graph_begin(graph, device, pool): captures on the current stream of the device.
int begin(lua_State* L) {
  graph_at(L, 1).begin(cuda_device(check_integer(L, 2, "capture_begin")),
                       check_integer(L, 3, "capture_begin"));
  return 0;
}
template <void (Graph::*act)()>
int act_on_graph(lua_State* L) {
  (graph_at(L, 1).*act)();
  return 0;
}
int pool(lua_State* L) {
  lua_pushinteger(L, graph_at(L, 1).pool());
  return 1;
}
int lua_new_pool(lua_State* L) {
  lua_pushinteger(L, new_pool_id());
  return 1;
}
// _capturing(device): does this thread capture what is asked of its current stream there? Without
// a device: of any.
int is_capturing(lua_State* L) {
  if (lua_isnoneornil(L, 1)) return lua_pushboolean(L, capturing != nullptr), 1;
  const Device d = cuda_device(check_integer(L, 1, "is_current_stream_capturing"));
  const Graph* g = capturing_on(d);
  lua_pushboolean(L, g && g->stream() == current_stream(d));
  return 1;
}

}  // namespace

void open_graphs(lua_State* L, int cuda) {
  luaL_newmetatable(L, kGraph);
  lua_pushcfunction(L, guarded<end_graph>);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  static const luaL_Reg functions[] = {{"_new_graph", guarded<new_graph>},
                                       {"_graph_begin", guarded<begin>},
                                       {"_graph_end", guarded<act_on_graph<&Graph::end>>},
                                       {"_graph_discard", guarded<act_on_graph<&Graph::discard>>},
                                       {"_graph_replay", guarded<act_on_graph<&Graph::replay>>},
                                       {"_graph_reset", guarded<act_on_graph<&Graph::reset>>},
                                       {"_graph_pool", guarded<pool>},
                                       {"_new_pool", guarded<lua_new_pool>},
                                       {"_capturing", guarded<is_capturing>},
                                       {nullptr, nullptr}};
  lua_pushvalue(L, cuda);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}

}  // namespace tycho::lua
