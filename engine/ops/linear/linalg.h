// Linear algebra's checks that its files share.
#pragma once
#include "engine/ops/table/op.h"

namespace tycho {

// Raise unless `a` is a batch of (square) float32 or float64 matrices.
void check_matrix(const char* name, const Tensor& a);
void check_square(const char* name, const Tensor& a);
// Raises unless both have one type.
void check_types(const char* name, const Tensor& a, const Tensor& b);
// The leading (batch) dimensions, those before the last `inner`.
Sizes batch_of(const Tensor& a, int inner = 2);
Sizes joined(const Sizes& batch, std::initializer_list<int64_t> inner);
// Last two dimensions swapped, as a view.
Tensor turned(const Tensor& a);
// The gradient of a's pseudo-inverse p, to which g comes, for a.
Tensor pinv_slope(const Tensor& a, const Tensor& p, const Tensor& g);

}  // namespace tycho
