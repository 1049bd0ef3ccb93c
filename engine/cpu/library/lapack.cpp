// Finding the LAPACK functions in the system's library.
#include "engine/cpu/library/lapack.h"

#include <dlfcn.h>

#include <cstdlib>
#include <string>

#include "engine/base/check.h"
#include "engine/cpu/level.h"
#include "engine/cpu/library/trust.h"

namespace tycho::cpu {
namespace {

// OpenBLAS chooses its kernels by a table of processors that ends in the year it was made; newer ones
// get those of 2004. It is told what this processor has, unless the user said something.
struct ToldCore {
  static constexpr const char* kName = "OPENBLAS_CORETYPE";
  bool told;
  ToldCore() : told(level() != Level::x86_64 && !std::getenv(kName)) {
    if (told) setenv(kName, level() == Level::v4 ? "SkylakeX" : "Haswell", 0);
  }
  ~ToldCore() {
    if (told) unsetenv(kName);  // children may have another library
  }
};

void* open_library() {
  const ToldCore core;
  for (const char* const* name = kLapackLibraries; *name; ++name)
    if (void* library = dlopen(*name, RTLD_NOW | RTLD_LOCAL)) return library;
  fail(Kind::Linalg, "linear algebra needs LAPACK, and no libopenblas.so.0 is installed here",
       "apt-get install libopenblas0-pthread");
}

template <class T>
Lapack<T> find_functions() {
  static void* const library = open_library();
  Lapack<T> out;
  const auto find = [&](auto& function, const char* name) {
    const std::string symbol = (sizeof(T) == 4 ? "s" : "d") + std::string(name) + "_";
    void* found = dlsym(library, symbol.c_str());
    TYCHO_CHECK(Kind::Linalg, found, "the installed LAPACK has no function %s", symbol.c_str());
    function = reinterpret_cast<std::decay_t<decltype(function)>>(found);
  };
  find(out.potrf, "potrf");
  find(out.trsm, "trsm");
  find(out.getrf, "getrf");
  find(out.getrs, "getrs");
  find(out.syevd, "syevd");
  find(out.gesdd, "gesdd");
  find(out.gelsy, "gelsy");
  find(out.geqrf, "geqrf");
  find(out.orgqr, "orgqr");
  return out;
}

}  // namespace

template <class T>
const Lapack<T>& lapack() {
  static const Lapack<T> functions = find_functions<T>();
  return functions;
}
template const Lapack<float>& lapack();
template const Lapack<double>& lapack();

}  // namespace tycho::cpu
