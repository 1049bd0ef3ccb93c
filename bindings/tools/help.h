// What help, completion and editors know: the op table and the embedded Lua files, as Lua tables.
#pragma once
#include <lua.h>

#include <cstddef>

// Made by the build: names and texts of the embedded Lua files, ended by a null name; the program's own
// ones as compiled code too (bindings/embed).
struct EmbeddedFile {
  const char *name, *text;
  size_t size;
  const char* code;
  size_t code_size;
};
extern "C" const EmbeddedFile tycho_embedded_lua[];

namespace tycho::lua {

void open_help(lua_State* L, int torch);  // _ops, _brief, _embedded

}  // namespace tycho::lua
