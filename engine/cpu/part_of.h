// A part of a tensor along one dimension, for kernels that go through large ones piece by piece.
#pragma once
#include "engine/tensor/tensor.h"

namespace tycho::cpu {

// Indices [begin, end) of dimension d, as they lie.
inline Tensor part_of(const Tensor& t, int d, int64_t begin, int64_t end) {
  Sizes shape = t.shape();
  shape[d] = end - begin;
  return alias(t, shape, t.strides(), t->offset + begin * t.stride(d));
}

}  // namespace tycho::cpu
