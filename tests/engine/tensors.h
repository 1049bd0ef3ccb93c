// Tensors from numbers and back, for tests that look at values: of, noise, values, one.
#pragma once
#include <limits>
#include <vector>

#include "engine/ops/table/apply.h"
#include "engine/ops/table/op.h"
#include "engine/tensor/read.h"

namespace tycho {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();
using V = std::vector<double>;

// The numbers over and over.
[[maybe_unused]] Tensor of(const Sizes& shape, const V& v, DType t = DType::Float32) {
  Tensor x = empty(shape, DType::Float64), y = empty(shape, t);
  for (int64_t i = 0; i < x.numel(); ++i) x.host<double>()[i] = v[i % v.size()];
  copy_raw(y, x);
  return y;
}
// Values in (-1, 1) without a pattern.
[[maybe_unused]] Tensor noise(const Sizes& shape, DType t = DType::Float32) {
  V v(static_cast<size_t>(product(shape)));
  uint64_t state = 1;
  for (double& x : v) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    x = static_cast<double>(static_cast<int64_t>(state)) * 0x1p-63;
  }
  return v.empty() ? empty(shape, t) : of(shape, v, t);
}
[[maybe_unused]] V values(const Tensor& t) {
  Tensor d = empty(t.shape(), DType::Float64);
  copy_raw(d, t);
  return V(d.host<double>(), d.host<double>() + d.numel());
}
[[maybe_unused]] double one(const Tensor& t) { return item(t); }

}  // namespace
}  // namespace tycho
