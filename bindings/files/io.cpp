// Files from Lua: torch.save and torch.load, and readers of IDX and .npy arrays. The ending of the
// name chooses the format: .npy, .npz, .safetensors (a flat table of tensors), else PyTorch's own.
// Files of other endings are read by what they begin with.
#include <charconv>
#include <cstring>
#include <map>

#include "bindings/files/files.h"
#include "engine/io/file.h"
#include "engine/io/idx.h"
#include "engine/io/npy.h"
#include "engine/io/safetensors.h"
#include "engine/ops/table/apply.h"

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

void make_truths(const Tensor& bytes) {
  for (int64_t i = 0; i < bytes.numel(); ++i) bytes.data()[i] = bytes.data()[i] != 0;
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
    size_t n;
    const char* name = lua_tolstring(L, -2, &n);
    header.tensors.push_back({std::string(name, n), t.dtype(), t.shape()});
    tensors.push_back(t);
    lua_pop(L, 1);
  }
  write_tensors(path, std::move(header), tensors);
  return 0;
}

// The second argument of load: options, or map_location itself.
LoadOptions options_at(lua_State* L) {
  LoadOptions o;
  lua_settop(L, 2);
  if (lua_isnil(L, 2)) return o;
  if (lua_type(L, 2) != LUA_TTABLE) {
    o.map_location = 2;
    return o;
  }
  lua_pushnil(L);
  while (lua_next(L, 2)) {
    lua_pop(L, 1);
    const std::string_view key = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : "";
    if (key == "cpu" || key.starts_with("cuda")) {  // map_location as a table of devices
      o.map_location = 2;
      lua_pop(L, 1);
      return o;
    }
    std::string room;
    TYCHO_CHECK(Kind::Argument, key == "map_location" || key == "mmap" || key == "weights_only",
                "load: no option %s (it has: map_location, mmap, weights_only)",
                key.empty() ? describe_value(L, -1, &room)
                            : ('"' + std::string(key.substr(0, 60)) + '"').c_str());
  }
  // Nothing in a file is ever run, whatever weights_only says.
  if (lua_getfield(L, 2, "mmap") != LUA_TNIL) o.mmap = lua_toboolean(L, -1);
  lua_pop(L, 1);
  if (lua_getfield(L, 2, "map_location") != LUA_TNIL) o.map_location = lua_gettop(L);
  return o;
}

// The same elements, read with the first index running fastest.
Tensor first_fastest(const Tensor& t) {
  Sizes stride = t.shape();
  int64_t step = 1;
  for (int d = 0; d < t.rank(); step *= std::max<int64_t>(t.size(d), 1), ++d) stride[d] = step;
  return alias(t, t.shape(), stride, 0);
}

Tensor load_npy(lua_State* L, const io::Input& file, const LoadOptions& o) {
  const io::NpyHeader h = io::parse_npy(file.bytes(), file.path());
  Tensor t;
  if (h.as_they_are()) {
    const auto part = file.bytes().substr(h.data_offset, static_cast<size_t>(h.bytes));
    t = as_array(file.read(part, o.mmap == 1 ? dtype_size(h.dtype) : 0), h.dtype, h.shape);
    if (h.fortran_order) t = on_cpu(first_fastest(t));
  } else {
    t = empty(h.shape, h.dtype);
    io::copy_npy(h, file.bytes(), t.data());
  }
  return moved_to(t, o.place(L, "cpu", t, file.path()));
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
  for (const auto& e : h.tensors) {
    lua_pushlstring(L, e.name.data(), e.name.size());
    push(L, tensor(e));
    lua_rawset(L, -3);
  }
}

// torch.load(path, map_location), torch.load(path, {map_location = "cpu", mmap = true})
int load(lua_State* L) {
  const std::string path = path_at(L, 1, "load");
  const LoadOptions options = options_at(L);
  const io::Input file(path);
  const std::string_view bytes = file.bytes();
  const bool named =
      ends_with(path, ".npy") || ends_with(path, ".npz") || ends_with(path, ".safetensors");
  if (named ? ends_with(path, ".npy") : bytes.starts_with("\x93NUMPY"))
    push(L, load_npy(L, file, options));
  else if (ends_with(path, ".npz"))
    push_npz(L, file, options);
  else if (!named && is_pytorch_file(bytes))
    push_pytorch(L, file, options);
  else if (!named && bytes.size() > 262 && bytes.substr(257, 5) == "ustar")
    fail(Kind::Io, path + " is a tar archive, as the first versions of PyTorch wrote",
         "torch.save(torch.load(path, weights_only=False), path)  # in a newer PyTorch");
  else if (!named && (bytes.size() < 9 || bytes[8] != '{'))
    fail(Kind::Io,
         path + (bytes.empty() ? " is empty"
                               : " is no file of PyTorch (nor .safetensors, .npy or .npz), "
                                 "or its beginning is damaged"));
  else
    push_safetensors(L, file, options);
  pace_collector(L);
  return 1;
}

void check_table(lua_State* L, const char* who) {
  std::string room;
  TYCHO_CHECK(Kind::Argument, lua_type(L, 1) == LUA_TTABLE, "%s: wants a table, not %s", who,
              describe_value(L, 1, &room));
}

// torch._dict(t): marks t as one that is saved as a dict whatever its keys are
int dict(lua_State* L) {
  check_table(L, "_dict");
  lua_settop(L, 1);
  mark_dict(L, 1);
  return 1;
}

// torch._is_list(t): whether t is saved as a list
int lua_is_list(lua_State* L) {
  check_table(L, "_is_list");
  lua_pushboolean(L, is_list(L, 1));
  return 1;
}

// torch.io.read_idx(path): an array in MNIST's format, packed by gzip or not
int read_idx(lua_State* L) {
  const std::string path = path_at(L, 1, "read_idx");
  const io::IdxArray a = io::parse_idx(io::read_file(path), path);
  const Tensor t = empty(a.shape, a.dtype);
  std::memcpy(t.data(), a.data.data(), a.data.size());
  push(L, t);
  pace_collector(L);
  return 1;
}

}  // namespace

Tensor as_array(const Tensor& bytes, DType dtype, const Sizes& shape) {
  Sizes stride = shape;
  int64_t step = 1;
  for (int d = shape.size(); d-- > 0; step *= std::max<int64_t>(shape[d], 1)) stride[d] = step;
  Tensor t = alias(bytes, shape, stride, 0);
  t->dtype = dtype;
  return t;
}

Device LoadOptions::place(lua_State* L, const std::string& saved_on, const Tensor& bytes,
                          const std::string& path) const {
  const int top = lua_gettop(L);
  bool found = false;
  Device d;
  std::string room;
  if (map_location && lua_type(L, map_location) == LUA_TTABLE) {
    lua_getfield(L, map_location, saved_on.c_str());
  } else if (map_location && lua_type(L, map_location) == LUA_TFUNCTION) {
    lua_pushvalue(L, map_location);
    push(L, bytes);
    lua_pushlstring(L, saved_on.data(), saved_on.size());
    lua_call(L, 2, 1);
    if (const Impl* t = to_impl(L, -1)) d = t->device, found = true;
  } else if (map_location) {
    lua_pushvalue(L, map_location);
  }
  if (lua_gettop(L) > top && !lua_isnil(L, -1) && !found) {
    TYCHO_CHECK(Kind::Argument, to_device(L, -1, &d), "load: map_location: %s is no device",
                describe_value(L, -1, &room));
    found = true;
  }
  lua_settop(L, top);
  if (found || saved_on == "cpu") return d;
  try {
    return parse_device(saved_on);
  } catch (const Error&) {
    fail(Kind::Device,
         path + " holds tensors of " + saved_on.substr(0, 40) +
             ", which is not here; say where they go",
         "torch.load(path, {map_location=\"cpu\"})");
  }
}

void open_io(lua_State* L, int torch) {
  torch = lua_absindex(L, torch);
  static const luaL_Reg functions[] = {{"save", guarded<save>},
                                       {"load", guarded<load>},
                                       {"_dict", guarded<dict>},
                                       {"_is_list", guarded<lua_is_list>},
                                       {nullptr, nullptr}};
  lua_pushvalue(L, torch);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
  static const luaL_Reg readers[] = {{"read_idx", guarded<read_idx>}, {nullptr, nullptr}};
  luaL_newlib(L, readers);
  lua_setfield(L, torch, "io");
}

}  // namespace tycho::lua
