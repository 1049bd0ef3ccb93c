// The inner loops of the class losses: logs of sums of exponentials along rows (the classes are
// neighbours) or along columns (the places are), and the softmax that is their gradient.
#pragma once
#include "engine/cpu/level.h"

// out[r] = log(sum(exp(x[r * n .. r * n + n])))
TYCHO_LEVELS(void, row_lse_f32, (const float* x, int64_t rows, int64_t n, float* out))
TYCHO_LEVELS(void, row_lse_f64, (const double* x, int64_t rows, int64_t n, double* out))
// out[s] = log(sum over c of exp(x[c * stride + s])), for s < n
TYCHO_LEVELS(void, column_lse_f32,
             (const float* x, int64_t classes, int64_t stride, int64_t n, float* out))
TYCHO_LEVELS(void, column_lse_f64,
             (const double* x, int64_t classes, int64_t stride, int64_t n, double* out))
// y = exp(x - shift) * scale, over one row; and with shift and scale per element.
TYCHO_LEVELS(void, exp_scale_f32, (const float* x, float* y, int64_t n, float shift, float scale))
TYCHO_LEVELS(void, exp_scale_f64,
             (const double* x, double* y, int64_t n, double shift, double scale))
TYCHO_LEVELS(void, exp_scale_each_f32,
             (const float* x, float* y, int64_t n, const float* shift, const float* scale))
TYCHO_LEVELS(void, exp_scale_each_f64,
             (const double* x, double* y, int64_t n, const double* shift, const double* scale))
