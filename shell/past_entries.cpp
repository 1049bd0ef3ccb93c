// The entries of earlier sessions, read from the line editor's file.
#include <algorithm>

#include "shell/line/history.h"
#include "shell/past.h"

namespace tycho::shell {

int lua_history(lua_State* L) {
  const std::string part = luaL_optstring(L, 1, "");
  const auto most = static_cast<size_t>(std::max<lua_Integer>(1, luaL_optinteger(L, 2, 20)));
  line::History history;
  const std::vector<line::Record> found = history.search(part, most);
  lua_createtable(L, static_cast<int>(found.size()), 0);
  int n = 0;
  for (const line::Record& r : found) {
    lua_createtable(L, 0, 5);
    lua_pushlstring(L, r.text.data(), r.text.size());
    lua_setfield(L, -2, "text");
    lua_pushlstring(L, r.directory.data(), r.directory.size());
    lua_setfield(L, -2, "directory");
    lua_pushinteger(L, r.time / 1000000);
    lua_setfield(L, -2, "time");
    lua_pushinteger(L, r.time);
    lua_setfield(L, -2, "stamp");
    lua_pushboolean(L, r.ok);
    lua_setfield(L, -2, "ok");
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

}  // namespace tycho::shell
