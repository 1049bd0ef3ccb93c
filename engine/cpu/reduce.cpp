// Reductions on the CPU.
#include "engine/ops/reduce.h"

#include "engine/ops/apply.h"

namespace tycho::cpu {

void sum(Call& c) {
  const Tensor& x = c.tensor(0);
  const uint32_t bits = dim_bits(c, 1, x.rank());
  Tensor in = empty(x.shape(), DType::Float64), out = filled(c.out[0].shape(), 0, DType::Float64);
  copy_raw(in, x);
  int64_t step[kMaxDims] = {}, s = 1;
  for (int d = x.rank() - 1; d >= 0; --d)
    if (!(bits >> d & 1)) {
      step[d] = s;
      s *= x.size(d);
    }
  for (int64_t i = 0; i < in.numel(); ++i) {
    int64_t rest = i, at = 0;
    for (int d = x.rank() - 1; d >= 0; --d) {
      at += rest % x.size(d) * step[d];
      rest /= x.size(d);
    }
    out.data<double>()[at] += in.data<double>()[i];
  }
  copy_raw(c.out[0], out);
}

}  // namespace tycho::cpu
