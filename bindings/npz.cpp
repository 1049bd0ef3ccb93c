// NumPy's .npz files: zip archives of .npy files, as tables from names to tensors.
#include <map>

#include "bindings/files.h"
#include "engine/io/file.h"
#include "engine/io/npy.h"
#include "engine/io/zip.h"

namespace tycho::lua {

void push_npz(lua_State* L, std::string_view file, const std::string& path, Device device) {
  if (!io::is_zip(file)) fail(Kind::Io, path + " is no .npz file: it is no zip archive");
  const auto entries = io::zip_entries(file, path);
  lua_createtable(L, 0, static_cast<int>(entries.size()));
  for (const auto& e : entries) {
    if (!e.name.ends_with(".npy"))
      fail(Kind::Io, path + " holds " + e.name.substr(0, 80) + ", which is no .npy file");
    const std::string name = e.name.substr(0, e.name.size() - 4);
    std::string room;
    const std::string_view content = io::zip_content(file, e, &room, path);
    const io::NpyHeader h = io::parse_npy(content, path + ", array " + name);
    Tensor t = empty(h.shape, h.dtype);
    io::copy_npy(h, content, t.data());
    lua_pushlstring(L, name.data(), name.size());
    push(L, moved_to(t, device));
    lua_rawset(L, -3);
  }
  pace_collector(L);
}

// A table of named tensors, a list of tensors (arr_0, arr_1, as NumPy names them) or one tensor.
void save_npz(lua_State* L, int value, const std::string& path) {
  std::map<std::string, Tensor> arrays;
  const char* const wants =
      "save: a .npz file holds a table of named tensors, a list of tensors, or a tensor";
  if (Impl* one = to_impl(L, value)) {
    arrays.emplace("arr_0", Tensor(one));
  } else {
    TYCHO_CHECK(Kind::Argument, lua_type(L, value) == LUA_TTABLE, "%s", wants);
    lua_pushnil(L);
    while (lua_next(L, value)) {
      TYCHO_CHECK(Kind::Argument,
                  to_impl(L, -1) && (lua_type(L, -2) == LUA_TSTRING || lua_isinteger(L, -2)), "%s",
                  wants);
      const std::string name = lua_type(L, -2) == LUA_TSTRING
                                   ? lua_tostring(L, -2)
                                   : "arr_" + std::to_string(lua_tointeger(L, -2) - 1);
      TYCHO_CHECK(Kind::Argument, name.size() < 60000, "save: the name of an array is too long");
      TYCHO_CHECK(Kind::Argument, arrays.emplace(name, Tensor(to_impl(L, -1))).second,
                  "save: two arrays have the name %s", name.c_str());
      lua_pop(L, 1);
    }
  }
  io::atomic_write(path, [&](io::Output& out) {
    io::ZipWriter zip(out);
    for (const auto& [name, tensor] : arrays) {
      const Tensor t = on_cpu(tensor);
      const std::string head = io::npy_header(t.dtype(), t.shape());
      zip.add(name + ".npy", {head, std::string_view(t.data(), static_cast<size_t>(t.numel()) *
                                                                   dtype_size(t.dtype()))});
    }
    zip.finish();
  });
}

}  // namespace tycho::lua
