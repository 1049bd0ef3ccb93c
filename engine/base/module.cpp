// Opening what travels inside the program: through a file in memory, since dlopen wants a file.
#include "engine/base/module.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "engine/base/check.h"

namespace tycho {
namespace {

// Written by CMakeLists.txt; the last row has no name.
struct EmbeddedModule {
  const char *name, *package;  // the Debian packages whose libraries it needs
  const char* bytes;
  uint64_t size;
};
extern "C" const EmbeddedModule tycho_embedded_modules[];

std::string why_not(const EmbeddedModule& m, const std::string& said) {
  // "libgloo.so.0: cannot open shared object file: No such file or directory"
  const size_t colon = said.find(": cannot open shared object file");
  const std::string library = said.substr(0, colon);
  if (colon != std::string::npos && library.find('/') == std::string::npos)
    return format("%s is not on this machine; install it: sudo apt-get install %s", library.c_str(),
                  m.package);
  return format("the part of the program for %s cannot be loaded: %s", m.name, said.c_str());
}

void* open_embedded(const EmbeddedModule& m, std::string* why) {
  const int fd = memfd_create(m.name, MFD_CLOEXEC);
  size_t written = 0;
  while (fd >= 0 && written < m.size) {
    const ssize_t n = write(fd, m.bytes + written, m.size - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    written += static_cast<size_t>(n);
  }
  void* handle = nullptr;
  if (written < m.size) {
    *why = why_not(m, std::strerror(errno));
  } else {
    // The loader knows libraries by their paths, and descriptors come again: each module has a path of
    // its own, by its slashes.
    const std::string slashes(static_cast<size_t>(&m - tycho_embedded_modules) + 1, '/');
    handle =
        dlopen(format("/proc/self/fd%s%d", slashes.c_str(), fd).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) *why = why_not(m, dlerror());
  }
  if (fd >= 0) close(fd);
  return handle;
}

const EmbeddedModule* find(const std::string& name) {
  for (const EmbeddedModule* m = tycho_embedded_modules; m->name; ++m)
    if (name == m->name) return m;
  return nullptr;
}

}  // namespace

bool has_module(const std::string& name) { return find(name) != nullptr; }

void* open_module(const std::string& name, std::string* why) {
  static std::mutex mutex;
  static std::map<std::string, void*> open;
  const std::lock_guard lock(mutex);
  if (const auto it = open.find(name); it != open.end()) return it->second;
  const EmbeddedModule* m = find(name);
  if (!m) {
    *why = "this program was built without " + name;
    return nullptr;
  }
  void* handle = open_embedded(*m, why);
  if (handle) open[name] = handle;
  return handle;
}

void* module_symbol(const std::string& name, const char* symbol, std::string* why) {
  void* handle = open_module(name, why);
  void* found = handle ? dlsym(handle, symbol) : nullptr;
  if (handle && !found)
    *why = format("the part of the program for %s has no %s", name.c_str(), symbol);
  return found;
}

}  // namespace tycho
