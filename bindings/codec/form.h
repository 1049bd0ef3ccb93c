// The form of a message. It is one value, then the contents of the objects (tables, functions) that
// came up in it, in the order in which they came up, so that nothing recurses, however deep the
// tables are; then the globals that functions use. Metatables are set last.
#pragma once
#include "bindings/codec/codec.h"

namespace tycho::lua::codec {

enum class Tag : char {
  Nil,
  False,
  True,
  Integer,
  Float,
  Text,
  Pointer,   // a light userdata
  Seen,      // an object that came up before
  Table,     // a new object; its contents come later
  Function,  // a new object: its code; its variables come later
  Tensor,    // a new object, whole
  Named,     // a new object, which the other side has under a name
  Globals,
  Environment,  // of the half of torch that is written in Lua
  DType,
  Device,
  Stream,      // a torch.Generator
  Registered,  // a metatable of the binding's own
  Handle
};

inline constexpr const char* kRegistered[] = {"tycho.shape", "tycho.error"};

// In the registry: the tensors that are parameters of modules (torch/nn/module.lua).
inline constexpr char kParameters[] = "tycho.parameters";

void push_names(lua_State* L, const char* field);  // of torch.utils.names

}  // namespace tycho::lua::codec
