// Writes private files whole: to a temporary file beside it, then renamed over it.
#include "shell/private_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

namespace tycho::shell {
namespace {

void make_directories(const std::string& path) {
  for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
    mkdir(path.substr(0, at).c_str(), 0700);  // those that are there stay as they are
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return false;
    text.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

// 0, or the system's error number.
int write_private(const std::string& path, std::string_view text) {
  make_directories(path);
  const std::string temporary = path + "." + std::to_string(getpid());
  unlink(temporary.c_str());
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0) return errno;
  int error = write_all(fd, text) && fsync(fd) == 0 ? 0 : errno;
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && std::rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error != 0) unlink(temporary.c_str());
  return error;
}

}  // namespace

int lua_write_private(lua_State* L) {
  size_t n;
  const char* path = luaL_checkstring(L, 1);
  const char* text = luaL_checklstring(L, 2, &n);
  const int error = write_private(path, {text, n});
  if (error == 0) return lua_pushboolean(L, 1), 1;
  lua_pushnil(L);
  lua_pushfstring(L, "%s: %s", path, std::strerror(error));
  return 2;
}

}  // namespace tycho::shell
