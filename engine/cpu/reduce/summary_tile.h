// The kernel behind cpu/reduce/summary.h: what one tile of elements adds to a summary.
#pragma once
#include "engine/cpu/level.h"

namespace tycho::cpu {

constexpr int kFineBins = 240, kTables = 4, kFarKeys = 8192, kSummaryTile = 1024;

// How the pass looks at values; `scale` maps [low, high] to bins 1..kFineBins, and `unit` brings
// what is subtracted from `center` near 1, so that squares neither overflow nor vanish.
struct SummaryPlan {
  double low, high, scale, center, unit;
};

// What one stretch of elements adds up to.
struct SummaryPart {
  int64_t nan, plus, minus, zero, numbers;
  double min, max;      // of finite elements
  int64_t least, most;  // the same of integers
  double sum, squares;  // of (x - center) * unit
  bool any_far;         // far[] is set up
  int64_t bins[kTables][kFineBins + 2];
  uint32_t far[kFarKeys];  // elements outside the plan's range, by far_key
};

}  // namespace tycho::cpu

// Adds n <= kSummaryTile elements of a lane type (cpu/elementwise/rows.h), contiguous.
TYCHO_LEVELS(void, summarize_tile,
             (int lanes, const void* x, int64_t n, const ::tycho::cpu::SummaryPlan* plan,
              ::tycho::cpu::SummaryPart* part))
