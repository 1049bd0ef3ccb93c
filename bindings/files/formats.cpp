// torch.save and torch.load: the table of the formats of files, and what is the same for all.
#include "bindings/files/files.h"
#include "engine/watch/notes.h"

namespace tycho::lua {
namespace {

[[noreturn]] void push_tar(lua_State*, const io::Input& file, const LoadOptions&) {
  fail(Kind::Io, file.path() + " is a tar archive, as the first versions of PyTorch wrote",
       "torch.save(torch.load(path, weights_only=False), path)  # in a newer PyTorch");
}
bool is_tar_file(std::string_view bytes) {
  return bytes.size() > 262 && bytes.substr(257, 5) == "ustar";
}

// A file is of the format that its name's ending tells, else of the first whose sniff knows its
// beginning. A value is saved in the format of the ending, else in the first row's.
constexpr struct Format {
  const char* ending;                     // "": none of its own
  bool (*sniff)(std::string_view bytes);  // null: known by the ending alone
  void (*load)(lua_State* L, const io::Input& file, const LoadOptions& options);  // pushes
  void (*save)(lua_State* L, int value, const std::string& path);  // null: is only read
} kFormats[] = {
    {"", is_pytorch_file, push_pytorch, save_pytorch},
    {"", is_tar_file, push_tar, nullptr},
    {".safetensors", is_safetensors_file, push_safetensors, save_safetensors},
    {".npy", is_npy_file, push_npy, save_npy},
    {".npz", nullptr, push_npz, save_npz},
    {"", is_idx_file, push_idx, nullptr},
};

const Format* named(std::string_view path) {
  for (const Format& f : kFormats)
    if (*f.ending && path.ends_with(f.ending)) return &f;
  return nullptr;
}

const Format& format_of(const io::Input& file) {
  if (const Format* f = named(file.path())) return *f;
  for (const Format& f : kFormats)
    if (f.sniff && f.sniff(file.bytes())) return f;
  if (file.bytes().empty()) fail(Kind::Io, file.path() + " is empty");
  std::vector<std::string> endings;
  for (const Format& f : kFormats)
    if (*f.ending) endings.push_back(f.ending);
  std::string list;
  for (size_t i = 0; i < endings.size(); ++i)
    list += (i == 0 ? "" : i + 1 == endings.size() ? " or " : ", ") + endings[i];
  fail(Kind::Io,
       file.path() + " is no file of PyTorch (nor " + list + "), or its beginning is damaged");
}

// torch.save(value, path)
int save(lua_State* L) {
  const std::string path = path_at(L, 2, "save");
  const Format* f = named(path);
  (f && f->save ? *f : kFormats[0]).save(L, 1, path);
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

// torch.load(path, map_location), torch.load(path, {map_location = "cpu", mmap = true})
int load(lua_State* L) {
  const std::string path = path_at(L, 1, "load");
  const LoadOptions options = options_at(L);
  const io::Input file(path);
  format_of(file).load(L, file, options);
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

}  // namespace

std::string path_at(lua_State* L, int i, const char* what) {
  std::string room;
  TYCHO_CHECK(Kind::Argument, lua_type(L, i) == LUA_TSTRING,
              "%s: the path must be a string, not %s", what, describe_value(L, i, &room));
  return lua_tostring(L, i);
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
  if (cuda_device_count() == 0 && saved_on.starts_with("cuda:")) {
    const Where where = here();
    if (watch::wants_note("MAP", where))
      watch::show_note("MAP", "cpu", where, {{"path", path}, {"device", saved_on.substr(0, 40)}});
    return d;
  }
  try {
    return cuda_device(parse_device(saved_on).number);
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
