// torch._changes(bytes, {x, ..}): keeps what these tensors held before they are changed in place, until
// torch._changes_end(changes), which gives the storages changed, the bytes that were too large to
// keep, and an operation that cannot be taken back; torch._changes_undo(changes) writes them back.
#include <algorithm>
#include <unordered_set>
#include <utility>

#include "bindings/tools/check.h"
#include "bindings/tools/tools.h"
#include "engine/watch/changes.h"

namespace tycho::lua {
namespace {

const char kChanges[] = "tycho.changes";
using watch::Changes;

int changes(lua_State* L) {
  const auto most = static_cast<size_t>(std::max<int64_t>(0, check_integer(L, 1, "_changes")));
  std::unordered_set<const Storage*> of;
  for (lua_Integer i = 1; lua_istable(L, 2) && lua_rawgeti(L, 2, i) != LUA_TNIL; ++i) {
    if (const Impl* t = to_impl(L, -1)) of.insert(t->storage.get());
    lua_pop(L, 1);
  }
  void* room = lua_newuserdatauv(L, sizeof(Changes), 0);
  new (room) Changes(most, std::move(of));
  luaL_setmetatable(L, kChanges);
  return 1;
}

Changes& changes_at(lua_State* L) {
  void* const c = luaL_testudata(L, 1, kChanges);
  TYCHO_CHECK(Kind::Argument, c, "_changes: what _changes gave is wanted first");
  return *static_cast<Changes*>(c);
}

int changes_end(lua_State* L) {
  Changes& c = changes_at(L);
  c.stop();
  lua_pushinteger(L, static_cast<lua_Integer>(c.storages()));
  lua_pushinteger(L, static_cast<lua_Integer>(c.lost_bytes()));
  lua_pushstring(L, c.other().empty() ? nullptr : c.other().c_str());
  lua_pushinteger(L, static_cast<lua_Integer>(c.bytes()));
  return 4;
}

int changes_undo(lua_State* L) {
  Changes& c = changes_at(L);
  c.stop();
  c.restore();
  lua_pushinteger(L, static_cast<lua_Integer>(c.lost_bytes()));
  return 1;
}

int changes_gone(lua_State* L) {
  static_cast<Changes*>(lua_touserdata(L, 1))->~Changes();
  return 0;
}

}  // namespace

void open_undo(lua_State* L, int torch) {
  luaL_newmetatable(L, kChanges);
  lua_pushcfunction(L, changes_gone);
  lua_setfield(L, -2, "__gc");
  lua_pop(L, 1);
  static const luaL_Reg functions[] = {{"_changes", guarded<changes>},
                                       {"_changes_end", guarded<changes_end>},
                                       {"_changes_undo", guarded<changes_undo>},
                                       {nullptr, nullptr}};
  lua_pushvalue(L, torch);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}

}  // namespace tycho::lua
