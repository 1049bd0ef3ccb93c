// A 4 x 4 block copied transposed: the piece that packing and layout changes are made of.
#pragma once
#include "engine/cpu/level/vec.h"

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

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
