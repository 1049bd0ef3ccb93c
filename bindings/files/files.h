// What the readers and writers behind torch.save and torch.load share.
#pragma once
#include <string>
#include <string_view>

#include "bindings/core/lua.h"
#include "engine/io/input.h"

namespace tycho::lua {

constexpr int kMostDepth = 200;  // of tables in tables

// What torch.load was told.
struct LoadOptions {
  int map_location = 0;  // its index in the stack, or 0
  int mmap = -1;         // 0 or 1 where it was given
  // Where a tensor goes that was saved on the device of this name: map_location's answer, else
  // there. `bytes` are its elements, for a function to look at. Raises where no such device is.
  Device place(lua_State* L, const std::string& saved_on, const Tensor& bytes,
               const std::string& path) const;
};

Tensor on_cpu(const Tensor& t);  // row-major in the CPU's memory; t itself where it is so
// The bytes of a row-major tensor [n] of uint8 as another dtype and shape.
Tensor as_array(const Tensor& bytes, DType dtype, const Sizes& shape);
Tensor moved_to(const Tensor& t, Device device);

// A table that is written as a dict even where its keys are 1 to n (torch._dict marks it), and one
// that is written as a list.
void mark_dict(lua_State* L, int table);
bool is_list(lua_State* L, int table);

std::string path_at(lua_State* L, int i, const char* what);  // an argument

// --- The formats (formats.cpp has their table) ---
// Is it one, by its beginning?
bool is_pytorch_file(std::string_view bytes);  // of either format
bool is_safetensors_file(std::string_view bytes);
bool is_npy_file(std::string_view bytes);
bool is_idx_file(std::string_view bytes);
// Push what the file holds.
void push_pytorch(lua_State* L, const io::Input& file, const LoadOptions& options);
void push_safetensors(lua_State* L, const io::Input& file, const LoadOptions& options);
void push_npy(lua_State* L, const io::Input& file, const LoadOptions& options);
void push_npz(lua_State* L, const io::Input& file, const LoadOptions& options);
void push_idx(lua_State* L, const io::Input& file, const LoadOptions& options);
void save_pytorch(lua_State* L, int value, const std::string& path);
void save_safetensors(lua_State* L, int value, const std::string& path);
void save_npy(lua_State* L, int value, const std::string& path);
void save_npz(lua_State* L, int value, const std::string& path);
int read_idx(lua_State* L);  // torch.io.read_idx
// The table of a checkpoint that Tycho wrote before it had PyTorch's format.
void push_old_checkpoint(lua_State* L, const std::string& hex, const std::vector<Tensor>& tensors,
                         const std::string& path);

}  // namespace tycho::lua
