// The kernel of a notebook, as far as Lua cannot do it (shell/lua/kernel.lua has the rest).
#pragma once
#include "bindings/core/lua.h"

namespace tycho::shell {

// Before Lua opens its libraries: standard input becomes a stream that asks the notebook.
void prepare_kernel();

// Pushes the table native.kernel:
//   available(): true, or nil and what to install.
//   open{transport=, address=, key=, digest=, shell=, control=, iopub=, input=, heartbeat=, info=}: true,
//     or nil and why not. From here on standard output and error go to the notebook.
//   next(): waits for a request: its type and content, and whether it came by the control channel;
//     nothing when nobody is left. at_hand(): the same without waiting. waiting(): how many are there.
//   reply(type, content), publish(type, content): JSON to who asked, to all who listen.
//   allow_input(yes): may io.read ask? What was typed before and not read is gone.
//   close()
void push_kernel(lua_State* L);

}  // namespace tycho::shell
