// Random numbers on plain memory. From a Philox stream they are as counted.h says; from a Mersenne
// stream they are those of PyTorch's CPU, of which the rest is about: the same seed gives the same
// numbers as torch 2.15 on a CPU (normal ones to about 4e-7, the rest to the bit). How each rule
// was found: by comparing with PyTorch's results; tests/engine/random_test.cpp holds a part of
// them.
//
// Every function fills y[0..n), contiguous and of the given dtype, from the generator, in order. D
// is Generator::next_double53, F is next_float24. Parameters are checked before anything is drawn
// or written; a wrong one raises Kind::Value. float16 and bfloat16 are computed as float32 and
// rounded.
#pragma once
#include "engine/base/random_stream.h"
#include "engine/cpu/level.h"
#include "engine/ops/random/limits.h"
#include "engine/tensor/dtype.h"

namespace tycho::cpu {

// Uniform in [from, to): F * (to - from) + from with one rounding (float64: D). A result that
// rounds to `to` becomes `from`. Floating dtypes.
void random_uniform(RandomStream g, void* y, DType dtype, int64_t n, double from, double to);

// Normal numbers. Fewer than 16, or with `in_blocks` false (PyTorch: when the tensor is not
// contiguous): one Generator::next_normal each. Otherwise n times F (float64: D), then for each
// block of 16 and j in 0..7
//   r = sqrt(-2 log(1 - x[j])), t = 2 pi x[j + 8]: x[j] = r cos t, x[j + 8] = r sin t;
// when n is no multiple of 16 the last 16 elements are drawn anew (float16 and bfloat16 skip the
// first draw of what is beyond the last whole block). Floating dtypes.
void random_normal(RandomStream g, void* y, DType dtype, int64_t n, double mean, double deviation,
                   bool in_blocks = true);

// low + next32 % count for counts below 2^28, else low + next64 % count; random_() without bounds
// always takes next32 for dtypes of up to 32 bits and float32 (`narrow`). Any dtype.
void random_integers(RandomStream g, void* y, DType dtype, int64_t n, IntegerRange range);
void random_integers(RandomStream g, void* y, DType dtype, int64_t n);  // random_()

// 0..n-1 shuffled: for i in 0..n-2, z = next32 % (n - i), swap y[i] and y[i + z]. `first` is added
// to each (1 for positions). From 2^32 / 20 elements on the draw is next64, where PyTorch's numbers
// differ.
void random_permutation(RandomStream g, int64_t* y, int64_t n, int64_t first = 0);

// 1 when D < p, else 0. Any dtype. Dropout's mask is this with 1 - p.
void random_bernoulli(RandomStream g, void* y, DType dtype, int64_t n, double p);
// 1 when F < p[i] (float64 probabilities: D < p[i]), else 0.
void random_bernoulli(RandomStream g, void* y, DType dtype, int64_t n, const void* p,
                      DType p_dtype);

// -1 / lambda * log1p(-D). Floating dtypes.
void random_exponential(RandomStream g, void* y, DType dtype, int64_t n, double lambda);
// ceil(log(D) / log1p(-p)): how many trials until the first success. Any dtype but bool.
void random_geometric(RandomStream g, void* y, DType dtype, int64_t n, double p);
// median + sigma * tan(pi * (D - 1/2)). Floating dtypes.
void random_cauchy(RandomStream g, void* y, DType dtype, int64_t n, double median, double sigma);
// exp(next_normal * deviation + mean). Floating dtypes.
void random_log_normal(RandomStream g, void* y, DType dtype, int64_t n, double mean,
                       double deviation);
// Poisson counts with the rates rate[0..n), of the same dtype as y. Rates from 10 on: transformed
// rejection (Hoermann, 1993); smaller ones: products of D. Floating dtypes.
void random_poisson(RandomStream g, void* y, const void* rate, DType dtype, int64_t n);
// Gamma numbers with the shapes shape[0..n) and rate 1, of the same dtype as y; next_normal and D as
// base/gamma.h takes them. Never below the smallest normal number. Floating dtypes.
void random_gamma(RandomStream g, void* y, const void* shape, DType dtype, int64_t n);
// Successes of count[i] trials with probability p[i], both of the same dtype as y. Floating dtypes.
void random_binomial(RandomStream g, void* y, const void* count, const void* p, DType dtype,
                     int64_t n);

// `draws` categories for each of `rows` rows of `categories` weights (contiguous, floating dtype);
// `first` is added to each. With replacement: one D per draw against the cumulative sums. Without,
// or for a single draw: the categories with the largest weight / exponential_(1), best first; these
// numbers are `noise`, as many as weights, where it is given.
void random_multinomial(RandomStream g, int64_t* y, const void* weights, DType dtype, int64_t rows,
                        int64_t categories, int64_t draws, bool replacement, int64_t first = 0,
                        const void* noise = nullptr);

}  // namespace tycho::cpu

TYCHO_LEVELS(void, random_unit_f32, (const uint32_t* u, float* y, int64_t n))
TYCHO_LEVELS(void, random_unit_f64, (const uint32_t* u, double* y, int64_t n))
TYCHO_LEVELS(void, random_scale_f32, (float* x, int64_t n, float from, float to))
TYCHO_LEVELS(void, random_scale_f64, (double* x, int64_t n, double from, double to))
TYCHO_LEVELS(void, random_box_muller_f32, (float* x, int64_t n, float mean, float deviation))
TYCHO_LEVELS(void, random_box_muller_f64, (double* x, int64_t n, double mean, double deviation))
TYCHO_LEVELS(void, random_exponential_f64, (double* x, int64_t n, double factor))
TYCHO_LEVELS(void, random_less_f32, (float* x, const float* limit, int64_t n))
TYCHO_LEVELS(void, random_less_f64, (double* x, const double* limit, int64_t n))
TYCHO_LEVELS(void, random_replace_16, (uint16_t * x, int64_t n, uint16_t old, uint16_t other))
TYCHO_LEVELS(void, random_below, (const uint32_t* u, uint8_t* y, int64_t n, uint64_t limit))
TYCHO_LEVELS(void, random_remainder,
             (const uint32_t* u, int64_t* y, int64_t n, uint32_t range, int64_t low))
// Whether a weight is negative, infinite or nan, and whether one is above 0.
TYCHO_LEVELS(void, random_weights_f32, (const float* w, int64_t n, bool* wrong, bool* some))
TYCHO_LEVELS(void, random_weights_f64, (const double* w, int64_t n, bool* wrong, bool* some))
TYCHO_LEVELS(void, random_put_f32, (void* y, const float* x, int64_t n, int dtype))
TYCHO_LEVELS(void, random_put_f64, (void* y, const double* x, int64_t n, int dtype))
TYCHO_LEVELS(void, random_put_i64, (void* y, const int64_t* x, int64_t n, int dtype))
TYCHO_LEVELS(void, random_get_f32, (float* y, const void* x, int64_t n, int dtype))
TYCHO_LEVELS(void, random_get_f64, (double* y, const void* x, int64_t n, int dtype))
