// The parts of autograd in Lua, and what they share.
#pragma once
#include <initializer_list>

#include "bindings/core/lua.h"

namespace tycho::lua {

// Raises where the table of options has a name that is none of these.
void check_options(lua_State* L, int table, const char* op,
                   std::initializer_list<const char*> names);

// Opened by open_autograd.
void open_script_line(lua_State* L);          // script_line.cpp
void open_function(lua_State* L, int torch);  // function.cpp, into torch.autograd
void open_modes(lua_State* L, int torch);     // modes.cpp

// torch.no_grad() and its relatives without a function give an object that ends the mode when it is
// closed. Until the next entry it is open whether somebody will: there, one that no local variable
// holds ends at once, and a note says so (modes.cpp).
bool scope_is_open();
void settle_scope(lua_State* L);

}  // namespace tycho::lua
