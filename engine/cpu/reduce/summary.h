// What is shown of a large tensor: range, mean, spread, counts and a histogram, from one pass over
// its memory by all threads, without a copy, for any dtype and strides.
//
// The histogram's range comes first from some 8,000 elements at scattered places. The pass counts
// into 240 fine bins over that range; the few elements outside it are counted by the top bits of
// their double (sign, exponent, one bit more). At the end, when the true range is known, both are
// folded into 10 bins: a fine bin that reaches over an edge is divided in proportion.
#pragma once
#include "engine/tensor/tensor.h"

namespace tycho::cpu {

constexpr int kSummaryBins = 10;

struct Summary {
  int64_t nan = 0, plus = 0, minus = 0, zero = 0, finite = 0;
  double min = 0, max = 0, mean = 0, spread = 0;  // of finite elements; spread as torch.std
  int64_t least = 0, most = 0;                    // exact, for integers and bool
  double bins[kSummaryBins] = {};                 // finite elements between min and max
};

Summary summarize(const Impl* t);

}  // namespace tycho::cpu
