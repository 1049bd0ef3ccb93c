// Reading and writing at positions: what index.cpp, scatter.cpp and mask.cpp share with their
// kernels in cpu/. Positions inside index tensors count from 1.
#pragma once
#include "engine/ops/table/apply.h"

namespace tycho {

// Raises unless the tensor holds positions (int64 or int32).
void check_index_type(const char* op, const Tensor& index);

// The values of an index tensor, checked: each is in 1..size.
struct Positions {
  Tensor hold;
  const int64_t* p;
  int64_t n;
};
// Raises Kind::Index for a value outside 1..size, or -size..-1 where `negative` ones are allowed
// (they come back as positions from 1). `dim` counts from 0 and is named in the text; -1: none.
Positions positions(const char* op, const Tensor& index, int64_t size, int dim, bool negative);

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

namespace cpu {
// out (contiguous) = the rows of x that an index of any shape names.
void take_rows(const char* op, const Tensor& x, const Tensor& index, const Tensor& out);
int64_t count_true(const Tensor& mask);
// The flat positions (from 1, row-major) of a mask's true elements.
Tensor true_positions(const Tensor& mask);
}  // namespace cpu
}  // namespace tycho
