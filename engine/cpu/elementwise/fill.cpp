// One element into every place of a tensor.
#include <cstring>

#include "engine/cpu/elementwise/run.h"

namespace tycho::cpu {

void fill(const Tensor& to, const void* element) {
  const Tensor one = empty(Sizes(), to.dtype());
  std::memcpy(one.data(), element, dtype_size(to.dtype()));
  copy(to, one);
}

}  // namespace tycho::cpu
