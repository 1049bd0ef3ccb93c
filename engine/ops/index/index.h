// Reading and writing at positions: what index.cpp, scatter.cpp and mask.cpp share with their
// kernels in cpu/. Positions inside index tensors count from 1.
#pragma once
#include "engine/ops/table/apply.h"

namespace tycho {

// Raises unless the tensor holds positions (int64 or int32).
void check_index_type(const char* op, const Tensor& index);

// The result of an op that changes a copy of its first argument, or in place the argument itself.
void changed_shape(Call& c);
// Zeros like the gradient at hand, for gradients that add or write into them.
Tensor zeros_for(const Tensor& g, const Sizes& shape);

// How advanced indexing reads a tensor (PyTorch's rules): the index tensors broadcast to one shape,
// which stands in the result where they were when they are neighbours, else in front.
struct IndexPlan {
  uint32_t dims = 0;  // the indexed dimensions as bits
  int place = 0;      // where the index dimensions begin in the result
  Sizes index;        // their shape
  Sizes result;
};
IndexPlan plan_index(const char* op, const Call& c, int first);

}  // namespace tycho
