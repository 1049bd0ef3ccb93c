// Finding the LAPACK functions in the system's library.
#include "engine/cpu/library/lapack.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <string>

#include "engine/base/check.h"
#include "engine/cpu/level.h"
#include "engine/cpu/library/trust.h"

namespace tycho::cpu {
namespace {

// A word of the environment while the library is loaded, unless the user said it.
struct Told {
  const char* name;
  bool told;
  Told(const char* name, const char* value) : name(name), told(value && !std::getenv(name)) {
    if (told) setenv(name, value, 0);
  }
  ~Told() {
    if (told) unsetenv(name);  // children may have another library
  }
};

// OpenBLAS chooses its kernels by a table of processors that ends in the year it was made; newer
// ones get those of 2004. It is told what this processor has.
const char* core_type() {
  return level() == Level::v4 ? "SkylakeX" : level() == Level::v3 ? "Haswell" : nullptr;
}

void* open_library() {
  const Told core("OPENBLAS_CORETYPE", core_type()), threads("OPENBLAS_NUM_THREADS", "1");
  for (const char* const* name = kLapackLibraries; *name; ++name)
    if (void* library = dlopen(*name, RTLD_NOW | RTLD_LOCAL)) return library;
  fail(Kind::Linalg, "linear algebra needs LAPACK, and no libopenblas.so.0 is installed here",
       "apt-get install libopenblas0-pthread");
}

void* library() {
  static void* const found = open_library();
  return found;
}

template <class T>
Lapack<T> find_functions() {
  Lapack<T> out;
  const auto find = [&](auto& function, const char* name) {
    const std::string symbol = (sizeof(T) == 4 ? "s" : "d") + std::string(name) + "_";
    void* found = dlsym(library(), symbol.c_str());
    TYCHO_CHECK(Kind::Linalg, found, "the installed LAPACK has no function %s", symbol.c_str());
    function = reinterpret_cast<std::decay_t<decltype(function)>>(found);
  };
  find(out.potrf, "potrf");
  find(out.trsm, "trsm");
  find(out.getrf, "getrf");
  find(out.getrs, "getrs");
  find(out.syevd, "syevd");
  find(out.gesdd, "gesdd");
  find(out.sterf, "sterf");
  find(out.stedc, "stedc");
  find(out.bdsdc, "bdsdc");
  find(out.gelsy, "gelsy");
  find(out.geqrf, "geqrf");
  find(out.orgqr, "orgqr");
  return out;
}

}  // namespace

void lapack_threads(int most) {
  using Set = void (*)(int);
  static const auto set = reinterpret_cast<Set>(dlsym(library(), "openblas_set_num_threads"));
  static std::atomic<int> now{0};
  if (set && now.exchange(most) != most) set(most);
}

template <class T>
const Lapack<T>& lapack() {
  static const Lapack<T> functions = find_functions<T>();
  return functions;
}
template const Lapack<float>& lapack();
template const Lapack<double>& lapack();

}  // namespace tycho::cpu
