// Lane functions that only rows use: integer and truth-valued forms of what the other headers have
// for floats, activations, and partial loads and stores for the end of a row.
#pragma once
#include "engine/cpu/lanes/math.h"
#include "engine/cpu/lanes/math_slopes.h"
#if !defined(TYCHO_LEVEL_scalar)
#include "engine/cpu/lanes/parts.h"
#endif

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

constexpr double kPi = 3.14159265358979323846, kSqrtHalf = 0.70710678118654752440;

TYCHO_INLINE I64 floor(I64 x) { return x; }
TYCHO_INLINE I64 ceil(I64 x) { return x; }
TYCHO_INLINE I64 round(I64 x) { return x; }
TYCHO_INLINE I64 trunc(I64 x) { return x; }
TYCHO_INLINE Mask<int64_t> isnan(I64 x) { return x != x; }
TYCHO_INLINE Mask<int64_t> isinf(I64 x) { return x != x; }
TYCHO_INLINE Mask<int64_t> isposinf(I64 x) { return x != x; }
TYCHO_INLINE Mask<int64_t> isneginf(I64 x) { return x != x; }
TYCHO_INLINE Mask<int64_t> isfinite(I64 x) { return x == x; }
TYCHO_INLINE Mask<int64_t> signbit(I64 x) { return x < 0; }
TYCHO_INLINE I64 fmax(I64 a, I64 b) { return maximum(a, b); }
TYCHO_INLINE I64 fmin(I64 a, I64 b) { return minimum(a, b); }
TYCHO_INLINE I64 fma(I64 a, I64 b, I64 c) { return a * b + c; }
TYCHO_INLINE I64 heaviside(I64 a, I64 b) { return select(a == 0, b, number(a > 0)); }
TYCHO_INLINE F32 trunc_divide(F32 a, F32 b) { return trunc(a / b); }
TYCHO_INLINE F64 trunc_divide(F64 a, F64 b) { return trunc(a / b); }

// x * tanh(log(1 + exp(x))), by way of n / (n + 2) with n = exp(x) * (exp(x) + 2).
template <class L>
TYCHO_INLINE L mish(L x) {
  L e = exp(minimum(x, L(20)));
  L n = e * (e + 2);
  return select(x > 20, x, x * (n / (n + 2)));
}
// log(1 + exp(x)) for x at most about 20, in the other branch x itself.
template <class L>
TYCHO_INLINE L softplus(L x, L beta, L threshold) {
  L z = x * beta;
  return select(z > threshold, x, log1p(exp(minimum(z, threshold))) / beta);
}
// The part of the normal distribution beyond a in [0, 10], to 2^-24 absolutely: 2^Q(a), made as tanh's power is. From
// 10 on, below 2^-127, it is 0.
TYCHO_INLINE F32 normal_beyond(F32 a) {
  using F = Format<float>;
  F32 q = poly_halves(a, -1.f, -1.15110576f, -0.459204912f, -0.0525050275f, 0.00707547087f,
                      -0.000145869388f, -0.000182547898f, 3.86208085e-5f, -2.77205435e-6f);
  q = second_max(F32(-127), q);
  F32 shifted = q + F::shifter, f = q - (shifted - F::shifter);
  F32 power = poly_halves(f, 1.f, 0.693147182f, 0.240226462f, 0.0555032864f, 0.00961848908f,
                          0.00133999309f, 0.000153458117f);
  return from_bits<float>(bits_of(power) + (bits_of(shifted) << F::mantissa));
}
// The distribution function of the normal distribution. Of floats, a nan may come out as any number.
TYCHO_INLINE F32 normal_cdf(F32 x) {
  F32 beyond = normal_beyond(second_min(F32(10), abs_float(x)));
  return select(x < 0, beyond, 1 - beyond);
}
TYCHO_INLINE F64 normal_cdf(F64 x) { return 0.5 * (1 + erf(x * kSqrtHalf)); }
// x times that.
TYCHO_INLINE F32 gelu_erf(F32 x) {
  F32 a = second_min(F32(10), abs_float(x));
  return fma(-a, normal_beyond(a), second_max(x, F32(0)));
}
TYCHO_INLINE F64 gelu_erf(F64 x) { return x * normal_cdf(x); }

// The derivative of gelu_tanh at x, times g. With s = (1 + tanh(w)) / 2 = 1 / (1 + e^-2w), which
// is one exponential: s + x s' and s' = 2 s (1 - s) w'.
template <class L>
TYCHO_INLINE L gelu_tanh_slope(L g, L x) {
  L s = 1 / (1 + exp(-1.59576912160573072 * fma(x * x * x, 0.044715, x)));
  L u = 1.59576912160573072 * fma(x * x, 0.134145, 1);
  return g * fma(x * (s * (1 - s)), u, s);
}

template <class T>
TYCHO_INLINE T first_of(Lane<T> x) {
#if defined(TYCHO_LEVEL_scalar)
  return x.v;
#else
  return x.v[0];
#endif
}

#if !defined(TYCHO_LEVEL_scalar)
// The first `n` elements, at least one and fewer than a lane; the others read as 0.
template <class T>
TYCHO_INLINE Lane<T> load_some(const T* p, int64_t n) {
#if defined(TYCHO_LEVEL_v3) || defined(TYCHO_LEVEL_v4)
  return load_part(p, static_cast<int>(n));
#else
  Lane<T> r = 0;
  memcpy(&r.v, p, static_cast<size_t>(n) * sizeof(T));
  return r;
#endif
}
template <class T>
TYCHO_INLINE void store_some(T* p, Lane<T> x, int64_t n) {
#if defined(TYCHO_LEVEL_v3) || defined(TYCHO_LEVEL_v4)
  store_part(x, p, static_cast<int>(n));
#else
  memcpy(p, &x.v, static_cast<size_t>(n) * sizeof(T));
#endif
}
// Truth values as bytes 0 and 1: one per element.
template <class T>
TYCHO_INLINE void store_truth(uint8_t* p, Mask<T> m, int64_t n) {
  constexpr int size = Lane<T>::size;
#if defined(TYCHO_LEVEL_v4)
  const __m128i bytes = _mm_maskz_set1_epi8(m.m, 1);
  if (n >= size) {
    if constexpr (size == 16)
      _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
    else
      _mm_storel_epi64(reinterpret_cast<__m128i*>(p), bytes);
  } else {
    _mm_mask_storeu_epi8(p, static_cast<__mmask16>((1u << n) - 1), bytes);
  }
#else
#if defined(TYCHO_LEVEL_v3)
  const __m128i low = _mm256_castsi256_si128((__m256i)m.m),
                high = _mm256_extracti128_si256((__m256i)m.m, 1);
#else
  const __m128i low = (__m128i)m.m, high = low;
#endif
  __m128i words = low;  // of 32 bits, those of the lane first
  if constexpr (sizeof(T) == 8)
    words = _mm_castps_si128(_mm_shuffle_ps(_mm_castsi128_ps(low), _mm_castsi128_ps(high), 0x88));
  const __m128i shorts = _mm_packs_epi32(words, sizeof(T) == 8 ? words : high);
  const __m128i bytes = _mm_and_si128(_mm_packs_epi16(shorts, shorts), _mm_set1_epi8(1));
  const int64_t first = _mm_cvtsi128_si64(bytes);
  if (n >= size)
    memcpy(p, &first, size);
  else
    memcpy(p, &first, static_cast<size_t>(n));
#endif
}
#endif

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
