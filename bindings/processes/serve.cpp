// Where the processes of mp.spawn meet for torch.distributed: a server in their parent, and what it puts
// into their environment.
#include <deque>
#include <memory>

#include "bindings/processes/processes.h"
#include "bindings/tools/check.h"
#include "engine/dist/server.h"

namespace tycho::lua {
namespace {

// They live until they are closed, also when Lua's state does not: at the end of the program processes
// may still be waited for.
std::deque<std::unique_ptr<dist::Server>>& servers() {
  static auto* const all = new std::deque<std::unique_ptr<dist::Server>>;
  return *all;
}

// _serve(world_size): its number, and for each rank a table of variables.
int serve(lua_State* L) {
  const auto world = static_cast<int>(check_integer(L, 1, "_serve"));
  dist::ServerOptions options;
  options.world_size = world;
  servers().push_back(dist::Server::start(options));
  lua_pushinteger(L, static_cast<lua_Integer>(servers().size()));
  lua_createtable(L, world, 0);
  for (int rank = 0; rank < world; ++rank) {
    lua_newtable(L);
    for (const auto& [name, value] :
         dist::rank_variables(*servers().back(), rank, world, rank, world)) {
      lua_pushlstring(L, value.data(), value.size());
      lua_setfield(L, -2, name.c_str());
    }
    lua_rawseti(L, -2, rank + 1);
  }
  return 2;
}

// _serve_no_more(number)
int serve_no_more(lua_State* L) {
  const int64_t n = check_integer(L, 1, "_serve_no_more");
  if (n >= 1 && n <= static_cast<int64_t>(servers().size()))
    servers()[static_cast<size_t>(n) - 1].reset();
  while (!servers().empty() && !servers().back()) servers().pop_back();
  return 0;
}

}  // namespace

void open_serve(lua_State* L, int torch) {
  lua_pushcfunction(L, guarded<serve>);
  lua_setfield(L, torch, "_serve");
  lua_pushcfunction(L, guarded<serve_no_more>);
  lua_setfield(L, torch, "_serve_no_more");
}

}  // namespace tycho::lua
