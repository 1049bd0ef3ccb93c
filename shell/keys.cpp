// The line editor's keys, for %keys.
#include "shell/keys.h"

#include "shell/line/editor.h"

namespace tycho::shell {

int lua_keys(lua_State* L) {
  lua_newtable(L);
  int n = 0;
  for (const line::KeyHelp& help : line::key_help()) {
    lua_createtable(L, 0, 2);
    lua_pushlstring(L, help.keys.data(), help.keys.size());
    lua_setfield(L, -2, "keys");
    lua_pushlstring(L, help.does.data(), help.does.size());
    lua_setfield(L, -2, "does");
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

}  // namespace tycho::shell
