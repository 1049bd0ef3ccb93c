// The raw helpers of apply.h and create.h: values into tensors by the backend of their device.
#include <cmath>
#include <cstring>

#include "engine/ops/shape/create.h"
#include "engine/tensor/backend.h"

namespace tycho {
namespace {

bool is_plus_zero(const Value& x) { return x.number() == 0 && !std::signbit(x.number()); }

}  // namespace

void copy_raw(const Tensor& to, const Tensor& from) {
  if (to.numel() == 0 || shapes_only) return;
  backend_of(to.device().is_cpu() ? from.device() : to.device()).copy(to, from);
}

void fill_raw(const Tensor& to, const Value& number) {
  if (to.numel() == 0 || shapes_only) return;
  // A few zeros in a row cost less than the tensor that holds one.
  constexpr int64_t kFew = 4096;
  if (to.contiguous() && to.numel() <= kFew && to.device().is_cpu() && is_plus_zero(number)) {
    memset(to.host(), 0, static_cast<size_t>(to.numel() * dtype_size(to.dtype())));
    return;
  }
  // A large integer keeps all its digits; everything else goes through double.
  const Tensor one = number.tag == Tag::Int    ? number_tensor(number.i)
                     : number.tag == Tag::Bool ? number_tensor(number.b)
                                               : number_tensor(number.number());
  if (to.device().is_cpu()) return copy_raw(to, one);
  const Tensor element = empty(Sizes(), to.dtype());
  copy_raw(element, one);
  backend_of(to.device()).fill(to, element.host());
}

Tensor packed(const Tensor& t) {
  if (t.contiguous()) return t;
  Tensor copy = empty(t.shape(), t.dtype(), t.device());
  copy_raw(copy, t);
  return copy;
}

}  // namespace tycho
