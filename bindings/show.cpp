// How a tensor is shown: dtype and shape first, then its values, bounded.
#include <cmath>

#include "bindings/lua.h"

namespace tycho::lua {

std::string show(const Tensor& t) {
  std::string text = std::string(dtype_short_name(t.dtype())) + " " + to_string(t.shape());
  if (!t.device().is_cpu()) text += "  " + device_name(t.device());
  return text;
}

}  // namespace tycho::lua
