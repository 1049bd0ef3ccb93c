// fill_raw: one number into every element of a tensor.
#include "engine/ops/shape/create.h"

namespace tycho {

void fill_raw(const Tensor& to, const Value& number) {
  if (to.numel() == 0) return;
  // A large integer keeps all its digits; everything else goes through double.
  const Tensor one = number.tag == Tag::Int    ? number_tensor(number.i)
                     : number.tag == Tag::Bool ? number_tensor(number.b)
                                               : number_tensor(number.number());
  copy_raw(to, one);
}

}  // namespace tycho
