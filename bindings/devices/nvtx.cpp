// NVTX, by which NVIDIA's profilers know the names of parts of a script: its library, where it is.
#include <dlfcn.h>

#include <string>
#include <string_view>

#include "bindings/devices/devices.h"
#include "bindings/tools/check.h"

namespace tycho::lua {
namespace {

struct Nvtx {
  int (*push)(const char*) = nullptr;
  int (*pop)() = nullptr;
  void (*mark)(const char*) = nullptr;
  uint64_t (*start)(const char*) = nullptr;
  void (*end)(uint64_t) = nullptr;
};

template <class F>
void load(F& function, void* library, const char* name) {
  function = reinterpret_cast<F>(dlsym(library, name));
}

const Nvtx& nvtx() {
  static const Nvtx table = [] {
    Nvtx t;
    if (void* const library = dlopen("libnvToolsExt.so.1", RTLD_NOW | RTLD_LOCAL)) {
      load(t.push, library, "nvtxRangePushA");
      load(t.pop, library, "nvtxRangePop");
      load(t.mark, library, "nvtxMarkA");
      load(t.start, library, "nvtxRangeStartA");
      load(t.end, library, "nvtxRangeEnd");
    }
    return t;
  }();
  return table;
}

// _nvtx(what, text, range): what the library says, or -1.
int call(lua_State* L) {
  const std::string_view what = check_text(L, 1, "nvtx");
  const std::string text(lua_isnoneornil(L, 2) ? "" : check_text(L, 2, "nvtx"));
  const Nvtx& n = nvtx();
  lua_Integer said = -1;
  if (what == "push" && n.push) said = n.push(text.c_str());
  if (what == "pop" && n.pop) said = n.pop();
  if (what == "mark" && n.mark) n.mark(text.c_str());
  if (what == "start" && n.start) said = static_cast<lua_Integer>(n.start(text.c_str()));
  if (what == "end" && n.end) n.end(static_cast<uint64_t>(check_integer(L, 3, "range_end")));
  lua_pushinteger(L, said);
  return 1;
}

}  // namespace

void open_nvtx(lua_State* L, int cuda) {
  lua_pushcfunction(L, guarded<call>);
  lua_setfield(L, cuda, "_nvtx");
}

}  // namespace tycho::lua
