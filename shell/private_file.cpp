// Writes private files whole (engine/io's atomic_write), with the directories above them.
#include "shell/private_file.h"

#include <sys/stat.h>

#include <string>
#include <string_view>

#include "engine/io/file.h"

namespace tycho::shell {
namespace {

void make_directories(const std::string& path) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    mkdir(path.substr(0, at).c_str(), 0700);  // those that are there stay as they are
}

}  // namespace

int lua_write_private(lua_State* L) {
  size_t n;
  const char* path = luaL_checkstring(L, 1);
  const char* text = luaL_checklstring(L, 2, &n);
  std::string failure;  // out of the handler first: Lua's own errors are exceptions too
  try {
    make_directories(path);
    io::atomic_write(
        path, [&](io::Output& out) { out.write(std::string_view(text, n)); }, 0600);
    return lua_pushboolean(L, 1), 1;
  } catch (const Error& e) {
    failure = e.text;
  }
  lua_pushnil(L);
  lua_pushlstring(L, failure.data(), failure.size());
  return 2;
}

}  // namespace tycho::shell
