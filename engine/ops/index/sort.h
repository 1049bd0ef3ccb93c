// The kernels of sort.cpp and unique.cpp, defined in cpu/.
#pragma once
#include "engine/ops/table/op.h"

namespace tycho::cpu {

// Sets c.out: values, then 1-based positions of each element's value, then counts, as wanted.
void unique(Call& c, bool consecutive, bool inverse, bool counts, bool along, int64_t dim);
// 1-based positions of elements that are not zero: [n, rank].
Tensor nonzero(const Tensor& x);
// 1-based position in the last dimension of `sorted` where each value belongs.
void searchsorted(const Tensor& sorted, const Tensor& values, const Tensor& sorter, bool right,
                  const Tensor& out);
void histogram(Call& c, double low, double high);  // self, bins
Tensor bincount(const Tensor& x, const Tensor& weights, int64_t least);

}  // namespace tycho::cpu
