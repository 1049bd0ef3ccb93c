// The inner loop of ctc_loss, which is the same forward and backward in time (see ctc.cpp).
#pragma once
#include "engine/cpu/level.h"

// to[s] = log(e^from[s] + e^from[s - 1] + e^(from[s - 2] + jump[s])) + p[s] for s < n, in whole lanes: all have room
// for kCtcLane - 1 more. In front of `from` stand two numbers.
namespace tycho::cpu {
constexpr int kCtcLane = 8;
}  // namespace tycho::cpu
TYCHO_LEVELS(void, ctc_step,
             (const double* from, const double* jump, const double* p, double* to, int64_t n))
