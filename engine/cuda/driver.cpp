// Loading the driver, and its errors in the program's words.
#include "engine/cuda/driver.h"

#include <dlfcn.h>

#include <algorithm>

#include "engine/base/check.h"
#include "engine/cuda/libraries.h"
#include "engine/tensor/device.h"

namespace tycho::cuda {
namespace {

constexpr int kOldestDriver = 12000;  // what cuLibraryLoadData came with

const Driver* driver_in_use = nullptr;

using GetAddress = Result (*)(const char* name, void** function, int version, uint64_t flags,
                              void* status);

// cuGetProcAddress wants the plain name and gives the form of the version asked for; where it does
// not know one, the library's symbol of the full name is the same function.
void* function_of(void* library, GetAddress get, const char* name) {
  if (void* found = dlsym(library, name)) return found;
  std::string plain = name;
  if (const size_t at = plain.rfind("_v2"); at != std::string::npos) plain.resize(at);
  void* found = nullptr;
  return get && get(plain.c_str(), &found, kOldestDriver, 0, nullptr) == kSuccess ? found : nullptr;
}

}  // namespace

int toolkit_version = 0, driver_cuda = 0;

bool fill_driver(Driver& d, const char* file, std::string* why) {
  if (const std::string path = cut_off(file); !path.empty()) {
    *why =
        format("the NVIDIA driver cannot be loaded: %s is cut off; install it anew", path.c_str());
    return false;
  }
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const std::string said = dlerror();
    *why = said.find("cannot open shared object file") != std::string::npos
               ? format("there is no NVIDIA driver on this machine (%s)", file)
               : "the NVIDIA driver cannot be loaded: " + said;
    return false;
  }
  const auto get = reinterpret_cast<GetAddress>(dlsym(library, "cuGetProcAddress_v2"));
  const char* missing = nullptr;
#define TYCHO_CALL(here, there, parameters)                                           \
  d.here = reinterpret_cast<Result(*) parameters>(function_of(library, get, #there)); \
  if (!d.here && !missing) missing = #there;
  TYCHO_CUDA_DRIVER(TYCHO_CALL)
#undef TYCHO_CALL
  int version = 0;
  if (d.driver_version) d.driver_version(&version);
  if (version == 0) {
    *why =
        format("%s is no NVIDIA driver: it does not say its version, as the toolkit's stub", file);
    return false;
  }
  // A driver takes what toolkits of its major version and of older ones made.
  const int oldest = std::max(kOldestDriver, toolkit_version / 1000 * 1000);
  if (version < oldest) {
    *why = format(
        "the NVIDIA driver is too old: it is for CUDA %d.%d, and CUDA %d.0 or newer is needed; "
        "install a driver of version %d or newer",
        version / 1000, version % 1000 / 10, oldest / 1000, oldest >= 13000 ? 580 : 525);
    return false;
  }
  if (missing) {
    *why = format("the NVIDIA driver (for CUDA %d.%d) has no %s: install a newer one",
                  version / 1000, version % 1000 / 10, missing);
    return false;
  }
  if (const Result r = d.init(0); r != kSuccess) {
    const char* text = nullptr;
    d.error_text(r, &text);
    *why = format("the NVIDIA driver cannot be started: %s", text ? text : "unknown error");
    return false;
  }
  return true;
}

const Driver* load_driver(std::string* why) {
  static Driver table;
  static std::string sentence;
  static const bool loaded = fill_driver(table, "libcuda.so.1", &sentence) &&
                             table.driver_version(&driver_cuda) == kSuccess;
  if (!loaded) *why = sentence;
  return loaded ? &table : nullptr;
}

const Driver& driver() { return *driver_in_use; }
void set_driver(const Driver* d) { driver_in_use = d; }

void check(Result result, const char* doing) {
  if (result == kSuccess) [[likely]]
    return;
  TYCHO_CHECK(
      Kind::Device, result != kNoImage,
      "this program has no kernels for this kind of GPU (tycho doctor says for which it has): "
      "build it on this machine, or with -DTYCHO_CUDA_ARCHS=all");
  const char *name = nullptr, *text = nullptr;
  driver().error_name(result, &name);
  driver().error_text(result, &text);
  fail(result == kOutOfMemory ? Kind::Oom : Kind::Device,
       format("%s: %s (%s)", doing, text ? text : "the driver gives no reason",
              name ? name : "unknown error"));
}

}  // namespace tycho::cuda
