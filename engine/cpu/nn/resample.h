// Inner loops of resizing: every output is a weighted sum of `taps` neighbours along one dimension,
// or, on the way back, adds to them.
#pragma once
#include "engine/cpu/level.h"

// y[j] = sum over k of w[k] x[k * stride + j], for j < n
TYCHO_LEVELS(void, mix_rows_f32,
             (const float* x, int64_t stride, float* y, const float* w, int64_t taps, int64_t n))
TYCHO_LEVELS(void, mix_rows_f64,
             (const double* x, int64_t stride, double* y, const double* w, int64_t taps, int64_t n))
// For each of `lines` lines of `in` numbers: y[i] = sum over k of w[i * taps + k] x[first[i] + k],
// for i < out
TYCHO_LEVELS(void, mix_lines_f32,
             (const float* x, int64_t in, float* y, int64_t out, const int64_t* first,
              const float* w, int64_t taps, int64_t lines))
TYCHO_LEVELS(void, mix_lines_f64,
             (const double* x, int64_t in, double* y, int64_t out, const int64_t* first,
              const double* w, int64_t taps, int64_t lines))
// y[k * stride + j] += w[k] x[j], for j < n
TYCHO_LEVELS(void, spread_rows_f32,
             (const float* x, int64_t stride, float* y, const float* w, int64_t taps, int64_t n))
TYCHO_LEVELS(void, spread_rows_f64,
             (const double* x, int64_t stride, double* y, const double* w, int64_t taps, int64_t n))
