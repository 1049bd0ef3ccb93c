// Reading and writing whole parts of a tensor at positions along some of its dimensions. The tensor
// is seen as B x I x A: the dimensions before the indexed ones, those, and the ones after, each given
// as bits; each position gives the place of one part of A in the tensor.
#pragma once
#include "engine/cpu/index/combine.h"
#include "engine/cpu/walk.h"
#include "engine/tensor/tensor.h"

namespace tycho::cpu {

// The positions of I: number j stands (p[j] - 1) * step elements into the tensor.
struct Places {
  Tensor hold;
  const int64_t* p;
  int64_t step, count;
};

Walk walk_of(const Tensor& a, const Tensor& b);

// out (contiguous, B x I x A) = x at the places.
void take_parts(const Tensor& x, uint32_t before, uint32_t after, const Places& at,
                const Tensor& out);
// x at the places combined with `source`, whose shape is B x I x A: its index_dims I dimensions begin
// at `place`.
void put_parts(const Tensor& x, uint32_t before, uint32_t after, const Places& at, int place,
               int index_dims, const Tensor& source, Combine how);

}  // namespace tycho::cpu
