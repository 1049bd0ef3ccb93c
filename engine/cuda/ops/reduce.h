// Reductions that other operations are made of (reduce.cpp).
#pragma once
#include "engine/tensor/tensor.h"

namespace tycho::cuda {

// The variance (over n) and the mean over the dims in `bits`, as float64; row-major results.
void moments_of(const Tensor& x, uint32_t bits, double* var, double* mean);

// For a gradient g of x's shape, over the dims in `bits`: the sum, and that of g (x - mean) rstd.
// Means and 1 / deviations are float64 where x is, else float32: of result k / unit_step, or with 0
// of element i of what is folded.
void unit_sums_of(const Tensor& g, const Tensor& x, uint32_t bits, const Tensor& mean,
                  const Tensor& rstd, int64_t unit_step, double* sum, double* dot);

}  // namespace tycho::cuda
