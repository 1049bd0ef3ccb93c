// What the readers and writers behind torch.save and torch.load share.
#pragma once
#include <string>
#include <string_view>

#include "bindings/lua.h"

namespace tycho::lua {

constexpr int kMostDepth = 200;  // of tables in tables

// map_location: where loaded tensors go.
struct Location {
  bool given = false;
  Device device;
  int names = 0;  // the stack's index of a table from names to devices, or 0
};

Tensor on_cpu(const Tensor& t);  // row-major in the CPU's memory; t itself where it is so
Tensor moved_to(const Tensor& t, Device device);

bool is_pytorch_file(std::string_view file);  // of either format
// Push what the file holds.
void push_pytorch(lua_State* L, std::string_view file, const std::string& path, const Location& to);
void push_npz(lua_State* L, std::string_view file, const std::string& path, Device device);
void save_pytorch(lua_State* L, int value, const std::string& path);
void save_npz(lua_State* L, int value, const std::string& path);
// The table of a checkpoint that Tycho wrote before it had PyTorch's format.
void push_old_checkpoint(lua_State* L, const std::string& hex, const std::vector<Tensor>& tensors,
                         const std::string& path);

}  // namespace tycho::lua
