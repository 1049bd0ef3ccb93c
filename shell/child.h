// Programs run from the prompt: they get the terminal, with Ctrl-C and Ctrl-Z, and give it back.
#pragma once
#include <string>
#include <vector>

#include "bindings/core/lua.h"

namespace tycho::shell {

struct ChildEnd {
  int status = 0;            // the exit status, or 128 + the signal that ended it
  int signal = 0;            // that signal, or 0
  std::string failure = {};  // why it could not be started
};

// Runs a program to its end with our standard streams.
ChildEnd run_child(const std::vector<std::string>& argv);

// Lua: (command) for /bin/sh -> status, signal; raises when there is no shell to run it.
int lua_child(lua_State* L);
int lua_setenv(lua_State* L);       // (name, value)
int lua_environment(lua_State* L);  // () -> {"NAME=value", ..}
int lua_temporary(lua_State* L);    // () -> the name of a new, empty, private .lua file
int lua_restart(lua_State* L);      // begins this program anew with its arguments; raises if not

}  // namespace tycho::shell
