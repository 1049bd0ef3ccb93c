// An end of a connection between processes as a Lua value: what queues and pipes are made of. A unix
// SEQPACKET socket: a value is one packet, whole or not there, so that several processes may write and
// read one end and any of them may die; there is no lock that a dead one could hold. What is large,
// and all tensors, travel as memory segments beside it.
#pragma once
#include "bindings/codec/codec.h"

namespace tycho::lua {

void push_handle(lua_State* L, Handle handle);
Handle* to_handle(lua_State* L, int i);  // null when the value is none; empty when it is closed

void open_sockets(lua_State* L, int torch);  // torch._socket_pair, torch._unsent

}  // namespace tycho::lua
