// The arguments of one Lua call, read by an op's signature: positions first, then the named ones of
// a last table.
#pragma once
#include "bindings/core/lua.h"

namespace tycho::lua {

// The arguments of one Lua call before a signature is chosen.
struct Given {
  lua_State* L;
  int first, count;  // positional values: stack slots first .. first + count - 1
  int named = 0;     // the table of named arguments, 0: none
  int packed = 0;    // positional values that stand in the named table's list part
};

// What a converted call keeps alive, besides the Lua stack.
struct KeptArguments {
  SmallVec<int64_t, 24> numbers;  // list elements; never grows while in use
  std::vector<std::unique_ptr<int64_t[]>> long_lists;
  std::vector<std::vector<Tensor>> tensors;
};

// A failed conversion says why; the message is built only when it is shown.
struct Mismatch {
  Kind kind = Kind::Argument;
  std::string text;
};

// Fills in the call; false with `why` when the arguments do not fit the op's signature. May leave
// values on the Lua stack, which keep alive what the call points to.
bool read_arguments(const Given& given, const Op& op, Call& c, KeptArguments& kept, Mismatch* why);

}  // namespace tycho::lua
