// Files and directories as torch.utils.data asks for them: torch._read_bytes(path),
// torch._directory(path) and torch._places(), where data that comes with the program lies.
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <vector>

#include "bindings/show/show.h"
#include "bindings/tools/check.h"
#include "engine/io/file.h"

namespace tycho::lua {
namespace {

// _read_bytes(path) -> uint8 [n]
int read_bytes(lua_State* L) {
  const std::string bytes = io::read_file(std::string(check_text(L, 1, "read_file")));
  const Tensor t = empty({static_cast<int64_t>(bytes.size())}, DType::UInt8);
  std::memcpy(t.host(), bytes.data(), bytes.size());
  push(L, t);
  pace_collector(L);
  return 1;
}

// _directory(path) -> the names of its directories and of its files, both sorted; nil when there is
// no such directory. Links count as what they lead to; names that begin with a dot are left out.
int directory(lua_State* L) {
  const std::string path(check_text(L, 1, "_directory"));
  const std::unique_ptr<DIR, int (*)(DIR*)> d(::opendir(path.c_str()), ::closedir);
  if (!d) {
    if (errno == ENOENT || errno == ENOTDIR) return 0;
    fail(Kind::Io, "cannot read " + path + ": " + std::strerror(errno));
  }
  std::vector<std::string> names[2];
  while (const dirent* e = ::readdir(d.get())) {
    if (e->d_name[0] == '.') continue;
    bool inside = e->d_type == DT_DIR, file = e->d_type == DT_REG;
    if (e->d_type == DT_LNK || e->d_type == DT_UNKNOWN) {
      struct stat s;
      if (::stat((path + "/" + e->d_name).c_str(), &s) != 0) continue;  // a link to nowhere
      inside = S_ISDIR(s.st_mode);
      file = S_ISREG(s.st_mode);
    }
    if (inside || file) names[file].emplace_back(e->d_name);
  }
  for (auto& list : names) {
    std::sort(list.begin(), list.end());
    lua_createtable(L, static_cast<int>(list.size()), 0);
    for (size_t i = 0; i < list.size(); ++i) {
      lua_pushlstring(L, list[i].data(), list[i].size());
      lua_rawseti(L, -2, static_cast<lua_Integer>(i + 1));
    }
  }
  struct stat s;
  if (::fstat(::dirfd(d.get()), &s) != 0) return 2;
  lua_pushfstring(L, "%I %I", static_cast<lua_Integer>(s.st_dev),
                  static_cast<lua_Integer>(s.st_ino));
  return 3;
}

// _places() -> the directory of the program, without links on the way; nil where it is not known
int places(lua_State* L) {
  char path[PATH_MAX];
  const ssize_t n = ::readlink("/proc/self/exe", path, sizeof path);
  const std::string_view whole(path, n > 0 ? static_cast<size_t>(n) : 0);
  const size_t slash = whole.rfind('/');
  if (slash == whole.npos) return 0;
  lua_pushlstring(L, path, slash);
  return 1;
}

}  // namespace

void open_directories(lua_State* L, int torch) {
  static const luaL_Reg functions[] = {{"_read_bytes", guarded<read_bytes>},
                                       {"_directory", guarded<directory>},
                                       {"_places", places},
                                       {nullptr, nullptr}};
  lua_pushvalue(L, torch);
  luaL_setfuncs(L, functions, 0);
  lua_pop(L, 1);
}

}  // namespace tycho::lua
