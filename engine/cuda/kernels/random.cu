// Random numbers: every block of four words is a function of the seed and its counter (base/philox.h),
// so that the numbers depend on neither grid nor chip. Dropout's scaling by a mask.
#include "engine/base/philox.h"
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

template <class T>
__device__ inline void draw(const Draw& d) {
  constexpr int per = 16 / sizeof(T);
  const T a = static_cast<T>(d.a), b = static_cast<T>(d.b);
  const int64_t blocks = (d.n + per - 1) / per;
  for (int64_t k = first_element(); k < blocks; k += all_threads()) {
    const tycho::PhiloxBlock words = tycho::philox(d.key, d.first + static_cast<uint64_t>(k));
    T x[per];
    if (d.what == Drawn::Normal) {
      for (int e = 0; e < per; e += 2) {
        const T r = root(-2 * log_of(tycho::open_of(words, e, T{})));
        const T t = 2 * tycho::unit_of(words, e + 1, T{});
        x[e] = fused(r * cosine(t), b, a);
        x[e + 1] = fused(r * sine(t), b, a);
      }
    } else {
      for (int e = 0; e < per; ++e) {
        x[e] = fused(tycho::unit_of(words, e, T{}), b - a, a);
        if (x[e] >= b) x[e] = a;
      }
    }
    for (int e = 0; e < per; ++e)
      if (k * per + e < d.n) store<T>(d.out, d.dtype, k * per + e, x[e]);
  }
}

}  // namespace

extern "C" __global__ void draw_f32(Draw d) { draw<float>(d); }
extern "C" __global__ void draw_f64(Draw d) { draw<double>(d); }

extern "C" __global__ void draw_bernoulli(Draw d) {
  const int64_t blocks = (d.n + 3) / 4;
  for (int64_t k = first_element(); k < blocks; k += all_threads()) {
    const tycho::PhiloxBlock words = tycho::philox(d.key, d.first + static_cast<uint64_t>(k));
    for (int e = 0; e < 4; ++e)
      if (k * 4 + e < d.n)
        store<int64_t>(d.out, d.dtype, k * 4 + e, words.word[e] < d.limit ? 1 : 0);
  }
}

extern "C" __global__ void draw_integers(Draw d) {
  const bool narrow = d.count != 0 && d.count < uint64_t(1) << 28;
  const int per = narrow ? 4 : 2;
  const int64_t blocks = (d.n + per - 1) / per;
  for (int64_t k = first_element(); k < blocks; k += all_threads()) {
    const tycho::PhiloxBlock words = tycho::philox(d.key, d.first + static_cast<uint64_t>(k));
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
TYCHO_KERNEL(draw_integers)
TYCHO_KERNEL(masked_scale_f32)
TYCHO_KERNEL(masked_scale_f64)
