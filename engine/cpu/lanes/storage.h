// Lanes to and from memory of several types: float and double as they are, bfloat16 (its bits as
// uint16_t) widened on load and rounded to nearest even on store.
#pragma once
#include "engine/cpu/matmul/level/gemm.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// What numbers that lie in memory as S are computed in.
template <class S>
struct Computed {
  using T = S;
};
template <>
struct Computed<uint16_t> {
  using T = float;
};
template <class S>
using In = typename Computed<S>::T;

template <class T>
TYCHO_INLINE Lane<T> get(const T* p) {
  return Lane<T>::load(p);
}
template <class T>
TYCHO_INLINE void put(Lane<T> x, T* p) {
  x.store(p);
}

TYCHO_INLINE Lane<float> get(const uint16_t* p) {
  using V = typename Raw<float>::V;
#if defined(TYCHO_LEVEL_v4)
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return Lane<float>(
      (V)_mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, bits), 16));
#elif defined(TYCHO_LEVEL_v3)
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return Lane<float>((V)_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
#else
  const __m128i bits = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return Lane<float>((V)_mm_unpacklo_epi16(_mm_setzero_si128(), bits));
#endif
}

#if defined(TYCHO_LEVEL_v4)
TYCHO_INLINE __m256i rounded(Lane<float> x) {
  const __m512i b = (__m512i)x.v, one = _mm512_set1_epi32(1);
  const __m512i odd = _mm512_and_si512(_mm512_maskz_srli_epi32(0xffff, b, 16), one);
  const __m512i up = _mm512_add_epi32(_mm512_add_epi32(b, odd), _mm512_set1_epi32(0x7fff));
  const __mmask16 nan = _mm512_cmp_ps_mask((__m512)x.v, (__m512)x.v, _CMP_UNORD_Q);
  const __m512i quiet = _mm512_or_si512(b, _mm512_set1_epi32(0x400000));
  const __m512i r = _mm512_maskz_srli_epi32(0xffff, _mm512_mask_blend_epi32(nan, up, quiet), 16);
  return _mm512_maskz_cvtepi32_epi16(0xffff, r);
}
#elif defined(TYCHO_LEVEL_v3)
TYCHO_INLINE __m128i rounded(Lane<float> x) {
  const __m256i b = (__m256i)x.v, one = _mm256_set1_epi32(1);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(b, 16), one);
  const __m256i up = _mm256_add_epi32(_mm256_add_epi32(b, odd), _mm256_set1_epi32(0x7fff));
  const __m256i quiet = _mm256_or_si256(b, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps((__m256)x.v, (__m256)x.v, _CMP_UNORD_Q));
  const __m256i r = _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, nan), 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(r), _mm256_extracti128_si256(r, 1));
}
// The first n of eight elements, zeros behind them: from two pieces that reach to either end.
TYCHO_INLINE __m128i some16(const uint16_t* p, int64_t n) {
  const auto piece = [&](auto zero, int64_t at) __attribute__((always_inline)) {
    memcpy(&zero, p + at, sizeof zero);
    return static_cast<uint64_t>(zero);
  };
  uint64_t low = 0, high = 0;
  if (n >= 4) {
    low = piece(uint64_t{}, 0);
    if (n > 4) high = piece(uint64_t{}, n - 4) >> (16 * (8 - n));
  } else if (n >= 2) {
    low = piece(uint32_t{}, 0);
    if (n == 3) low |= piece(uint16_t{}, 2) << 32;
  } else if (n == 1) {
    low = piece(uint16_t{}, 0);
  }
  return _mm_set_epi64x(static_cast<int64_t>(high), static_cast<int64_t>(low));
}
#endif

TYCHO_INLINE void put(Lane<float> x, uint16_t* p) {
#if defined(TYCHO_LEVEL_v4)
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), rounded(x));
#elif defined(TYCHO_LEVEL_v3)
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), rounded(x));
#else
  float scratch[Lane<float>::size];
  x.store(scratch);
  for (int k = 0; k < Lane<float>::size; ++k) {
    const uint32_t b = __builtin_bit_cast(uint32_t, scratch[k]);
    const uint32_t up = (b + 0x7fffu + ((b >> 16) & 1)) >> 16;
    p[k] = static_cast<uint16_t>((b & 0x7fffffffu) > 0x7f800000u ? (b >> 16) | 0x40u : up);
  }
#endif
}

// The first n elements of a lane; `pad` (as it lies in memory) stands for the rest.
template <class S>
TYCHO_INLINE Lane<In<S>> get_some(const S* p, int64_t n, S pad) {
  constexpr int size = Lane<In<S>>::size;
#if defined(TYCHO_LEVEL_v4)
  if constexpr (sizeof(S) == 2) {
    const __m256i bits = _mm256_mask_loadu_epi16(_mm256_set1_epi16(static_cast<short>(pad)),
                                                 static_cast<__mmask16>((1u << n) - 1), p);
    using V = typename Raw<float>::V;
    return Lane<float>(
        (V)_mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, bits), 16));
  }
#elif defined(TYCHO_LEVEL_v3)
  if constexpr (sizeof(S) == 2) {
    using V = typename Raw<float>::V;
    const __m256i bits = _mm256_cvtepu16_epi32(some16(p, n));
    const Lane<float> x((V)_mm256_slli_epi32(bits, 16));
    return pad == 0 ? x
                    : select(first<float>(static_cast<int>(n)), x,
                             from_bits<float>(Raw<float>::Bits{} + (uint32_t{pad} << 16)));
  }
#endif
  if constexpr (sizeof(S) >= 4) return load_part(p, static_cast<int>(n), pad);
  S scratch[size];
  for (int k = 0; k < size; ++k) scratch[k] = k < n ? p[k] : pad;
  return get(static_cast<const S*>(scratch));
}
template <class S>
TYCHO_INLINE void put_some(Lane<In<S>> x, S* p, int64_t n) {
#if defined(TYCHO_LEVEL_v4)
  if constexpr (sizeof(S) == 2)
    return _mm256_mask_storeu_epi16(p, static_cast<__mmask16>((1u << n) - 1), rounded(x));
#endif
  if constexpr (sizeof(S) >= 4) return store_part(x, p, static_cast<int>(n));
  S scratch[Lane<In<S>>::size];
  put(x, static_cast<S*>(scratch));
  for (int k = 0; k < n; ++k) p[k] = scratch[k];
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
