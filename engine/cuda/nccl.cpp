// Loading NCCL.
#include "engine/cuda/nccl.h"

#include <mutex>

#include "engine/base/check.h"
#include "engine/cuda/libraries.h"

namespace tycho::cuda {
namespace {

const Nccl* replaced = nullptr;

template <class F>
void load(F& function, const char* symbol) {
  std::string why;
  void* const found = library_function(LibraryId::Nccl, symbol, &why);
  if (!found)
    fail(Kind::Device, "backend \"nccl\" needs NCCL: " + why, library(LibraryId::Nccl).install);
  function = reinterpret_cast<F>(found);
}

}  // namespace

void set_nccl(const Nccl* table) { replaced = table; }

const Nccl& nccl_library() {
  if (replaced) return *replaced;
  static Nccl table;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (table.error_text) return table;
#define TYCHO_CALL(here, there, parameters) load(table.here, #there);
  TYCHO_NCCL(TYCHO_CALL)
#undef TYCHO_CALL
  load(table.error_text, "ncclGetErrorString");
  return table;
}

}  // namespace tycho::cuda
