// grid_sample's inner loops (see grid_sample.h): plain loops over some positions at a time, which the
// compiler turns into vectors.
#include "engine/cpu/nn/grid_sample.h"

#include "engine/cpu/lanes/vec.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

TYCHO_INLINE float floor_of(float x) { return __builtin_floorf(x); }
TYCHO_INLINE double floor_of(double x) { return __builtin_floor(x); }
TYCHO_INLINE float abs_of(float x) { return __builtin_fabsf(x); }
TYCHO_INLINE double abs_of(double x) { return __builtin_fabs(x); }

// Halves to even.
template <class T>
TYCHO_INLINE T rounded(T x) {
  const T low = floor_of(x), rest = x - low;
  const T even = 2 * floor_of(low / 2) == low ? low : low + 1;
  return rest == T(0.5) ? even : rest > T(0.5) ? low + 1 : low;
}

// Back into the image: at its border, or folded like a ball between walls.
template <class T>
TYCHO_INLINE void fold_in(const GridSampler& s, int d, int m, T* x) {
  const T last = static_cast<T>(s.size[d] - 1);
  if (s.padding == GridSampler::Zeros) return;
  if (s.padding == GridSampler::Reflection) {
    const T low = s.corners ? T(0) : T(-0.5), span = s.corners ? last : last + 1;
    if (span == 0)
      for (int i = 0; i < m; ++i) x[i] *= 0;
    else
      for (int i = 0; i < m; ++i) {
        const T away = abs_of(x[i] - low), flips = floor_of(away / span),
                extra = away - flips * span;
        x[i] = flips - 2 * floor_of(flips / 2) == 0 ? extra + low : span - extra + low;
      }
  }
  for (int i = 0; i < m; ++i) {
    const T v = x[i] < 0 ? T(0) : x[i];
    x[i] = v > last ? last : v;
  }
}

template <class T>
void taps(const GridSampler& s, const T* g, int m, int32_t* place, T* weight) {
  T at[kGridPoints], low[kGridPoints], part[3][4][kGridPoints];
  int32_t line[3][4][kGridPoints];
  const int shift = s.mode == GridSampler::Nearest ? 0 : s.mode == GridSampler::Linear ? 1 : 2;
  for (int d = 0; d < s.dims; ++d) {
    const T n = static_cast<T>(s.size[d]);
    const T* const from = g + (s.dims - 1 - d);
    for (int i = 0; i < m; ++i) {
      const T x = from[i * s.dims] + 1;
      at[i] = s.corners ? x * ((n - 1) / 2) : (x * n - 1) * T(0.5);
    }
    if (s.mode != GridSampler::Cubic) fold_in(s, d, m, at);
    if (s.mode == GridSampler::Nearest)
      for (int i = 0; i < m; ++i) low[i] = rounded(at[i]), part[d][0][i] = 1;
    else
      for (int i = 0; i < m; ++i) low[i] = floor_of(at[i]);
    if (s.mode == GridSampler::Linear)
      for (int i = 0; i < m; ++i) {
        const T t = at[i] - low[i];
        part[d][0][i] = 1 - t;
        part[d][1][i] = t;
      }
    if (s.mode == GridSampler::Cubic)  // Keys' convolution, a = -0.75
      for (int i = 0; i < m; ++i) {
        constexpr T a = T(-0.75);
        const auto near = [](T v) __attribute__((always_inline)) {
          return (v * (a + 2) - (a + 3)) * v * v + 1;
        };
        const auto far = [](T v) __attribute__((always_inline)) {
          return ((v * a - 5 * a) * v + 8 * a) * v - 4 * a;
        };
        const T t = at[i] - low[i];
        part[d][0][i] = far(t + 1);
        part[d][1][i] = near(t);
        part[d][2][i] = near(1 - t);
        part[d][3][i] = far(2 - t);
      }
    for (int j = 0; j < 1 << shift; ++j) {
      for (int i = 0; i < m; ++i) at[i] = low[i] + static_cast<T>(shift == 2 ? j - 1 : j);
      if (s.mode == GridSampler::Cubic) fold_in(s, d, m, at);
      // What lies outside is read at 0 and weighs nothing (nan stays nan).
      T* const p = part[d][j];
      int32_t* const l = line[d][j];
      for (int i = 0; i < m; ++i) {
        const bool has = at[i] >= 0 && at[i] < n;
        p[i] *= has ? T(1) : T(0);
        l[i] = static_cast<int32_t>(has ? at[i] : T(0));
      }
    }
  }
  for (int k = 0; k < s.taps(); ++k, place += kGridPoints, weight += kGridPoints) {
    for (int d = 0, rest = k; d < s.dims; ++d, rest >>= shift) {
      const int j = rest & ((1 << shift) - 1);
      const int32_t* const l = line[d][j];
      const T* const p = part[d][j];
      const int32_t n = static_cast<int32_t>(s.size[d]);
      for (int i = 0; i < m; ++i) {
        place[i] = d == 0 ? l[i] : place[i] * n + l[i];
        weight[i] = d == 0 ? p[i] : weight[i] * p[i];
      }
    }
  }
}

// plane[place[i]] for a lane of places.
template <class T>
TYCHO_INLINE Lane<T> gather(const T* plane, const int32_t* place) {
  using V [[maybe_unused]] = typename Raw<T>::V;
#if defined(TYCHO_LEVEL_v4)
  if constexpr (sizeof(T) == 4)
    return Lane<T>((V)_mm512_i32gather_ps(_mm512_loadu_si512(place), plane, 4));
  else
    return Lane<T>((V)_mm512_i32gather_pd(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(place)), plane, 8));
#elif defined(TYCHO_LEVEL_v3)
  if constexpr (sizeof(T) == 4)
    return Lane<T>((V)_mm256_i32gather_ps(
        plane, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(place)), 4));
  else
    return Lane<T>(
        (V)_mm256_i32gather_pd(plane, _mm_loadu_si128(reinterpret_cast<const __m128i*>(place)), 8));
#else
  T v[Lane<T>::size];
  for (int i = 0; i < Lane<T>::size; ++i) v[i] = plane[place[i]];
  return Lane<T>::load(v);
#endif
}

template <class T>
void read(const T* plane, const int32_t* place, const T* weight, int taps, int m, T* y) {
  using L = Lane<T>;
  int i = 0;
  for (; i + L::size <= m; i += L::size) {
    L sum = gather(plane, place + i) * L::load(weight + i);
    for (int k = 1; k < taps; ++k)
      sum += gather(plane, place + k * kGridPoints + i) * L::load(weight + k * kGridPoints + i);
    sum.store(y + i);
  }
  for (; i < m; ++i) {
    y[i] = plane[place[i]] * weight[i];
    for (int k = 1; k < taps; ++k)
      y[i] += plane[place[k * kGridPoints + i]] * weight[k * kGridPoints + i];
  }
}

}  // namespace

void grid_taps_f32(const GridSampler* s, const float* g, int m, int32_t* place, float* weight) {
  taps(*s, g, m, place, weight);
}
void grid_taps_f64(const GridSampler* s, const double* g, int m, int32_t* place, double* weight) {
  taps(*s, g, m, place, weight);
}
void grid_read_f32(const float* plane, const int32_t* place, const float* weight, int taps, int m,
                   float* y) {
  read(plane, place, weight, taps, m, y);
}
void grid_read_f64(const double* plane, const int32_t* place, const double* weight, int taps, int m,
                   double* y) {
  read(plane, place, weight, taps, m, y);
}

}  // namespace tycho::cpu::TYCHO_LEVEL
