// Linear algebra's checks that its files share.
#pragma once
#include <string>
#include <vector>

#include "engine/base/check.h"
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
Tensor mm(const Tensor& a, const Tensor& b);  // of batches, too
// The gradient of a's pseudo-inverse p, to which g comes, for a.
Tensor pinv_slope(const Tensor& a, const Tensor& p, const Tensor& g);

// --- What the kernels of all backends do with batches of matrices of float32 or float64 ---

template <class F>
void by_type(const Tensor& t, F&& f) {
  if (t.dtype() == DType::Float32)
    f(float{});
  else
    f(double{});
}

inline int64_t batch_count(const Tensor& t, int inner = 2) {
  int64_t n = 1;
  for (int d = 0; d < t.rank() - inner; ++d) n *= t.size(d);
  return n;
}

// A row-major copy that may be written to.
Tensor copied(const Tensor& t);

// Raises Kind::Linalg with the first matrix whose code is not 0.
template <class Message>
void raise_first(const std::vector<int>& codes, Message&& message) {
  for (size_t i = 0; i < codes.size(); ++i) {
    if (!codes[i]) continue;
    std::string text = message(codes[i]);
    if (codes.size() > 1) text += format(" (matrix %zu of the batch)", i + 1);
    fail(Kind::Linalg, text);
  }
}

}  // namespace tycho
