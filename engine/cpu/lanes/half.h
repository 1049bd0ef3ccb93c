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
#if defined(TYCHO_LEVEL_v4)
#pragma GCC unroll 4
  for (; i + 16 <= n; i += 16) {
    const __m256i h = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 2 * i));
    _mm512_storeu_ps(tile + i, _mm512_maskz_cvtph_ps(-1, h));
  }
#endif
#pragma GCC unroll 4
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
#if defined(TYCHO_LEVEL_v4)
  for (; i + 16 <= n; i += 16) {
    const __m256i h =
        _mm512_maskz_cvtps_ph(-1, _mm512_loadu_ps(tile + i), _MM_FROUND_TO_NEAREST_INT);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + 2 * i), h);
  }
#endif
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

#if defined(TYCHO_LEVEL_v4) || defined(TYCHO_LEVEL_v3)
#if defined(TYCHO_LEVEL_v4)
TYCHO_INLINE __m512i to_bfloat16(const float* p) {  // in the high halves
  const __m512 x = _mm512_loadu_ps(p);
  const __m512i b = _mm512_castps_si512(x);
  const __m512i odd = _mm512_and_si512(_mm512_maskz_srli_epi32(-1, b, 16), _mm512_set1_epi32(1));
  const __m512i up = _mm512_add_epi32(_mm512_add_epi32(b, odd), _mm512_set1_epi32(0x7fff));
  return _mm512_mask_or_epi32(up, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), b,
                              _mm512_set1_epi32(0x400000));
}
#else
TYCHO_INLINE __m256i rounded_up(__m256i b) {  // of what is no nan, in the low halves
  const __m256i odd = _mm256_srli_epi32(_mm256_slli_epi32(b, 15), 31);
  return _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(b, _mm256_set1_epi32(0x7fff)), odd),
                           16);
}
// Of 32 floats, and whether all are done: not where one is nan.
TYCHO_INLINE bool to_bfloat16(char* p, const float* x) {
  const __m256 a = _mm256_loadu_ps(x), b = _mm256_loadu_ps(x + 8), c = _mm256_loadu_ps(x + 16),
               d = _mm256_loadu_ps(x + 24);
  const auto put = [&](int64_t at, __m256 low, __m256 high) __attribute__((always_inline)) {
    const __m256i both = _mm256_packus_epi32(rounded_up(_mm256_castps_si256(low)),
                                             rounded_up(_mm256_castps_si256(high)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p + at), _mm256_permute4x64_epi64(both, 0xd8));
  };
  put(0, a, b), put(32, c, d);
  return !_mm256_movemask_ps(
      _mm256_or_ps(_mm256_cmp_ps(a, b, _CMP_UNORD_Q), _mm256_cmp_ps(c, d, _CMP_UNORD_Q)));
}
#endif
inline void to_bfloat16(char* p, const float* __restrict tile, int64_t n) {
  int64_t i = 0;
#if defined(TYCHO_LEVEL_v4)
  alignas(64) static constexpr uint16_t kHigh[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                                     23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                                     45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  const __m512i high = _mm512_load_si512(kHigh);
  for (; i + 32 <= n; i += 32)
    _mm512_storeu_si512(p + 2 * i, _mm512_permutex2var_epi16(to_bfloat16(tile + i), high,
                                                             to_bfloat16(tile + i + 16)));
#else
  for (; i + 32 <= n; i += 32)
    if (!to_bfloat16(p + 2 * i, tile + i))
      for (int64_t j = i; j < i + 32; j++) {
        const BFloat16 h = narrow_bfloat16(tile[j]);
        memcpy(p + 2 * j, &h, sizeof h);
      }
#endif
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

// to_odd of many.
[[gnu::noinline, gnu::noclone]] inline void to_odd(float* __restrict out,
                                                   const double* __restrict x, int64_t n) {
  int64_t i = 0;
#if defined(TYCHO_LEVEL_v4)
  for (; i + 8 <= n; i += 8) {
    const __m512d d = _mm512_loadu_pd(x + i);
    const __m256 f = _mm512_maskz_cvt_roundpd_ps(-1, d, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    const __mmask8 inexact = _mm512_cmp_pd_mask(_mm512_maskz_cvtps_pd(-1, f), d, _CMP_NEQ_UQ);
    const __m256i b = _mm256_castps_si256(f);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                        _mm256_mask_or_epi32(b, inexact, b, _mm256_set1_epi32(1)));
  }
#elif defined(TYCHO_LEVEL_v3)
  // A float's last bit, in a double, with the bits below it in its place where they are not 0. What is
  // subnormal as a float has fewer bits.
  const __m256i below = _mm256_set1_epi64x((1 << 29) - 1),
                rest = _mm256_set1_epi64x(~((1 << 29) - 1));
  const auto some = [&](int64_t at) __attribute__((always_inline)) {
    const __m256i b = _mm256_castpd_si256(_mm256_loadu_pd(x + at));
    const __m256i carry = _mm256_add_epi64(_mm256_and_si256(b, below), below);
    return _mm256_cvtpd_ps(_mm256_castsi256_pd(_mm256_and_si256(_mm256_or_si256(b, carry), rest)));
  };
  const __m256 size = _mm256_castsi256_ps(_mm256_set1_epi32(INT32_MAX)),
               least = _mm256_set1_ps(0x1p-126f), zero = _mm256_setzero_ps();
  for (; i + 8 <= n; i += 8) {
    const __m256 f = _mm256_set_m128(some(i + 4), some(i));
    _mm256_storeu_ps(out + i, f);
    const __m256 subnormal = _mm256_and_ps(_mm256_cmp_ps(_mm256_and_ps(f, size), least, _CMP_LE_OQ),
                                           _mm256_cmp_ps(f, zero, _CMP_NEQ_UQ));
    if (_mm256_movemask_ps(subnormal))
      for (int64_t j = i; j < i + 8; j++) out[j] = to_odd(x[j]);
  }
#endif
  for (; i < n; i++) out[i] = to_odd(x[i]);
}

// As many doubles as whole vectors hold, rounded by way of floats: that is to round once but where a
// float is half way between two numbers of the shorter format, whose subnormal ones have fewer bits.
// Returns how many.
#if defined(TYCHO_LEVEL_v4) || defined(TYCHO_LEVEL_v3)
template <class S>
inline int64_t doubles_to_short(char* p, const double* x, int64_t n) {
  int64_t i = 0;
  constexpr bool is_half = __is_same(S, Half);
  constexpr int kBelow = is_half ? 0x1fff : 0xffff, kMiddle = is_half ? 0x1000 : 0x8000;
  constexpr int64_t kAtOnce = 32;
  for (; i + kAtOnce <= n; i += kAtOnce) {
    float f[kAtOnce];
    bool twice = false;
#if defined(TYCHO_LEVEL_v4)
    __mmask16 bad = 0;
    for (int64_t j = 0; j < kAtOnce; j += 16) {
      const __m256 low = _mm512_maskz_cvtpd_ps(-1, _mm512_loadu_pd(x + i + j)),
                   high = _mm512_maskz_cvtpd_ps(-1, _mm512_loadu_pd(x + i + j + 8));
      const __m512 v = _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
      const __m512i b = _mm512_castps_si512(v);
      bad |= _mm512_cmpeq_epi32_mask(_mm512_and_si512(b, _mm512_set1_epi32(kBelow)),
                                     _mm512_set1_epi32(kMiddle));
      if constexpr (is_half) {
        const __m512i size = _mm512_and_si512(b, _mm512_set1_epi32(INT32_MAX));
        bad |= _mm512_mask_cmplt_epi32_mask(_mm512_test_epi32_mask(size, size), size,
                                            _mm512_set1_epi32(0x38800000));
      }
      _mm512_storeu_ps(f + j, v);
    }
    twice = bad != 0;
#else
    __m256i bad = _mm256_setzero_si256();
    for (int64_t j = 0; j < kAtOnce; j += 8) {
      const __m256 v = _mm256_set_m128(_mm256_cvtpd_ps(_mm256_loadu_pd(x + i + j + 4)),
                                       _mm256_cvtpd_ps(_mm256_loadu_pd(x + i + j)));
      const __m256i b = _mm256_castps_si256(v);
      bad = _mm256_or_si256(bad, _mm256_cmpeq_epi32(_mm256_and_si256(b, _mm256_set1_epi32(kBelow)),
                                                    _mm256_set1_epi32(kMiddle)));
      if constexpr (is_half) {
        const __m256i size = _mm256_and_si256(b, _mm256_set1_epi32(INT32_MAX));
        const __m256i zero = _mm256_cmpeq_epi32(size, _mm256_setzero_si256());
        bad = _mm256_or_si256(
            bad,
            _mm256_andnot_si256(zero, _mm256_cmpgt_epi32(_mm256_set1_epi32(0x38800000), size)));
      }
      if constexpr (is_half)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 2 * (i + j)),
                         _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
      else
        _mm256_storeu_ps(f + j, v);
    }
    twice = _mm256_movemask_epi8(bad) != 0;
    if (is_half && !twice) continue;
#endif
    if (twice) to_odd(f, x + i, kAtOnce);
    if constexpr (is_half)
      to_half(p + 2 * i, f, kAtOnce);
    else
      to_bfloat16(p + 2 * i, f, kAtOnce);
  }
  return i;
}
#else
template <class S>
inline int64_t doubles_to_short(char*, const double*, int64_t) {
  return 0;
}
#endif

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
