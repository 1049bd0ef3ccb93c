// What the prompt's tools ask the engine: torch._observe and its kin (profile.cpp) and
// torch._inspect and its kin (inspect.cpp). Plain tables come back, which hold no tensors.
#pragma once
#include "bindings/core/lua.h"

namespace tycho::lua {

// A field of the table on the stack.
inline void set_integer(lua_State* L, const char* key, int64_t n) {
  lua_pushinteger(L, n);
  lua_setfield(L, -2, key);
}
inline void set_text(lua_State* L, const char* key, const std::string& s) {
  lua_pushlstring(L, s.data(), s.size());
  lua_setfield(L, -2, key);
}

int lua_attempt(lua_State* L);   // _attempt(f, ...) -> ok, results or the error, traceback, stopped
int lua_observe(lua_State* L);   // _observe(f, sample) -> what the operations inside f took
int lua_measure(lua_State* L);   // _measure(f, seconds, synchronize) -> times of many runs
int lua_inspect(lua_State* L);   // _inspect(x) -> storage, layout, graph node of a tensor
int lua_unfold(lua_State* L);    // _unfold(y, options) -> the graph of y as tables
int lua_find_bad(lua_State* L);  // _find_bad(f) -> the first operation that made a nan or inf
int lua_graph(lua_State* L);     // _graph(x) -> what the graph of x keeps alive

void open_undo(lua_State* L, int torch);  // _changes and its kin (undo.cpp)

}  // namespace tycho::lua
