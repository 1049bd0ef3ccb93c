// Files from Lua: torch.save and torch.load, and readers of IDX and .npy arrays. The ending of the
// name chooses the format: .npy, .npz, .safetensors (a flat table of tensors), else PyTorch's own.
// Files of other endings are read by what they begin with.
#include <charconv>
#include <cstring>
#include <map>

#include "bindings/files.h"
#include "engine/io/file.h"
#include "engine/io/idx.h"
#include "engine/io/npy.h"
#include "engine/io/safetensors.h"
#include "engine/ops/apply.h"

namespace tycho::lua {
namespace {

constexpr char kKey[] = "tycho.checkpoint";

bool ends_with(const std::string& s, const char* end) { return std::string_view(s).ends_with(end); }

std::string path_at(lua_State* L, int i, const char* what) {
  std::string room;
  TYCHO_CHECK(Kind::Argument, lua_type(L, i) == LUA_TSTRING,
              "%s: the path must be a string, not %s", what, describe_value(L, i, &room));
  return lua_tostring(L, i);
}

// --- tensors and bytes ---
Tensor from_bytes(DType dtype, const Sizes& shape, std::string_view bytes, Device device) {
  Tensor t = empty(shape, dtype);
  std::memcpy(t.data(), bytes.data(), bytes.size());
  return moved_to(t, device);
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
      out.write(t.data(), static_cast<size_t>(t.numel()) * dtype_size(t.dtype()));
    }
  });
}

// torch.save(value, path)
int save(lua_State* L) {
  const std::string path = path_at(L, 2, "save");
  if (ends_with(path, ".npy")) {
    const Tensor t = on_cpu(check_tensor(L, 1, "save"));
    const std::string head = io::npy_header(t.dtype(), t.shape());
    io::atomic_write(path, [&](io::Output& out) {
      out.write(head);
      out.write(t.data(), static_cast<size_t>(t.numel()) * dtype_size(t.dtype()));
    });
    return 0;
  }
  if (ends_with(path, ".npz")) {
    save_npz(L, 1, path);
    return 0;
  }
  if (!ends_with(path, ".safetensors")) {
    save_pytorch(L, 1, path);
    return 0;
  }
  io::SafetensorsHeader header;
  std::vector<Tensor> tensors;
  TYCHO_CHECK(Kind::Argument, lua_type(L, 1) == LUA_TTABLE,
              "save: a .safetensors file holds a table of named tensors");
  lua_pushnil(L);
  while (lua_next(L, 1)) {
    TYCHO_CHECK(Kind::Argument, lua_type(L, -2) == LUA_TSTRING && to_impl(L, -1),
                "save: a .safetensors file holds tensors by name only; other endings take tables "
                "of anything");
    const Tensor t(to_impl(L, -1));
    header.tensors.push_back({lua_tostring(L, -2), t.dtype(), t.shape()});
    tensors.push_back(t);
    lua_pop(L, 1);
  }
  write_tensors(path, std::move(header), tensors);
  return 0;
}

// The second argument of load: a device, {map_location = device}, or a table of devices by name.
Location location_at(lua_State* L) {
  Location to;
  std::string room;
  if (lua_isnoneornil(L, 2)) return to;
  lua_settop(L, 2);
  if (lua_type(L, 2) == LUA_TTABLE)
    lua_getfield(L, 2, "map_location");
  else
    lua_pushvalue(L, 2);
  if (lua_isnil(L, 3)) return to;
  if (lua_type(L, 3) == LUA_TTABLE) {
    to.names = 3;
    return to;
  }
  TYCHO_CHECK(Kind::Argument, to_device(L, 3, &to.device), "load: map_location: %s is no device",
              describe_value(L, 3, &room));
  to.given = true;
  return to;
}

// torch.load(path, map_location), torch.load(path, {map_location = "cpu"})
int load(lua_State* L) {
  const std::string path = path_at(L, 1, "load");
  const Location to = location_at(L);
  const Device device = to.device;
  const std::string file = io::read_file(path);
  const bool named =
      ends_with(path, ".npy") || ends_with(path, ".npz") || ends_with(path, ".safetensors");
  if (named ? ends_with(path, ".npy") : file.starts_with("\x93NUMPY")) {
    const io::NpyHeader h = io::parse_npy(file, path);
    Tensor t = empty(h.shape, h.dtype);
    io::copy_npy(h, file, t.data());
    push(L, moved_to(t, device));
    return 1;
  }
  if (ends_with(path, ".npz")) {
    push_npz(L, file, path, device);
    return 1;
  }
  if (!named && is_pytorch_file(file)) {
    push_pytorch(L, file, path, to);
    return 1;
  }
  if (!named && (file.size() < 9 || file[8] != '{'))
    fail(Kind::Io,
         path + (file.empty() ? " is empty"
                              : " is no file of PyTorch (nor .safetensors, .npy or .npz), "
                                "or its beginning is damaged"));
  const io::SafetensorsHeader h = io::parse_safetensors(file, path);
  const auto tensor = [&](const io::SafetensorsEntry& e) {
    return from_bytes(e.dtype, e.shape,
                      std::string_view(file).substr(h.data_offset + e.begin, e.end - e.begin),
                      device);
  };
  for (const auto& [key, value] : h.metadata) {
    if (key != kKey) continue;
    std::vector<Tensor> tensors(h.tensors.size());
    for (const auto& e : h.tensors) {
      size_t k = tensors.size();
      std::from_chars(e.name.data(), e.name.data() + e.name.size(), k);
      if (k >= tensors.size() || tensors[k]) io::damaged(path, "a tensor has the wrong name");
      tensors[k] = tensor(e);
    }
    push_old_checkpoint(L, value, tensors, path);
    return 1;
  }
  lua_createtable(L, 0, static_cast<int>(h.tensors.size()));
  for (const auto& e : h.tensors) {
    push(L, tensor(e));
    lua_setfield(L, -2, e.name.c_str());
  }
  return 1;
}

// torch.io.read_idx(path): an array in MNIST's format, packed by gzip or not
int read_idx(lua_State* L) {
  const std::string path = path_at(L, 1, "read_idx");
  const io::IdxArray a = io::parse_idx(io::read_file(path), path);
  push(L, from_bytes(a.dtype, a.shape, a.data, Device{}));
  pace_collector(L);
  return 1;
}

}  // namespace

void open_io(lua_State* L, int torch) {
  torch = lua_absindex(L, torch);
  static const luaL_Reg functions[] = {
      {"save", guarded<save>}, {"load", guarded<load>}, {nullptr, nullptr}};
  lua_pushvalue(L, torch);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
  static const luaL_Reg readers[] = {{"read_idx", guarded<read_idx>}, {nullptr, nullptr}};
  luaL_newlib(L, readers);
  lua_setfield(L, torch, "io");
}

}  // namespace tycho::lua
