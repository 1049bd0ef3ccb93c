// The table `require "shell.native"`: what the prompt's Lua files need from C++.
#pragma once
#include "bindings/core/lua.h"

namespace tycho::shell {

int lua_limit(lua_State* L);           // time_limit.cpp
int lua_highlight(lua_State* L);       // highlight.cpp
int lua_list_directory(lua_State* L);  // directory.cpp
int lua_read_key(lua_State* L);        // read_key.cpp
int open_native(lua_State* L);         // package.preload["shell.native"]

// Pushes the module, or the error and false; whatever the user has done to `require`.
bool push_module(lua_State* L, const char* name);

}  // namespace tycho::shell
