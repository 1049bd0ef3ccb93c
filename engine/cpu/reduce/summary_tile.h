// The kernels behind cpu/reduce/summary.h: what one tile of elements adds to a summary.
#pragma once
#include "engine/cpu/level.h"

namespace tycho::cpu {

constexpr int kSummaryTile = 1024, kSummaryBins = 10;

// `unit`, a power of two, brings what is subtracted from `center` near 1, so that squares neither
// overflow nor vanish. Lanes hold `center` without rounding it.
struct SummaryPlan {
  double center, unit;
};

// What one stretch of elements adds up to.
struct SummaryPart {
  int64_t nan, plus, minus, zero, numbers;
  double min, max;      // of finite elements
  int64_t least, most;  // the same of int64
  double sum, squares;  // of (x - center) * unit
};

// (x - low) * unit * scale is the bin of x; the last has both its edges. `unit` is a power of two.
struct SummaryRange {
  double low, unit, scale;
  bool all;  // are all elements finite?
};

}  // namespace tycho::cpu

// Adds n elements of a lane type (cpu/elementwise/rows.h), contiguous; of int64 kSummaryTile at most.
TYCHO_LEVELS(void, measure_tile,
             (int lanes, const void* x, int64_t n, const ::tycho::cpu::SummaryPlan* plan,
              ::tycho::cpu::SummaryPart* part))
TYCHO_LEVELS(void, count_tile,
             (int lanes, const void* x, int64_t n, const ::tycho::cpu::SummaryRange* range,
              int64_t* bins))
