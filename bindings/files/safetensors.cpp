// Files of safetensors: tables of named tensors; and the first format of Tycho's checkpoints, which
// lay in one.
#include "engine/io/safetensors.h"

#include <charconv>
#include <map>

#include "bindings/files/files.h"
#include "engine/io/file.h"

namespace tycho::lua {
namespace {

constexpr char kKey[] = "tycho.checkpoint";

void make_truths(const Tensor& bytes) {
  for (int64_t i = 0; i < bytes.numel(); ++i) bytes.host()[i] = bytes.host()[i] != 0;
}

void write_tensors(const std::string& path, io::SafetensorsHeader header,
                   const std::vector<Tensor>& tensors) {
  std::map<std::string, Tensor> by_name;
  for (size_t i = 0; i < tensors.size(); ++i) by_name.emplace(header.tensors[i].name, tensors[i]);
  const std::string head = io::safetensors_header(&header);
  // In the order of their places in the file.
  std::map<size_t, const io::SafetensorsEntry*> places;
  for (const auto& e : header.tensors)
    if (e.end > e.begin) places.emplace(e.begin, &e);
  io::atomic_write(path, [&](io::Output& out) {
    out.write(head);
    for (const auto& [begin, e] : places) {
      const Tensor t = on_cpu(by_name[e->name]);
      out.write(t.host(), static_cast<size_t>(t.numel()) * dtype_size(t.dtype()));
    }
  });
}

}  // namespace

bool is_safetensors_file(std::string_view bytes) { return bytes.size() > 8 && bytes[8] == '{'; }

void save_safetensors(lua_State* L, int value, const std::string& path) {
  io::SafetensorsHeader header;
  std::vector<Tensor> tensors;
  TYCHO_CHECK(Kind::Argument, lua_type(L, value) == LUA_TTABLE,
              "save: a .safetensors file holds a table of named tensors");
  lua_getglobal(L, "pairs");  // in the table's order, if it has one
  lua_pushvalue(L, value);
  lua_call(L, 1, 1);
  lua_pushnil(L);
  while (true) {
    lua_pushvalue(L, -2);  // the iterator, the last name
    lua_pushvalue(L, value);
    lua_pushvalue(L, -3);
    lua_call(L, 2, 2);
    if (lua_isnil(L, -2)) break;
    TYCHO_CHECK(Kind::Argument, lua_type(L, -2) == LUA_TSTRING && to_impl(L, -1),
                "save: a .safetensors file holds tensors by name only; other endings take tables "
                "of anything");
    const Tensor t(to_impl(L, -1));
    size_t n;
    const char* name = lua_tolstring(L, -2, &n);
    header.tensors.push_back({std::string(name, n), t.dtype(), t.shape()});
    tensors.push_back(t);
    lua_pop(L, 1);
    lua_remove(L, -2);
  }
  lua_pop(L, 4);
  write_tensors(path, std::move(header), tensors);
}

// A table of named tensors, or a checkpoint of Tycho's first format.
void push_safetensors(lua_State* L, const io::Input& file, const LoadOptions& o) {
  const io::SafetensorsHeader h = io::parse_safetensors(file.bytes(), file.path());
  const auto tensor = [&](const io::SafetensorsEntry& e) {
    const auto part = file.bytes().substr(h.data_offset + e.begin, e.end - e.begin);
    const bool map = o.mmap != 0 && e.dtype != DType::Bool;
    const Tensor bytes = file.read(part, map ? dtype_size(e.dtype) : 0);
    if (e.dtype == DType::Bool) make_truths(bytes);
    const Tensor t = as_array(bytes, e.dtype, e.shape);
    return moved_to(t, o.place(L, "cpu", t, file.path()));
  };
  for (const auto& [key, value] : h.metadata) {
    if (key != kKey) continue;
    std::vector<Tensor> tensors(h.tensors.size());
    for (const auto& e : h.tensors) {
      size_t k = tensors.size();
      std::from_chars(e.name.data(), e.name.data() + e.name.size(), k);
      if (k >= tensors.size() || tensors[k]) io::damaged(file.path(), "a tensor has a wrong name");
      tensors[k] = tensor(e);
    }
    return push_old_checkpoint(L, value, tensors, file.path());
  }
  lua_createtable(L, 0, static_cast<int>(h.tensors.size()));
  lua_createtable(L, static_cast<int>(h.tensors.size()), 0);
  for (const auto& e : h.tensors) {
    lua_pushlstring(L, e.name.data(), e.name.size());
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, static_cast<lua_Integer>(lua_rawlen(L, -3)) + 1);
    push(L, tensor(e));
    lua_rawset(L, -4);
  }
  keep_order(L, -2);
}

}  // namespace tycho::lua
