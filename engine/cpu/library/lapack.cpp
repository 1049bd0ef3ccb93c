// Finding the LAPACK functions in the system's library.
#include "engine/cpu/library/lapack.h"

#include <dlfcn.h>

#include <string>

#include "engine/base/check.h"
#include "engine/cpu/library/trust.h"

namespace tycho::cpu {
namespace {

void* open_library() {
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
