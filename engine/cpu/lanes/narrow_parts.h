// Elements of one and two bytes in parts of a register: divided as floats, and shifted by counts of their
// own, which AVX2 can do only for four bytes; and truths of wider elements as bytes. As in narrow.h, a
// count outside the width moves everything out.
#pragma once
#include "engine/cpu/lanes/vec.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

#if defined(TYCHO_LEVEL_v3) || defined(TYCHO_LEVEL_v4)
// As many as a register has floats, from part k of a lane on, as int32.
template <class T>
TYCHO_INLINE Raw<float>::Ints part_of(const T* lane, int k) {
  constexpr bool is_signed = T(-1) < T(0);
#if defined(TYCHO_LEVEL_v4)
  const char* p = reinterpret_cast<const char*>(lane + 16 * k);
  if constexpr (sizeof(T) == 2)
    return (Raw<float>::Ints)_mm512_maskz_cvtepi16_epi32(
        -1, _mm256_load_si256(reinterpret_cast<const __m256i*>(p)));
  const __m128i x = _mm_load_si128(reinterpret_cast<const __m128i*>(p));
  return (Raw<float>::Ints)(is_signed ? _mm512_maskz_cvtepi8_epi32(-1, x)
                                      : _mm512_maskz_cvtepu8_epi32(-1, x));
#else
  const char* p = reinterpret_cast<const char*>(lane + 8 * k);
  if constexpr (sizeof(T) == 2)
    return (Raw<float>::Ints)_mm256_cvtepi16_epi32(
        _mm_load_si128(reinterpret_cast<const __m128i*>(p)));
  const __m128i x = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return (Raw<float>::Ints)(is_signed ? _mm256_cvtepi8_epi32(x) : _mm256_cvtepu8_epi32(x));
#endif
}
// The lowest bits of all parts.
template <class T>
TYCHO_INLINE void join_parts(T* lane, const Raw<float>::Ints* part) {
  constexpr int parts = 4 / static_cast<int>(sizeof(T));
#if defined(TYCHO_LEVEL_v4)
  for (int k = 0; k < parts; k++)
    if constexpr (sizeof(T) == 2)
      _mm256_store_si256(reinterpret_cast<__m256i*>(lane + 16 * k),
                         _mm512_maskz_cvtepi32_epi16(-1, (__m512i)part[k]));
    else
      _mm_store_si128(reinterpret_cast<__m128i*>(lane + 16 * k),
                      _mm512_maskz_cvtepi32_epi8(-1, (__m512i)part[k]));
#else
  const __m256i low = _mm256_set1_epi32(sizeof(T) == 1 ? 0xff : 0xffff);
  __m256i x[parts];
  for (int k = 0; k < parts; k++) x[k] = _mm256_and_si256((__m256i)part[k], low);
  __m256i all = _mm256_packus_epi32(x[0], x[1]);
  if constexpr (sizeof(T) == 1)
    all = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(all, _mm256_packus_epi32(x[2], x[3])),
                                      _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  else
    all = _mm256_permute4x64_epi64(all, 0xd8);
  _mm256_store_si256(reinterpret_cast<__m256i*>(lane), all);
#endif
}
#endif

#if defined(TYCHO_LEVEL_v3)
// Elements of two or four bytes that are 0 or -1 as bytes 0 and 1, those of four in the lower half.
template <int size>
TYCHO_INLINE __m128i truth_bytes(__m256i m) {
  const __m128i low = _mm256_castsi256_si128(m), high = _mm256_extracti128_si256(m, 1);
  const __m128i shorts = size == 4 ? _mm_packs_epi32(low, high) : low;
  return _mm_and_si128(_mm_packs_epi16(shorts, size == 4 ? shorts : high), _mm_set1_epi8(1));
}

// Powers of two that a byte is multiplied by, by its count; 15 and more stand for all counts outside.
TYCHO_INLINE __m256i powers_at(__m256i counts, __m128i powers) {
  return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(powers),
                             _mm256_min_epu8(counts, _mm256_set1_epi8(15)));
}

template <class T>
TYCHO_INLINE __m256i shifted_left(__m256i a, __m256i n) {
  const __m256i even = _mm256_set1_epi32(0xffff), odd = _mm256_set1_epi16(-256);
  if constexpr (sizeof(T) == 1) {
    const __m256i by =
        powers_at(n, _mm_setr_epi8(1, 2, 4, 8, 16, 32, 64, -128, 0, 0, 0, 0, 0, 0, 0, 0));
    const __m256i low = _mm256_mullo_epi16(a, by),
                  high = _mm256_mullo_epi16(_mm256_and_si256(a, odd), _mm256_srli_epi16(by, 8));
    return _mm256_or_si256(_mm256_andnot_si256(odd, low), high);
  } else {
    const __m256i low = _mm256_sllv_epi32(a, _mm256_and_si256(n, even)),
                  high = _mm256_sllv_epi32(_mm256_andnot_si256(even, a), _mm256_srli_epi32(n, 16));
    return _mm256_blend_epi16(low, high, 0xaa);
  }
}

template <class T>
TYCHO_INLINE __m256i shifted_right(__m256i a, __m256i n) {
  constexpr bool is_signed = T(-1) < T(0);
  if constexpr (sizeof(T) == 1) {
    // a * 2^(7 - n) / 2^7; what moves everything out leaves the sign.
    constexpr char out = is_signed ? 1 : 0;
    const __m256i by = powers_at(
        n, _mm_setr_epi8(-128, 64, 32, 16, 8, 4, 2, 1, out, out, out, out, out, out, out, out));
    const __m256i left = _mm256_slli_epi16(a, 8),
                  low = is_signed ? _mm256_srai_epi16(left, 8) : _mm256_srli_epi16(left, 8),
                  high = is_signed ? _mm256_srai_epi16(a, 8) : _mm256_srli_epi16(a, 8),
                  byte = _mm256_set1_epi16(255);
    const __m256i x = _mm256_mullo_epi16(low, _mm256_and_si256(by, byte)),
                  y = _mm256_mullo_epi16(high, _mm256_srli_epi16(by, 8));
    return _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(x, 7), byte),
                           _mm256_slli_epi16(_mm256_srli_epi16(y, 7), 8));
  } else {
    static_assert(is_signed);
    const __m256i sign = _mm256_srai_epi32(_mm256_slli_epi32(a, 16), 16),
                  low = _mm256_srav_epi32(sign, _mm256_and_si256(n, _mm256_set1_epi32(0xffff))),
                  high = _mm256_srav_epi32(a, _mm256_srli_epi32(n, 16));
    return _mm256_blend_epi16(low, high, 0xaa);
  }
}
#endif

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
