// Dropout's inner loop: y = x * (mask ? scale : 0), so that a nan stays nan, as in PyTorch.
#pragma once
#include "engine/cpu/level.h"

TYCHO_LEVELS(void, mask_scale_f32,
             (const float* x, const uint8_t* mask, float* y, int64_t n, float scale))
TYCHO_LEVELS(void, mask_scale_f64,
             (const double* x, const uint8_t* mask, double* y, int64_t n, double scale))
