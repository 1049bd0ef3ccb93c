// Loading cuDNN, and its descriptors.
#include "engine/cuda/cudnn.h"

#include <mutex>
#include <type_traits>

#include "engine/cuda/libraries.h"

namespace tycho::cuda {
namespace {

const Cudnn* replaced = nullptr;

void check(dnn::Status status) {
  if (status != 0) throw Refused{status};
}

}  // namespace

void set_cudnn(const Cudnn* table) { replaced = table; }

bool fill_cudnn(Cudnn& table, std::string* why) {
  const auto load = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
        library_function(LibraryId::Cudnn, symbol, why));
    return function != nullptr;
  };
#define FUNCTION(name, symbol, args) &&load(table.name, #symbol)
  return true TYCHO_CUDNN(FUNCTION);
#undef FUNCTION
}

const Cudnn* cudnn(std::string* why) {
  if (replaced) return replaced;
  static std::string said;
  static Cudnn table;
  static const bool there = fill_cudnn(table, &said);
  if (why) *why = said;
  return there ? &table : nullptr;
}

Descriptor::Descriptor(int kind) : library_(cudnn()) { check(library_->new_desc(kind, &desc_)); }

Descriptor& Descriptor::set(int attribute, int type, int64_t count, const void* values) {
  check(library_->set(desc_, attribute, type, count, values));
  return *this;
}

Descriptor& Descriptor::finish() {
  check(library_->finish(desc_));
  return *this;
}

int64_t Descriptor::get(int attribute, int type, int64_t most, void* values) const {
  int64_t count = 0;
  check(library_->get(desc_, attribute, type, most, &count, values));
  return count;
}

}  // namespace tycho::cuda
