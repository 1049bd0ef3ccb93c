// The module's door: loads the driver and says how many devices there are, or how the machine is.
#include <cstdio>
#include <cstring>

#include "engine/base/module.h"
#include "engine/cuda/context.h"
#include "engine/cuda/doctor.h"
#include "engine/cuda/libraries.h"
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
extern "C" const char tycho_cuda_archs[], tycho_cuda_toolkit[];  // "75 80", "13.0"

const void* code_of(const char* file) {
  for (const Embedded* e = tycho_cuda_fatbins; e->name; ++e)
    if (!std::strcmp(e->name, file)) return e->bytes;
  return nullptr;
}

const void* compile_row(const std::string& source, int arch, bool known, std::string* why) {
  return compile(source, arch, tycho_cuda_headers, why, known);
}

const Driver* load(std::string* why) {
  int major = 0, minor = 0;
  std::sscanf(tycho_cuda_toolkit, "%d.%d", &major, &minor);
  toolkit_version = 1000 * major + 10 * minor;
  return load_driver(why);
}

}  // namespace

TYCHO_MODULE_EXPORT void tycho_cuda_doctor(std::vector<DoctorRow>* rows) {
  std::string why;
  load(&why);  // whether it can be is told by what follows
  *rows = examine();
  rows->insert(rows->begin(), {"GPU kernels",
                               "of CUDA " + std::string(tycho_cuda_toolkit) + ", for sm " +
                                   tycho_cuda_archs + " and newer",
                               ""});
}

// 91900 for 9.19; 0 where there is none that will do.
TYCHO_MODULE_EXPORT int64_t tycho_cuda_cudnn_version() {
  std::string why;
  const auto version =
      reinterpret_cast<size_t (*)()>(library_function(LibraryId::Cudnn, "cudnnGetVersion", &why));
  return version ? static_cast<int64_t>(version()) : 0;
}

TYCHO_MODULE_EXPORT int tycho_cuda_start(std::string* why) {
  const Driver* loaded = load(why);
  if (!loaded) return 0;
  static Driver table = *loaded;
  table.code_of = code_of;
  table.compile_row = compile_row;
  set_driver(&table);
  const int devices = start();
  if (devices == 0)
    *why = count_devices() == 0 ? "the NVIDIA driver shows none (nvidia-smi, CUDA_VISIBLE_DEVICES)"
                                : "its GPUs are too old: one of compute capability 7.5 (Turing) or "
                                  "newer is needed";
  return devices;
}

}  // namespace tycho::cuda
