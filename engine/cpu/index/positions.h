// Index tensors as the kernels read them: checked, row by row, as int64. Positions count from 1.
#pragma once
#include "engine/tensor/tensor.h"

namespace tycho::cpu {

// The values of an index tensor, each in 1..size.
struct Positions {
  Tensor hold;
  const int64_t* p;
  int64_t n;
};
// Raises Kind::Index for a value outside 1..size, or -size..-1 where `negative` ones are allowed
// (they come back as positions from 1). `dim` counts from 0 and is named in the text; -1: none.
Positions positions(const char* op, const Tensor& index, int64_t size, int dim, bool negative);

// out (contiguous) = the rows of x at the positions.
void take_rows(const Tensor& x, const Positions& at, const Tensor& out);

// In place, arguments that share the changed tensor's memory are copied first.
Tensor apart(const Tensor& t, const Tensor& changed);

}  // namespace tycho::cpu
