// The inner loops of the normalisations, on rows (statistics of a contiguous run) and on columns
// (statistics of every channel, where the channels are neighbours). `mean` is subtracted before
// anything is multiplied, so that a large mean costs no digits.
#pragma once
#include "engine/cpu/level.h"

// S is how images lie in memory (bfloat16 as its bits), T what is computed in.
#define TYCHO_NORM_LEVELS(S, T, suffix)                                                              \
  /* The mean of a run, and the sum of squared distances from it. */                                 \
  TYCHO_LEVELS(void, norm_moments_##suffix, (const S* x, int64_t n, double* mean, double* m2))       \
  /* y = (x - mean) * a + b */                                                                       \
  TYCHO_LEVELS(void, norm_apply_##suffix, (const S* x, S* y, int64_t n, T mean, T a, T b))           \
  /* The sums of g and of g * (x - mean). */                                                         \
  TYCHO_LEVELS(void, norm_sums_##suffix,                                                             \
               (const S* g, const S* x, int64_t n, T mean, double* sum, double* dot))                \
  /* y = g * a + (x - mean) * b + c */                                                               \
  TYCHO_LEVELS(void, norm_grad_##suffix,                                                             \
               (const S* g, const S* x, S* y, int64_t n, T mean, T a, T b, T c))                     \
  /* The same of `runs` runs that lie one behind the other, with numbers for each. */                \
  TYCHO_LEVELS(void, norm_runs_moments_##suffix,                                                     \
               (const S* x, int64_t n, int64_t runs, double* mean, double* m2))                      \
  TYCHO_LEVELS(void, norm_runs_apply_##suffix,                                                       \
               (const S* x, S* y, int64_t n, int64_t runs, const T* mean, const T* a, const T* b))   \
  TYCHO_LEVELS(                                                                                      \
      void, norm_runs_sums_##suffix,                                                                 \
      (const S* g, const S* x, int64_t n, int64_t runs, const T* mean, double* sum, double* dot))    \
  TYCHO_LEVELS(void, norm_runs_grad_##suffix,                                                        \
               (const S* g, const S* x, S* y, int64_t n, int64_t runs, const T* mean, const T* a,    \
                const T* b, const T* c))                                                             \
  /* The same for `rows` rows of n neighbouring channels, with numbers per channel. The mean is    \
     rounded; `apart` is the sum of distances from it. */ \
  TYCHO_LEVELS(void, norm_column_moments_##suffix,                                                   \
               (const S* x, int64_t rows, int64_t n, T* mean, T* apart, T* m2))                      \
  TYCHO_LEVELS(void, norm_column_apply_##suffix,                                                     \
               (const S* x, S* y, int64_t rows, int64_t n, const T* mean, const T* a, const T* b))   \
  TYCHO_LEVELS(void, norm_column_sums_##suffix,                                                      \
               (const S* g, const S* x, int64_t rows, int64_t n, const T* mean, T* sum, T* dot))     \
  TYCHO_LEVELS(void, norm_column_grad_##suffix,                                                      \
               (const S* g, const S* x, S* y, int64_t rows, int64_t n, const T* mean, const T* a,    \
                const T* b, const T* c))

TYCHO_NORM_LEVELS(float, float, f32)
TYCHO_NORM_LEVELS(double, double, f64)
TYCHO_NORM_LEVELS(uint16_t, float, bf16)

// W is how the weights lie.
#define TYCHO_NORM_ROW_LEVELS(S, T, W, suffix)                                                    \
  /* y = (x - mean) * rstd * w + b, element by element; w or b may be null */                     \
  TYCHO_LEVELS(void, norm_row_##suffix,                                                           \
               (const S* x, S* y, int64_t n, T mean, T rstd, const W* w, const W* b))             \
  /* The sums of h = g * w and of h * (x - mean). */                                              \
  TYCHO_LEVELS(void, norm_row_sums_##suffix,                                                      \
               (const S* g, const S* x, const W* w, int64_t n, T mean, double* sum, double* dot)) \
  /* The gradient of norm_row: y = h * rstd + (x - mean) * b + c, dw += g * xhat, db += g */      \
  TYCHO_LEVELS(void, norm_row_grad_##suffix,                                                      \
               (const S* g, const S* x, const W* w, S* y, int64_t n, T mean, T rstd, T b, T c,    \
                T* dw, T* db))

TYCHO_NORM_ROW_LEVELS(float, float, float, f32)
TYCHO_NORM_ROW_LEVELS(double, double, double, f64)
TYCHO_NORM_ROW_LEVELS(uint16_t, float, float, bf16)
TYCHO_NORM_ROW_LEVELS(uint16_t, float, uint16_t, bf16_all)

TYCHO_LEVELS(double, norm_squares_f32, (const float* x, int64_t n))
TYCHO_LEVELS(double, norm_squares_f64, (const double* x, int64_t n))
TYCHO_LEVELS(double, norm_squares_bf16, (const uint16_t* x, int64_t n))
