// Filling tensors with numbers: what factories and other kernels share.
#pragma once
#include "engine/ops/table/apply.h"

namespace tycho {

// Raises Kind::Value when a plain number does not fit into a type.
void check_number(const char* op, const Value& v, DType to);
// The result of a factory; its arguments are dtype at `at`, then device, then requires_grad. Raises
// Kind::Shape on a negative size.
Tensor make(const Call& c, const Sizes& shape, int at, DType otherwise);
// Every element becomes one number (converted); no graph, no version. Defined in cpu/.
void fill_raw(const Tensor& to, const Value& number);

// Element i of a one-dimensional tensor becomes f(i), an int64 or a double, converted once.
template <class F>
void fill_by(const Tensor& out, int64_t n, F f) {
  using T = decltype(f(int64_t{0}));
  constexpr DType wide = std::is_same_v<T, double> ? DType::Float64 : DType::Int64;
  if (out.dtype() == wide && out.contiguous()) {
    T* p = out.data<T>();
    for (int64_t i = 0; i < n; ++i) p[i] = f(i);
    return;
  }
  constexpr int64_t kTile = 4096;
  Tensor tile = empty({std::min(n, kTile)}, wide);
  T* p = tile.data<T>();
  for (int64_t at = 0; at < n; at += kTile) {
    const int64_t m = std::min(kTile, n - at);
    for (int64_t i = 0; i < m; ++i) p[i] = f(at + i);
    copy_raw(alias(out, {m}, out.strides(), out->offset + at * out.stride(0)),
             alias(tile, {m}, {1}, 0));
  }
}

}  // namespace tycho
