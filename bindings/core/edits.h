// How far a name is from another: what "did you mean" goes by.
#pragma once
#include <string_view>

#include "bindings/core/lua.h"

namespace tycho::lua {

// The number of edits that turn a into b, neighbours swapped counting as one (Damerau's distance with
// adjacent transpositions); some number above `most` when it is more.
int edits(std::string_view a, std::string_view b, int most);

// torch._edits(a, b, most)
int lua_edits(lua_State* L);

// torch._near(name, known, most): the keys of `known` that differ from name by at most so many
// edits, large and small letters alike, with their distances. A misspelt name is looked for among a
// thousand.
int lua_near(lua_State* L);

}  // namespace tycho::lua
