// NumPy's .npz files: zip archives of .npy files, as tables from names to tensors.
#include <map>

#include "bindings/files/files.h"
#include "engine/io/crc32.h"
#include "engine/io/file.h"
#include "engine/io/npy.h"
#include "engine/io/zip.h"

namespace tycho::lua {

namespace {

// The elements of a stored array that lie in the file as in a tensor.
Tensor stored(const io::Input& file, const io::ZipEntry& e, const io::NpyHeader& h, bool map) {
  const std::string_view content = file.bytes().substr(e.begin, e.size);
  const auto bytes = static_cast<size_t>(h.bytes);
  const std::string_view part = content.substr(h.data_offset, bytes);
  if (map && file.can_view(part, static_cast<size_t>(dtype_size(h.dtype))))
    return as_array(file.view(part), h.dtype, h.shape);
  Tensor t = empty(h.shape, h.dtype);
  uint32_t sum = io::crc32(content.substr(0, h.data_offset));
  sum = io::crc32_joined(sum, file.copy_summed(part, t.host()), bytes);
  io::zip_check(e, io::crc32(content.substr(h.data_offset + bytes), sum), file.path());
  return t;
}

Tensor array(const io::Input& file, const io::ZipEntry& e, const std::string& name, bool map) {
  const std::string title = file.path() + ", array " + name;
  if (e.method == 0) {
    const auto h = io::parse_npy(file.bytes().substr(e.begin, e.size), title);
    if (h.plain()) return stored(file, e, h, map);
  }
  std::string room;
  const std::string_view content = io::zip_content(file.bytes(), e, &room, file.path());
  const io::NpyHeader h = io::parse_npy(content, title);
  Tensor t = empty(h.shape, h.dtype);
  io::copy_npy(h, content, t.host());
  return t;
}

}  // namespace

void push_npz(lua_State* L, const io::Input& file, const LoadOptions& options) {
  const std::string& path = file.path();
  if (!io::is_zip(file.bytes())) fail(Kind::Io, path + " is no .npz file: it is no zip archive");
  const auto entries = io::zip_entries(file.bytes(), path);
  lua_createtable(L, 0, static_cast<int>(entries.size()));
  lua_createtable(L, static_cast<int>(entries.size()), 0);
  for (const auto& e : entries) {
    if (!e.name.ends_with(".npy"))
      fail(Kind::Io, path + " holds " + e.name.substr(0, 80) + ", which is no .npy file");
    const std::string name = e.name.substr(0, e.name.size() - 4);
    const Tensor t = array(file, e, name, options.mmap == 1);
    lua_pushlstring(L, name.data(), name.size());
    lua_pushvalue(L, -1);
    lua_rawseti(L, -3, static_cast<lua_Integer>(lua_rawlen(L, -3)) + 1);
    push(L, moved_to(t, options.place(L, "cpu", t, path)));
    lua_rawset(L, -4);
  }
  keep_order(L, -2);
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
      zip.add(name + ".npy", {head, std::string_view(t.host(), static_cast<size_t>(t.numel()) *
                                                                   dtype_size(t.dtype()))});
    }
    zip.finish();
  });
}

}  // namespace tycho::lua
