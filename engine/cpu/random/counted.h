// A device's random numbers, made by the CPU for simulated devices and to test a device's kernels
// against. Element i of a call comes from counter offset + i / 4 of the stream (float64 and wide
// integers: i / 2), so that each can be made alone. Parameters are checked by random.h's functions
// with these names, which call these.
#pragma once
#include "engine/base/philox.h"
#include "engine/cpu/random/random.h"

namespace tycho::cpu::counted {

// unit_of * (to - from) + from with one rounding; what rounds to `to` becomes `from`.
void uniform(PhiloxStream& g, void* y, DType dtype, int64_t n, double from, double to);
// Box and Muller on elements 2k and 2k + 1: r = sqrt(-2 log open_of(2k)), t = 2 pi unit_of(2k + 1):
// r cos t, r sin t.
void normal(PhiloxStream& g, void* y, DType dtype, int64_t n, double mean, double deviation);
// Counts below 2^28: the upper half of word * count. Others: that of two words * count.
void integers(PhiloxStream& g, void* y, DType dtype, int64_t n, IntegerRange range);
// 0..n-1 ordered by a number of 64 bits each.
void permutation(PhiloxStream& g, int64_t* y, int64_t n, int64_t first);
// word < p * 2^32.
void bernoulli(PhiloxStream& g, void* y, DType dtype, int64_t n, double p);
void bernoulli(PhiloxStream& g, void* y, DType dtype, int64_t n, const void* p, DType p_dtype);
// -log(open_of) / lambda, which is never 0.
void exponential(PhiloxStream& g, void* y, DType dtype, int64_t n, double lambda);
// ceil(log(open_of) / log1p(-p)), and 1 at least.
void geometric(PhiloxStream& g, void* y, DType dtype, int64_t n, double p);
void cauchy(PhiloxStream& g, void* y, DType dtype, int64_t n, double median, double sigma);
void log_normal(PhiloxStream& g, void* y, DType dtype, int64_t n, double mean, double deviation);

}  // namespace tycho::cpu::counted
