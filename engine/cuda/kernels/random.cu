// Random numbers: every block of four words is a function of the seed and its counter (base/philox.h),
// so that the numbers depend on neither grid nor chip. Dropout's scaling by a mask.
#include "engine/base/gamma.h"
#include "engine/base/philox.h"
#include "engine/base/poisson.h"
#include "engine/cuda/kernels/random.cuh"
#include "engine/cuda/kernels/walk.cuh"

using namespace tycho::cuda;

namespace {

__device__ inline float fused(float a, float b, float c) { return fmaf(a, b, c); }
__device__ inline double fused(double a, double b, double c) { return fma(a, b, c); }
__device__ inline float root(float x) { return sqrtf(x); }
__device__ inline double root(double x) { return sqrt(x); }
__device__ inline float log_of(float x) { return logf(x); }
__device__ inline double log_of(double x) { return log(x); }
// Of turns by pi: arguments that are that small need no table.
__device__ inline float cosine(float x) { return cospif(x); }
__device__ inline double cosine(double x) { return cospi(x); }
__device__ inline float sine(float x) { return sinpif(x); }
__device__ inline double sine(double x) { return sinpi(x); }

__device__ inline float exp_of(float x) { return expf(x); }
__device__ inline double exp_of(double x) { return exp(x); }

// -log(u) for u in (0, 1], above 0: a u that rounded to 1 stands for what lies half a step below.
template <class T>
__device__ inline T minus_log(T u, T half_step) {
  return u >= 1 - half_step ? half_step / 2 : -log_of(u);
}

// As `dtype` would store it: what the shorter formats round to the end of a range begins it again.
template <class T>
__device__ inline T stored(int dtype, T x) {
  if (dtype == kF16) return to_float(from_float<f16>(to_narrow(x)));
  if (dtype == kBF16) return to_float(from_float<bf16>(to_narrow(x)));
  return x;
}

// The words of the elements' block k.
__device__ inline tycho::PhiloxBlock words_of(const Draw& d, int64_t k) {
  const uint64_t at = d.first + static_cast<uint64_t>(k);
  return d.replayed ? tycho::philox(d.key + d.replayed[0], at + d.replayed[1])
                    : tycho::philox(d.key, at);
}

// The numbers that need one word, or two, each.
template <class T>
__device__ inline T drawn(const Draw& d, const tycho::PhiloxBlock& words, int e, T a, T b) {
  constexpr T kStep = sizeof(T) == 4 ? T(0x1p-23) : T(0x1p-52);
  const T u = tycho::open_of(words, e, T{});
  switch (d.what) {
    case Drawn::Exponential:
      return minus_log(u, kStep / 2) * a;
    case Drawn::Geometric: {
      const T count = ceil(minus_log(u, kStep / 2) * a);
      return count > T(1) ? count : T(1);
    }
    case Drawn::Cauchy: {
      const T inside = u < kStep ? kStep : u > 1 - kStep ? 1 - kStep : u;
      return a + b * (sine(inside - T(0.5)) / cosine(inside - T(0.5)));
    }
    default: {
      const T x = fused(tycho::unit_of(words, e, T{}), b - a, a);
      return stored(d.dtype, x) >= stored(d.dtype, b) ? a : x;
    }
  }
}

template <class T>
__device__ inline void draw(const Draw& d) {
  constexpr int per = 16 / sizeof(T);
  const T a = static_cast<T>(d.a), b = static_cast<T>(d.b);
  const int64_t blocks = (d.n + per - 1) / per;
  for (int64_t k = first_element(); k < blocks; k += all_threads()) {
    const tycho::PhiloxBlock words = words_of(d, k);
    T x[per];
    if (d.what == Drawn::Normal || d.what == Drawn::LogNormal) {
      for (int e = 0; e < per; e += 2) {
        const T r = root(-2 * log_of(tycho::open_of(words, e, T{})));
        const T t = 2 * tycho::unit_of(words, e + 1, T{});
        x[e] = fused(r * cosine(t), b, a);
        x[e + 1] = fused(r * sine(t), b, a);
      }
    } else {
      for (int e = 0; e < per; ++e) x[e] = drawn(d, words, e, a, b);
    }
    for (int e = 0; e < per; ++e)
      if (k * per + e < d.n)
        store<T>(d.out, d.dtype, k * per + e, d.what == Drawn::LogNormal ? exp_of(x[e]) : x[e]);
  }
}

}  // namespace

extern "C" __global__ void draw_f32(Draw d) { draw<float>(d); }
extern "C" __global__ void draw_f64(Draw d) { draw<double>(d); }

extern "C" __global__ void draw_bernoulli(Draw d) {
  const int64_t blocks = (d.n + 3) / 4;
  for (int64_t k = first_element(); k < blocks; k += all_threads()) {
    const tycho::PhiloxBlock words = words_of(d, k);
    for (int e = 0; e < 4; ++e) {
      const int64_t i = k * 4 + e;
      if (i >= d.n) break;
      const bool hit = d.chances
                           ? words.word[e] < load<double>(d.chances, d.chances_dtype, i) * 0x1p32
                           : words.word[e] < d.limit;
      store<int64_t>(d.out, d.dtype, i, hit);
    }
  }
}

namespace {

// Every element has a counter of its own, and as many of its numbers as it takes.
template <class F>
__device__ inline void draw_each(const Draw& d, F draw) {
  const uint64_t key = d.key + (d.replayed ? d.replayed[0] : 0);
  const uint64_t first = d.first + (d.replayed ? d.replayed[1] : 0);
  for (int64_t i = first_element(); i < d.n; i += all_threads()) {
    tycho::PhiloxReader numbers(key, first + static_cast<uint64_t>(i));
    store<double>(d.out, d.dtype, i, draw(numbers, load<double>(d.chances, d.chances_dtype, i), i));
  }
}

}  // namespace

extern "C" __global__ void draw_poisson(Draw d) {
  draw_each(d, [](auto& numbers, double rate, int64_t) {
    return tycho::draw_poisson(numbers, rate);
  });
}
extern "C" __global__ void draw_gamma(Draw d) {
  draw_each(d, [&](auto& numbers, double shape, int64_t) {
    const double x = tycho::draw_gamma(numbers, shape);
    return x > d.a ? x : d.a;
  });
}
extern "C" __global__ void draw_binomial(Draw d) {
  draw_each(d, [&](auto& numbers, double p, int64_t i) {
    return tycho::draw_binomial(numbers, load<double>(d.counts, d.chances_dtype, i), p);
  });
}

extern "C" __global__ void draw_integers(Draw d) {
  const bool narrow = d.count != 0 && d.count < uint64_t(1) << 28;
  const int per = narrow ? 4 : 2;
  const int64_t blocks = (d.n + per - 1) / per;
  for (int64_t k = first_element(); k < blocks; k += all_threads()) {
    const tycho::PhiloxBlock words = words_of(d, k);
    for (int e = 0; e < per; ++e) {
      uint64_t u = words.word[e] * d.count >> 32;
      if (!narrow) {
        __extension__ using Wide = unsigned __int128;
        u = uint64_t(words.word[2 * e]) << 32 | words.word[2 * e + 1];
        if (d.count) u = static_cast<uint64_t>(Wide(u) * d.count >> 64);
      }
      if (k * per + e < d.n)
        store<int64_t>(d.out, d.dtype, k * per + e, static_cast<int64_t>(d.low + u));
    }
  }
}

template <class T>
__device__ inline void masked_scale(const MaskedScale& m) {
  const T scale = static_cast<T>(m.scale);
  for (int64_t i = first_element(); i < m.n; i += all_threads())
    store<T>(m.out, m.out_dtype, i, load<T>(m.in, m.in_dtype, i) * (m.mask[i] ? scale : T(0)));
}
extern "C" __global__ void masked_scale_f32(MaskedScale m) { masked_scale<float>(m); }
extern "C" __global__ void masked_scale_f64(MaskedScale m) { masked_scale<double>(m); }

TYCHO_KERNEL(draw_f32)
TYCHO_KERNEL(draw_f64)
TYCHO_KERNEL(draw_bernoulli)
TYCHO_KERNEL(draw_poisson)
TYCHO_KERNEL(draw_gamma)
TYCHO_KERNEL(draw_binomial)
TYCHO_KERNEL(draw_integers)
TYCHO_KERNEL(masked_scale_f32)
TYCHO_KERNEL(masked_scale_f64)
