// The two half formats: widened, and rounded to nearest even, one by one and many at a time.
#pragma once
#include "engine/cpu/lanes/vec.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// How they lie in memory.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

TYCHO_INLINE uint32_t bits1(float x) { return __builtin_bit_cast(uint32_t, x); }
TYCHO_INLINE float float1(uint32_t b) { return __builtin_bit_cast(float, b); }

TYCHO_INLINE float widen(Half h) {
  uint32_t m = (h.bits & 0x7fffu) << 13, sign = (h.bits & 0x8000u) << 16;
  uint32_t special = m | 0x7f800000u;
  special |= special > 0x7f800000u ? 0x400000u : 0;
  uint32_t finite = bits1(float1(m) * 0x1p112f);
  return float1(sign | (m >= 0x7c00u << 13 ? special : finite));
}
TYCHO_INLINE float widen(BFloat16 h) { return float1(static_cast<uint32_t>(h.bits) << 16); }

TYCHO_INLINE Half narrow_half(float x) {
  uint32_t a = bits1(x) & 0x7fffffffu, sign = (bits1(x) >> 16) & 0x8000u;
  uint32_t nan = 0x7e00u | ((a >> 13) & 0x3ffu);
  uint32_t tiny = bits1(float1(a) + 0.5f) - 0x3f000000u;
  uint32_t c = a < 0x47800000u ? a : 0x47800000u;
  uint32_t normal = (c - 0x38000000u + 0xfffu + ((c >> 13) & 1)) >> 13;
  normal = a >= 0x47800000u ? 0x7c00u : normal;
  uint32_t r = a < 0x38800000u ? tiny : normal;
  return {static_cast<uint16_t>(sign | (a > 0x7f800000u ? nan : r))};
}
TYCHO_INLINE BFloat16 narrow_bfloat16(float x) {
  uint32_t b = bits1(x);
  uint32_t r = (b + 0x7fffu + ((b >> 16) & 1)) >> 16;
  return {static_cast<uint16_t>((b & 0x7fffffffu) > 0x7f800000u ? (b >> 16) | 0x40u : r)};
}
// Rounded to odd, so that rounding the result again to a shorter format rounds as if once.
TYCHO_INLINE float to_odd(double x) {
  float f = static_cast<float>(x);
  uint32_t b = bits1(f);
  double d = static_cast<double>(f);
  b -= __builtin_fabs(d) > __builtin_fabs(x) ? 1 : 0;
  return float1(d != x ? b | 1 : b);
}
TYCHO_INLINE Half narrow_half(double x) { return narrow_half(to_odd(x)); }
TYCHO_INLINE BFloat16 narrow_bfloat16(double x) { return narrow_bfloat16(to_odd(x)); }

// ---- many

#if defined(TYCHO_LEVEL_v4) || defined(TYCHO_LEVEL_v3)
inline void from_half(float* __restrict tile, const char* p, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m128i h = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 2 * i));
    _mm256_storeu_ps(tile + i, _mm256_cvtph_ps(h));
  }
  for (; i < n; i++) {
    Half h;
    memcpy(&h, p + 2 * i, sizeof h);
    tile[i] = widen(h);
  }
}
inline void to_half(char* p, const float* __restrict tile, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(tile + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 2 * i), h);
  }
  for (; i < n; i++) {
    Half h = narrow_half(tile[i]);
    memcpy(p + 2 * i, &h, sizeof h);
  }
}
constexpr bool half_instructions = true;
#else
inline void from_half(float*, const char*, int64_t) {}
inline void to_half(char*, const float*, int64_t) {}
constexpr bool half_instructions = false;
#endif

#if defined(TYCHO_LEVEL_v3)                         // GCC makes as good of longer registers
TYCHO_INLINE __m256i to_bfloat16(const float* p) {  // in the low halves
  const __m256 x = _mm256_loadu_ps(p);
  const __m256i b = _mm256_castps_si256(x), odd = _mm256_slli_epi32(b, 15);
  const __m256i up =
      _mm256_add_epi32(_mm256_add_epi32(b, _mm256_srli_epi32(odd, 31)), _mm256_set1_epi32(0x7fff));
  const __m256i quiet = _mm256_or_si256(b, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, nan), 16);
}
inline void to_bfloat16(char* p, const float* __restrict tile, int64_t n) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i both = _mm256_packus_epi32(to_bfloat16(tile + i), to_bfloat16(tile + i + 8));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 2 * i),
                        _mm256_permute4x64_epi64(both, 0xd8));
  }
  for (; i < n; i++) {
    const BFloat16 h = narrow_bfloat16(tile[i]);
    memcpy(p + 2 * i, &h, sizeof h);
  }
}
constexpr bool bfloat16_instructions = true;
#else
inline void to_bfloat16(char*, const float*, int64_t) {}
constexpr bool bfloat16_instructions = false;
#endif

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
