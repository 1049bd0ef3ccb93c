// The module's door: loads the driver and says how many devices there are.
#include <cstring>

#include "engine/base/module.h"
#include "engine/cuda/nvrtc.h"
#include "engine/cuda/start.h"

namespace tycho::cuda {
namespace {

// Written by fatbins.cmake; the last row has no name.
struct Embedded {
  const char *name, *bytes;
  uint64_t size;
};
extern "C" const Embedded tycho_cuda_fatbins[];
extern "C" const Header tycho_cuda_headers[];

const void* code_of(const char* file) {
  for (const Embedded* e = tycho_cuda_fatbins; e->name; ++e)
    if (!std::strcmp(e->name, file)) return e->bytes;
  return nullptr;
}

const void* compile_row(const std::string& source, int arch, std::string* why) {
  return compile(source, arch, tycho_cuda_headers, why);
}

}  // namespace

TYCHO_MODULE_EXPORT int tycho_cuda_start(std::string* why) {
  const Driver* loaded = load_driver(why);
  if (!loaded) return 0;
  static Driver table = *loaded;
  table.code_of = code_of;
  table.compile_row = compile_row;
  set_driver(&table);
  return start();
}

}  // namespace tycho::cuda
