// Walks for kernels: several tensors of one broadcast shape as kernels/walk.cuh reads them.
#pragma once
#include "engine/tensor/tensor.h"

namespace tycho::cuda {

// As the kernels' (kernels/walk.cuh), whose layout it has.
struct Operands {
  int64_t numel;
  int32_t rank;
  int32_t count;
  int64_t size[8];
  int64_t stride[5][8];
  void* data[5];
  int32_t dtype[5];
  double number[5];
  int64_t integer[5];
};

// The first tensor gives the shape, the others broadcast to it; null: a number, filled in afterwards.
Operands walk_of(const Impl* const* tensors, int count);

}  // namespace tycho::cuda
