// torch._shapes_only(f, ...): calls f with operations that compute shapes and dtypes only, and
// torch._stand_in(x), a tensor without values to call it with. Suggestions in messages are tried
// out this way before they are shown.
#include "bindings/tools/check.h"
#include "engine/ops/table/apply.h"

namespace tycho::lua {
namespace {

int lua_stand_in(lua_State* L) {
  push(L, stand_in(check_tensor(L, 1, "_stand_in")));
  return 1;
}

int lua_shapes_only(lua_State* L) {
  check_function(L, 1, "_shapes_only");
  int status;
  {
    const ShapesOnly scope;
    NoGrad quiet;
    modes_changed(L);
    status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
  }
  modes_changed(L);
  if (status != LUA_OK) return lua_error(L);
  return lua_gettop(L);
}

}  // namespace

void open_shapes_only(lua_State* L, int torch) {
  static const luaL_Reg functions[] = {{"_stand_in", guarded<lua_stand_in>},
                                       {"_shapes_only", guarded<lua_shapes_only>},
                                       {"_lex", guarded<lua_lex>},
                                       {nullptr, nullptr}};
  lua_pushvalue(L, torch);
  luaL_setfuncs(L, functions, 0);
  lua_newtable(L);
  lua_setfield(L, -2, "_chunks");
  lua_pop(L, 1);
}

}  // namespace tycho::lua
