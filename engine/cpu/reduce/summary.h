// What is shown of a large tensor: range, mean, spread, counts and a histogram, without a copy, for any
// dtype and strides: one pass over its memory by all threads, and one more that counts into bins
// between the extremes that the first has found.
#pragma once
#include "engine/cpu/reduce/summary_tile.h"
#include "engine/tensor/tensor.h"

namespace tycho::cpu {

struct Summary {
  int64_t nan = 0, plus = 0, minus = 0, zero = 0, finite = 0;
  double min = 0, max = 0, mean = 0, spread = 0;  // of finite elements; spread as torch.std
  int64_t least = 0, most = 0;                    // exact, for integers and bool
  int64_t bins[kSummaryBins] = {};  // finite elements between min and max, as torch.histc
};

Summary summarize(const Impl* t);

}  // namespace tycho::cpu
