// How much arithmetic a call is, for Op::flops: a product and a sum count as two operations.
#pragma once
#include "engine/ops/table/op.h"

namespace tycho {

inline double count_of(const Tensor& t) { return static_cast<double>(t.numel()); }

// One operation for each element of the first argument, as in a sum.
inline double one_per_element(const Call& c) { return count_of(c.tensor(0)); }

// Each result is a sum of products over the last dimension of the first argument; a third one,
// where it is given, is added (linear's bias).
inline double sums_of_products(const Call& c) {
  const double results = count_of(c.out[0]);
  const bool bias = c.op->param_count > 2 && c.tensor(2);
  return 2 * results * static_cast<double>(c.tensor(0).size(-1)) + (bias ? results : 0);
}

}  // namespace tycho
