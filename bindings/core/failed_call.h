// What is known of a failing call when its error is raised.
#pragma once
#include "bindings/core/lua.h"

namespace tycho::lua {

// What is written down when an error is raised, so that its text can be worked out later, when
// someone reads it: the failing call's arguments (shapes and numbers, never tensors), where it
// stands, and the layers that run. One line each; torch.explain reads them:
//   S 12 @train.lua                            the user's line and its chunk
//   F matmul method                            what that line called, as Lua names it
//   L layers.0 Linear 1                        the layer that raised; 1: the line called it itself
//   A 1 T float32 cpu 1 0 [2, 3] [3, 1] x      argument 1: a tensor; contiguous, requires grad
//   V y T float32 cpu 1 0 [3] [1]              a variable, when no argument is a tensor
//   A 2 N 3     A 3 S text    A 4 I [1, 2]     a number, a string, a list of numbers
struct FailedCall {
  std::string where;  // "train.lua:12": the user's line
  std::string layer;  // "layers.0": the layer that raised, as state_dict names it, or ""
  std::string text;   // the lines above
};

// `top`: how many values of the stack are the failing function's arguments; -1: it is written in
// Lua and called torch._raise.
FailedCall failed_call(lua_State* L, int top);

}  // namespace tycho::lua
