// Small blocks copied transposed: the pieces that packing and layout changes are made of.
#pragma once

#include "engine/cpu/lanes/vec.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

template <class T>
TYCHO_INLINE void turn4(const T* from, int64_t ld, T* to, int64_t step) {
  if constexpr (sizeof(T) == 4) {
    const float* f = reinterpret_cast<const float*>(from);
    float* t = reinterpret_cast<float*>(to);
    __m128 r0 = _mm_loadu_ps(f), r1 = _mm_loadu_ps(f + ld), r2 = _mm_loadu_ps(f + 2 * ld),
           r3 = _mm_loadu_ps(f + 3 * ld);
    _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
    _mm_storeu_ps(t, r0);
    _mm_storeu_ps(t + step, r1);
    _mm_storeu_ps(t + 2 * step, r2);
    _mm_storeu_ps(t + 3 * step, r3);
  } else {
    const double* f = reinterpret_cast<const double*>(from);
    double* t = reinterpret_cast<double*>(to);
    for (int i = 0; i < 4; i += 2)
      for (int j = 0; j < 4; j += 2) {
        const __m128d x = _mm_loadu_pd(f + i * ld + j), y = _mm_loadu_pd(f + (i + 1) * ld + j);
        _mm_storeu_pd(t + j * step + i, _mm_unpacklo_pd(x, y));
        _mm_storeu_pd(t + (j + 1) * step + i, _mm_unpackhi_pd(x, y));
      }
  }
}

#if defined(TYCHO_LEVEL_v4) || defined(TYCHO_LEVEL_v3)
// A lane's worth of rows, four columns of each: four full lanes are stored, `step` apart.
TYCHO_INLINE void transpose_lane(const float* from, int64_t ld, float* to, int64_t step) {
#if defined(TYCHO_LEVEL_v4)
  const auto rows = [&](const float* p) __attribute__((always_inline)) {
    __m512 r = _mm512_zextps128_ps512(_mm_loadu_ps(p));
    r = _mm512_maskz_insertf32x4(-1, r, _mm_loadu_ps(p + 4 * ld), 1);
    r = _mm512_maskz_insertf32x4(-1, r, _mm_loadu_ps(p + 8 * ld), 2);
    return _mm512_maskz_insertf32x4(-1, r, _mm_loadu_ps(p + 12 * ld), 3);
  };
  const __m512 r0 = rows(from), r1 = rows(from + ld), r2 = rows(from + 2 * ld),
               r3 = rows(from + 3 * ld);
  const __m512 a = _mm512_maskz_unpacklo_ps(-1, r0, r1), b = _mm512_maskz_unpacklo_ps(-1, r2, r3),
               c = _mm512_maskz_unpackhi_ps(-1, r0, r1), d = _mm512_maskz_unpackhi_ps(-1, r2, r3);
  _mm512_storeu_ps(to, _mm512_maskz_shuffle_ps(-1, a, b, 0x44));
  _mm512_storeu_ps(to + step, _mm512_maskz_shuffle_ps(-1, a, b, 0xee));
  _mm512_storeu_ps(to + 2 * step, _mm512_maskz_shuffle_ps(-1, c, d, 0x44));
  _mm512_storeu_ps(to + 3 * step, _mm512_maskz_shuffle_ps(-1, c, d, 0xee));
#else
  const auto rows = [&](const float* p) __attribute__((always_inline)) {
    return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(p)), _mm_loadu_ps(p + 4 * ld),
                                1);
  };
  const __m256 r0 = rows(from), r1 = rows(from + ld), r2 = rows(from + 2 * ld),
               r3 = rows(from + 3 * ld);
  const __m256 a = _mm256_unpacklo_ps(r0, r1), b = _mm256_unpacklo_ps(r2, r3),
               c = _mm256_unpackhi_ps(r0, r1), d = _mm256_unpackhi_ps(r2, r3);
  _mm256_storeu_ps(to, _mm256_shuffle_ps(a, b, 0x44));
  _mm256_storeu_ps(to + step, _mm256_shuffle_ps(a, b, 0xee));
  _mm256_storeu_ps(to + 2 * step, _mm256_shuffle_ps(c, d, 0x44));
  _mm256_storeu_ps(to + 3 * step, _mm256_shuffle_ps(c, d, 0xee));
#endif
}
#endif
#if defined(TYCHO_LEVEL_v4)
TYCHO_INLINE void transpose_lane(const double* from, int64_t ld, double* to, int64_t step) {
  const auto rows = [&](const double* p) __attribute__((always_inline)) {
    return _mm512_maskz_insertf64x4(-1, _mm512_zextpd256_pd512(_mm256_loadu_pd(p)),
                                    _mm256_loadu_pd(p + 4 * ld), 1);
  };
  const __m512d r0 = rows(from), r1 = rows(from + ld), r2 = rows(from + 2 * ld),
                r3 = rows(from + 3 * ld);
  const __m512d a = _mm512_maskz_unpacklo_pd(-1, r0, r1), b = _mm512_maskz_unpacklo_pd(-1, r2, r3),
                c = _mm512_maskz_unpackhi_pd(-1, r0, r1), d = _mm512_maskz_unpackhi_pd(-1, r2, r3);
  const __m512i first = _mm512_set_epi64(13, 12, 5, 4, 9, 8, 1, 0),
                second = _mm512_set_epi64(15, 14, 7, 6, 11, 10, 3, 2);
  _mm512_storeu_pd(to, _mm512_permutex2var_pd(a, first, b));
  _mm512_storeu_pd(to + step, _mm512_permutex2var_pd(c, first, d));
  _mm512_storeu_pd(to + 2 * step, _mm512_permutex2var_pd(a, second, b));
  _mm512_storeu_pd(to + 3 * step, _mm512_permutex2var_pd(c, second, d));
}
#endif

// Whether there is a transpose_lane of T.
#if defined(TYCHO_LEVEL_v4)
template <class T>
constexpr bool kTurnsLanes = sizeof(T) == 4 || __is_same(T, double);
#elif defined(TYCHO_LEVEL_v3)
template <class T>
constexpr bool kTurnsLanes = sizeof(T) == 4;
#else
template <class T>
constexpr bool kTurnsLanes = false;
#endif

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
