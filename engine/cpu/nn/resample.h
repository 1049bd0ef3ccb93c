// Inner loops of resizing: every output is a weighted sum of `taps` neighbours along one dimension.
#pragma once
#include "engine/cpu/level.h"

// y[j] = sum over k of w[k] x[k * stride + j], for j < n
TYCHO_LEVELS(void, mix_rows_f32,
             (const float* x, int64_t stride, float* y, const float* w, int64_t taps, int64_t n))
TYCHO_LEVELS(void, mix_rows_f64,
             (const double* x, int64_t stride, double* y, const double* w, int64_t taps, int64_t n))
// The same for bytes: sums are rounded and kept within 0 and 255; weights are 16 bits in units of
// 2^-shift, two of a sum in one number, the earlier one below (an odd last one is followed by 0)
TYCHO_LEVELS(void, mix_rows_u8,
             (const uint8_t* x, int64_t stride, uint8_t* y, const int32_t* w, int64_t taps,
              int64_t n, int shift))
// y[i][c] = sum over k of w[i * taps + k] x[first[i] + k][c], for i < out and c < channels; nothing
// is read at or beyond `end`
TYCHO_LEVELS(void, mix_pixels_f32,
             (const float* x, const float* end, float* y, int64_t out, const int64_t* first,
              const float* w, int64_t taps, int64_t channels))
TYCHO_LEVELS(void, mix_pixels_f64,
             (const double* x, const double* end, double* y, int64_t out, const int64_t* first,
              const double* w, int64_t taps, int64_t channels))
TYCHO_LEVELS(void, mix_pixels_u8,
             (const uint8_t* x, const uint8_t* end, uint8_t* y, int64_t out, const int64_t* first,
              const int32_t* w, int64_t taps, int64_t channels, int shift))
// For each of `lines` lines of `in` numbers: y[i] = sum over k of w[i * taps + k] x[first[i] + k],
// for i < out
TYCHO_LEVELS(void, mix_lines_f32,
             (const float* x, int64_t in, float* y, int64_t out, const int64_t* first,
              const float* w, int64_t taps, int64_t lines))
TYCHO_LEVELS(void, mix_lines_f64,
             (const double* x, int64_t in, double* y, int64_t out, const int64_t* first,
              const double* w, int64_t taps, int64_t lines))

// Is no number inf or nan?
TYCHO_LEVELS(bool, finite_f32, (const float* x, int64_t n))
TYCHO_LEVELS(bool, finite_f64, (const double* x, int64_t n))

#ifdef TYCHO_LEVEL
namespace tycho::cpu::TYCHO_LEVEL {
namespace {
// How many of a line's outputs have their last pixel of C channels at or before `last`.
inline int64_t outputs_that_fit(int64_t last, int64_t out, const int64_t* first, int64_t taps,
                                int64_t channels) {
  while (out > 0 && (first[out - 1] + taps - 1) * channels > last) --out;
  return out;
}
}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
#endif
