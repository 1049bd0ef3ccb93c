// What the line editor asks while somebody types, answered by Lua. Each of these files may be
// missing; each returns a function of the text and the number of bytes left of the cursor.
//   shell.complete   first byte to replace (from 1), list of texts or {text=, note=}
//   shell.highlight  flat list {first, last, "keyword", first, last, "string", ..}, bytes from 1
//   shell.hint       list of lines, or one text, or nil
//   shell.indent     columns
#pragma once
#include "bindings/core/lua.h"
#include "shell/line/editor.h"

namespace tycho::shell {

// `session` is the stack index of the session, which must stay there.
line::Reader make_reader(lua_State* L, int session);
std::string reader_failure();  // the first failure since the last call, or ""

}  // namespace tycho::shell
