// The parts of sorting that are compiled at every instruction-set level (cpu/index/sort.h says what
// for).
#pragma once
#include "engine/cpu/level.h"

TYCHO_LEVELS(void, float_keys, (const float* x, uint32_t* keys, int64_t n))
TYCHO_LEVELS(void, double_keys, (const double* x, uint64_t* keys, int64_t n))
// The first i in [begin, n) with keys[i] > limit, or n.
TYCHO_LEVELS(int64_t, first_above, (const uint32_t* keys, int64_t begin, int64_t n, uint32_t limit))
