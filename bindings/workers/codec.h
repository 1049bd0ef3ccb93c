// Lua values on their way from one thread's state to another's. They cross by value: tables with
// what hangs on them, each once however often it is named; functions by their code and the
// variables they use; tensors share their memory; what torch and Lua have under a name stays that
// name.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "bindings/core/lua.h"

namespace tycho::lua {

struct CodedTensor {
  Ref<Storage> storage;
  DType dtype;
  bool requires_grad;
  Sizes shape, stride;
  int64_t offset;
};

struct Message {
  std::string bytes;
  std::vector<CodedTensor> tensors;
};

// What a message is about decides what its errors say, and what else goes with functions.
enum class Cargo {
  Setup,  // a dataset and functions: the globals that the functions use cross, too
  Batch,  // what a worker made
};

// Raises Kind::Argument for what cannot cross, with the way to it: "dataset.reader.file".
Message write_message(lua_State* L, int value, Cargo cargo);
void read_message(lua_State* L, Message& message);  // pushes the value

// The module of that name, also when a user has another `require`.
void push_module(lua_State* L, const char* name);

// Calls found(name) for every global that a dumped function (lua_dump, not stripped) or a function
// inside it reads or sets; `environment[i]`: its upvalue i is the table of globals. It reads Lua's
// own form of code: for where insides::knows_dumps() holds.
void find_globals(std::string_view dump, const std::vector<bool>& environment, void* context,
                  void (*found)(void* context, std::string_view name));

}  // namespace tycho::lua
