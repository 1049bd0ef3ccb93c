// Lanes of float from and to numbers of two bytes, of either kind: bfloat16, or float16 (half).
// Products sum them in float32.
#pragma once
#include "engine/cpu/lanes/half.h"
#include "engine/cpu/lanes/storage.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// A lane's worth of numbers, or the first n of them with zeros behind.
struct AsBFloat16 {
  static constexpr bool is_upper_half = true;  // of a float
  static TYCHO_INLINE Lane<float> from(const uint16_t* p) { return get(p); }
  static TYCHO_INLINE Lane<float> some(const uint16_t* p, int64_t n) {
    return get_some(p, n, uint16_t{0});
  }
  static TYCHO_INLINE void to(Lane<float> x, uint16_t* p) { put(x, p); }
  static TYCHO_INLINE void some_to(Lane<float> x, uint16_t* p, int64_t n) { put_some(x, p, n); }
};

struct AsHalf {
  static constexpr bool is_upper_half = false;
  using V = typename Raw<float>::V;
#if defined(TYCHO_LEVEL_v4)
  static TYCHO_INLINE Lane<float> some(const uint16_t* p, int64_t n) {
    const auto mask = static_cast<__mmask16>((1u << n) - 1);
    return Lane<float>((V)_mm512_maskz_cvtph_ps(0xffff, _mm256_maskz_loadu_epi16(mask, p)));
  }
  static TYCHO_INLINE Lane<float> from(const uint16_t* p) { return some(p, 16); }
  static TYCHO_INLINE void some_to(Lane<float> x, uint16_t* p, int64_t n) {
    _mm256_mask_storeu_epi16(p, static_cast<__mmask16>((1u << n) - 1),
                             _mm512_maskz_cvtps_ph(0xffff, (__m512)x.v, _MM_FROUND_TO_NEAREST_INT));
  }
  static TYCHO_INLINE void to(Lane<float> x, uint16_t* p) { some_to(x, p, 16); }
#else
#if defined(TYCHO_LEVEL_v3)
  static TYCHO_INLINE Lane<float> from(const uint16_t* p) {
    return Lane<float>((V)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
  }
  static TYCHO_INLINE void to(Lane<float> x, uint16_t* p) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p),
                     _mm256_cvtps_ph((__m256)x.v, _MM_FROUND_TO_NEAREST_INT));
  }
#else
  static TYCHO_INLINE Lane<float> from(const uint16_t* p) {
    float wide[Lane<float>::size];
    for (int k = 0; k < Lane<float>::size; ++k) wide[k] = widen(Half{p[k]});
    return Lane<float>::load(wide);
  }
  static TYCHO_INLINE void to(Lane<float> x, uint16_t* p) {
    float wide[Lane<float>::size];
    x.store(wide);
    for (int k = 0; k < Lane<float>::size; ++k) p[k] = narrow_half(wide[k]).bits;
  }
#endif
  static TYCHO_INLINE Lane<float> some(const uint16_t* p, int64_t n) {
    uint16_t part[Lane<float>::size] = {};
    for (int64_t k = 0; k < n; ++k) part[k] = p[k];
    return from(part);
  }
  static TYCHO_INLINE void some_to(Lane<float> x, uint16_t* p, int64_t n) {
    uint16_t part[Lane<float>::size];
    to(x, part);
    for (int64_t k = 0; k < n; ++k) p[k] = part[k];
  }
#endif
};

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
