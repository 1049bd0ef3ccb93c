// The parts of torch.cuda that are made in C++, each put into the table at `cuda`.
#pragma once
#include "bindings/core/lua.h"

namespace tycho::lua {

void open_streams(lua_State* L, int cuda);
void open_graphs(lua_State* L, int cuda);
void open_nvtx(lua_State* L, int cuda);
void open_doctor(lua_State* L, int cuda);

}  // namespace tycho::lua
