// The files of a directory, for completion: bounded, directories end with "/".
#include <dirent.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <vector>

#include "shell/native.h"

namespace tycho::shell {

// list_directory(path): a sorted list of names, empty when it cannot be read.
int lua_list_directory(lua_State* L) {
  const std::string path = luaL_checkstring(L, 1);
  constexpr size_t kMost = 2000;
  std::vector<std::string> names;
  if (DIR* d = opendir(path.c_str())) {
    while (const dirent* e = readdir(d)) {
      std::string name = e->d_name;
      if (name == "." || name == "..") continue;
      bool directory = e->d_type == DT_DIR;
      if (e->d_type == DT_LNK || e->d_type == DT_UNKNOWN) {
        struct stat s;
        directory = stat((path + "/" + name).c_str(), &s) == 0 && S_ISDIR(s.st_mode);
      }
      names.push_back(directory ? name + "/" : name);
      if (names.size() == kMost) break;
    }
    closedir(d);
  }
  std::sort(names.begin(), names.end());
  lua_createtable(L, static_cast<int>(names.size()), 0);
  lua_Integer n = 0;
  for (const std::string& name : names) {
    lua_pushlstring(L, name.data(), name.size());
    lua_rawseti(L, -2, ++n);
  }
  return 1;
}

}  // namespace tycho::shell
