// Dropout: elements times a mask of bytes, times a number.
#include "engine/cpu/nn/dropout.h"

namespace tycho::cpu::TYCHO_LEVEL {

void mask_scale_f32(const float* x, const uint8_t* mask, float* y, int64_t n, float scale) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * (mask[i] ? scale : 0.0f);
}

void mask_scale_f64(const double* x, const uint8_t* mask, double* y, int64_t n, double scale) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * (mask[i] ? scale : 0.0);
}

}  // namespace tycho::cpu::TYCHO_LEVEL
