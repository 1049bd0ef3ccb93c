// The arithmetic under the functions: rounding, square root, signs, classes of numbers, minimum and
// maximum, exact sums and products, conversions between float and double lanes.
#pragma once
#include "engine/cpu/lanes/vec.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// The layout of a floating-point type. `shifter` is a number so large that adding it leaves the
// other term, rounded to an integer, in the low bits.
template <class T>
struct Format;
template <>
struct Format<float> {
  static constexpr int mantissa = 23, bias = 127;
  static constexpr uint32_t one = 0x3f800000, sign = 0x80000000, fraction = 0x007fffff;
  static constexpr uint32_t sqrt_half = 0x3f3504f3;
  static constexpr float shifter = 0x1.8p23f, integral = 0x1p23f;  // beyond: only integers
  static constexpr float smallest_normal = 0x1p-126f, epsilon = 0x1p-23f;
};
template <>
struct Format<double> {
  static constexpr int mantissa = 52, bias = 1023;
  static constexpr uint64_t one = 0x3ff0000000000000, sign = 0x8000000000000000;
  static constexpr uint64_t fraction = 0x000fffffffffffff, sqrt_half = 0x3fe6a09e667f3bcd;
  static constexpr double shifter = 0x1.8p52, integral = 0x1p52;
  static constexpr double smallest_normal = 0x1p-1022, epsilon = 0x1p-52;
};
template <class T>
constexpr T infinity = static_cast<T>(__builtin_bit_cast(double, 0x7ff0000000000000));
template <class T>
constexpr T not_a_number = static_cast<T>(__builtin_bit_cast(double, 0x7ff8000000000000));

// c[first] + c[first + step] x + c[first + 2 step] x^2 + ..., by Horner's rule.
template <int first, int step, class T, int n>
TYCHO_INLINE Lane<T> horner(Lane<T> x, const T (&c)[n]) {
  if constexpr (first + step < n) {
    return fma(horner<first + step, step>(x, c), x, Lane<T>(c[first]));
  } else {
    return c[first];
  }
}
// c0 + c1 x + c2 x^2 + ... in two halves, whose chains of products run side by side.
template <class T, class... C>
TYCHO_INLINE Lane<T> poly_halves(Lane<T> x, T c0, C... rest) {
  const T c[] = {c0, rest...};
  Lane<T> z = x * x;
  return fma(horner<1, 2>(z, c), x, horner<0, 2>(z, c));
}
// The same by Horner's rule; the long ones in halves.
template <class T, class... C>
TYCHO_INLINE Lane<T> poly(Lane<T> x, T c0, C... rest) {
  if constexpr (sizeof...(C) < 9) {
    const T c[] = {c0, rest...};
    return horner<0, 1>(x, c);
  } else {
    return poly_halves(x, c0, rest...);
  }
}

// The instructions' own maximum and minimum: when an argument is nan, the second one.
template <class T>
TYCHO_INLINE Lane<T> second_max(Lane<T> a, Lane<T> b) {
#if defined(TYCHO_LEVEL_scalar)
  return a.v > b.v ? a : b;
#else
  using V = typename Lane<T>::V;
#if defined(TYCHO_LEVEL_v4)
  if constexpr (sizeof(T) == 4) return (V)_mm512_maskz_max_ps(-1, (__m512)a.v, (__m512)b.v);
  if constexpr (sizeof(T) == 8) return (V)_mm512_maskz_max_pd(-1, (__m512d)a.v, (__m512d)b.v);
#elif defined(TYCHO_LEVEL_v3)
  if constexpr (sizeof(T) == 4) return (V)_mm256_max_ps((__m256)a.v, (__m256)b.v);
  if constexpr (sizeof(T) == 8) return (V)_mm256_max_pd((__m256d)a.v, (__m256d)b.v);
#else
  if constexpr (sizeof(T) == 4) return (V)_mm_max_ps((__m128)a.v, (__m128)b.v);
  if constexpr (sizeof(T) == 8) return (V)_mm_max_pd((__m128d)a.v, (__m128d)b.v);
#endif
#endif
}
template <class T>
TYCHO_INLINE Lane<T> second_min(Lane<T> a, Lane<T> b) {
#if defined(TYCHO_LEVEL_scalar)
  return a.v < b.v ? a : b;
#else
  using V = typename Lane<T>::V;
#if defined(TYCHO_LEVEL_v4)
  if constexpr (sizeof(T) == 4) return (V)_mm512_maskz_min_ps(-1, (__m512)a.v, (__m512)b.v);
  if constexpr (sizeof(T) == 8) return (V)_mm512_maskz_min_pd(-1, (__m512d)a.v, (__m512d)b.v);
#elif defined(TYCHO_LEVEL_v3)
  if constexpr (sizeof(T) == 4) return (V)_mm256_min_ps((__m256)a.v, (__m256)b.v);
  if constexpr (sizeof(T) == 8) return (V)_mm256_min_pd((__m256d)a.v, (__m256d)b.v);
#else
  if constexpr (sizeof(T) == 4) return (V)_mm_min_ps((__m128)a.v, (__m128)b.v);
  if constexpr (sizeof(T) == 8) return (V)_mm_min_pd((__m128d)a.v, (__m128d)b.v);
#endif
#endif
}
template <class T>
TYCHO_INLINE Lane<T> clamp_keeping_nan(Lane<T> x, T low, T high) {
  return second_min(Lane<T>(high), second_max(Lane<T>(low), x));
}

template <class T>
TYCHO_INLINE Lane<T> abs_float(Lane<T> x) {
  return from_bits<T>(bits_of(x) & ~Format<T>::sign);
}
template <class T>
TYCHO_INLINE typename Raw<T>::Bits sign_bits(Lane<T> x) {
  return bits_of(x) & Format<T>::sign;
}
template <class T>
TYCHO_INLINE Lane<T> with_sign(Lane<T> x, Lane<T> s) {
  return from_bits<T>((bits_of(x) & ~Format<T>::sign) | sign_bits(s));
}
template <class T>
TYCHO_INLINE Lane<T> flip_sign(Lane<T> x, Lane<T> s) {
  return from_bits<T>(bits_of(x) ^ sign_bits(s));
}

// Rounding to an integer. Mode as in the instruction: 0 even, 1 down, 2 up, 3 toward zero.
template <int mode, class T>
TYCHO_INLINE Lane<T> rounded(Lane<T> x) {
  using V [[maybe_unused]] = typename Lane<T>::V;
#if defined(TYCHO_LEVEL_scalar)
  return rounded1<mode>(x.v);
#elif defined(TYCHO_LEVEL_v4)
  if constexpr (sizeof(T) == 4) return (V)_mm512_maskz_roundscale_ps(-1, (__m512)x.v, mode | 8);
  if constexpr (sizeof(T) == 8) return (V)_mm512_maskz_roundscale_pd(-1, (__m512d)x.v, mode | 8);
#elif defined(TYCHO_LEVEL_v3)
  if constexpr (sizeof(T) == 4) return (V)_mm256_round_ps((__m256)x.v, mode | 8);
  if constexpr (sizeof(T) == 8) return (V)_mm256_round_pd((__m256d)x.v, mode | 8);
#else
  using L = Lane<T>;
  L a = abs_float(x), r = (a + Format<T>::integral) - Format<T>::integral;
  if constexpr (mode == 3) r = r - number(r > a);
  r = with_sign(r, x);
  if constexpr (mode == 1) r = r - number(r > x);
  if constexpr (mode == 2) r = with_sign(r + number(r < x), x);
  return select(a < Format<T>::integral, r, x);
#endif
}
#if defined(TYCHO_LEVEL_v4)
// The square root of doubles, correctly rounded, in half the time that the divider takes: Newton's
// steps from an estimate of 14 bits, for the root g and half its inverse h together, then what is
// left of x - g^2. That last sum is off by less than 2^-50 of its last place, and the roots that
// lie so near to the middle of two doubles are few and known (their squares are small residues), so
// that they could all be tried. Zeros, subnormals, infinities and negative numbers take the
// divider.
TYCHO_INLINE __m512d double_root(__m512d x) {
  const __m512d low = _mm512_set1_pd(0x1p-900), high = _mm512_set1_pd(0x1p900);
  const __mmask8 easy =
      _mm512_mask_cmp_pd_mask(_mm512_cmp_pd_mask(x, low, _CMP_GE_OQ), x, high, _CMP_LE_OQ);
  if (__builtin_expect(easy != 0xff, 0)) return _mm512_maskz_sqrt_pd(0xff, x);
  const __m512d half = _mm512_set1_pd(0.5), y = _mm512_maskz_rsqrt14_pd(0xff, x);
  __m512d g = _mm512_mul_pd(x, y), h = _mm512_mul_pd(half, y);
  __m512d r = _mm512_fnmadd_pd(g, h, half);
  g = _mm512_fmadd_pd(g, r, g);
  h = _mm512_fmadd_pd(h, r, h);
  r = _mm512_fnmadd_pd(g, h, half);
  g = _mm512_fmadd_pd(g, r, g);
  h = _mm512_fmadd_pd(h, r, h);
  return _mm512_fmadd_pd(_mm512_fnmadd_pd(g, g, x), h, g);
}

// The same of floats, where one step will do (tried for every significand, and any estimate). `h`
// is about half the root's inverse. False where some number takes the divider.
struct FloatRoot {
  __m512 g, h;
};
TYCHO_INLINE bool float_root(__m512 x, FloatRoot* root) {
  const __m512 low = _mm512_set1_ps(0x1p-70f), high = _mm512_set1_ps(__FLT_MAX__);
  const __mmask16 easy =
      _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(x, low, _CMP_GE_OQ), x, high, _CMP_LE_OQ);
  if (__builtin_expect(easy != 0xffff, 0)) return false;
  const __m512 half = _mm512_set1_ps(0.5f), y = _mm512_maskz_rsqrt14_ps(-1, x);
  __m512 g = _mm512_mul_ps(x, y), h = _mm512_mul_ps(half, y);
  const __m512 r = _mm512_fnmadd_ps(g, h, half);
  g = _mm512_fmadd_ps(g, r, g);
  h = _mm512_fmadd_ps(h, r, h);
  *root = {_mm512_fmadd_ps(_mm512_fnmadd_ps(g, g, x), h, g), h};
  return true;
}
#endif
template <class T>
TYCHO_INLINE Lane<T> square_root(Lane<T> x) {
  using V [[maybe_unused]] = typename Lane<T>::V;
#if defined(TYCHO_LEVEL_scalar)
  return square_root1(x.v);
#elif defined(TYCHO_LEVEL_v4)
  if constexpr (sizeof(T) == 4) {
    FloatRoot root;
    if (float_root((__m512)x.v, &root)) return (V)root.g;
    return (V)_mm512_maskz_sqrt_ps(-1, (__m512)x.v);
  }
  if constexpr (sizeof(T) == 8) return (V)double_root((__m512d)x.v);
#elif defined(TYCHO_LEVEL_v3)
  if constexpr (sizeof(T) == 4) return (V)_mm256_sqrt_ps((__m256)x.v);
  if constexpr (sizeof(T) == 8) return (V)_mm256_sqrt_pd((__m256d)x.v);
#else
  if constexpr (sizeof(T) == 4) return (V)_mm_sqrt_ps((__m128)x.v);
  if constexpr (sizeof(T) == 8) return (V)_mm_sqrt_pd((__m128d)x.v);
#endif
}

// The two halves of a float lane as double lanes, and back (rounded).
struct Halves {
  F64 low, high;
};
TYCHO_INLINE Halves halves(F32 x) {
#if defined(TYCHO_LEVEL_scalar)
  return {static_cast<double>(x.v), 0};  // nothing is done with the second one
#elif defined(TYCHO_LEVEL_v4)
  __m256 high = _mm512_maskz_extractf32x8_ps(-1, (__m512)x.v, 1);
  return {(F64::V)_mm512_maskz_cvtps_pd(-1, _mm512_maskz_extractf32x8_ps(-1, (__m512)x.v, 0)),
          (F64::V)_mm512_maskz_cvtps_pd(-1, high)};
#elif defined(TYCHO_LEVEL_v3)
  return {(F64::V)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x.v)),
          (F64::V)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x.v, 1))};
#else
  __m128 v = (__m128)x.v;
  return {(F64::V)_mm_cvtps_pd(v), (F64::V)_mm_cvtps_pd(_mm_movehl_ps(v, v))};
#endif
}
TYCHO_INLINE F32 join(F64 low, [[maybe_unused]] F64 high) {
#if defined(TYCHO_LEVEL_scalar)
  return static_cast<float>(low.v);
#elif defined(TYCHO_LEVEL_v4)
  __m512 l = _mm512_castps256_ps512(_mm512_maskz_cvtpd_ps(-1, (__m512d)low.v));
  return (F32::V)_mm512_insertf32x8(l, _mm512_maskz_cvtpd_ps(-1, (__m512d)high.v), 1);
#elif defined(TYCHO_LEVEL_v3)
  return (F32::V)_mm256_set_m128(_mm256_cvtpd_ps((__m256d)high.v), _mm256_cvtpd_ps((__m256d)low.v));
#else
  return (F32::V)_mm_movelh_ps(_mm_cvtpd_ps((__m128d)low.v), _mm_cvtpd_ps((__m128d)high.v));
#endif
}

// A value and what it lacks: value + rest is the exact result, or close to it.
template <class T>
struct Pair {
  Lane<T> value, rest;
};
// Exact when |a| >= |b| or a == 0.
template <class T>
TYCHO_INLINE Pair<T> exact_sum(Lane<T> a, Lane<T> b) {
  Lane<T> s = a + b;
  return {s, b - (s - a)};
}
template <class T>
TYCHO_INLINE Pair<T> exact_product(Lane<T> a, Lane<T> b) {
  Lane<T> p = a * b;
#if defined(TYCHO_FUSED)
  return {p, fma(a, b, -p)};
#else
  // Dekker: halves of half the bits multiply exactly.
  constexpr T kSplit = sizeof(T) == 4 ? T(0x1.001p12) : T(0x1.0000002p27);
  Lane<T> ca = a * kSplit, cb = b * kSplit;
  Lane<T> ah = ca - (ca - a), bh = cb - (cb - b), al = a - ah, bl = b - bh;
  return {p, ((ah * bh - p) + ah * bl + al * bh) + al * bl};
#endif
}

#if defined(TYCHO_LEVEL_v4)
// 1 / x to the bit from an estimate of 14 bits: the first of Newton's last two steps rounds
// upwards, so that the second finds the nearest number also for the x below a power of two (checked
// for every significand and any estimate; P. Markstein, "IA-64 and Elementary Functions", 2000, for
// why others come out right).
TYCHO_INLINE F32 refined_inverse(F32 x, F32 y) {
  const F32 rest = fma(-x, y, F32(1));
  y = (F32::V)_mm512_fmadd_round_ps((__m512)y.v, (__m512)rest.v, (__m512)y.v,
                                    _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
  return fma(y, fma(-x, y, F32(1)), y);
}
#endif

// 1 / x where x and 1 / x are normal numbers. Of floats on AVX-512, quicker than the divider by
// itself; beside other work, that is busy while the others go on.
template <class T>
TYCHO_INLINE Lane<T> quick_inverse(Lane<T> x) {
#if defined(TYCHO_LEVEL_v4)  // of doubles, the divider is as quick
  if constexpr (sizeof(T) == 4)
    return refined_inverse(x, (typename Lane<T>::V)_mm512_maskz_rcp14_ps(-1, (__m512)x.v));
#endif
  return 1 / x;
}

// a / b with about half an ulp of error, where the quotient stays clear of under- and overflow
// by some powers of two; on the baseline, an ordinary quotient of the values.
template <class T>
TYCHO_INLINE Lane<T> quotient(Lane<T> a, Pair<T> b, [[maybe_unused]] Lane<T> inverse) {
#if defined(TYCHO_FUSED)
  Lane<T> q = a * inverse;
  return fma(fma(-q, b.rest, fma(-q, b.value, a)), inverse, q);
#else
  return a / b.value;
#endif
}
template <class T>
TYCHO_INLINE Lane<T> quotient(Lane<T> a, Pair<T> b) {
  return quotient(a, b, quick_inverse(b.value));
}
template <class T>
TYCHO_INLINE Lane<T> quotient(Pair<T> a, Pair<T> b) {
#if defined(TYCHO_FUSED)
  Lane<T> inverse = quick_inverse(b.value), q = a.value * inverse;
  return fma(fma(-q, b.value, a.value) + fma(-q, b.rest, a.rest), inverse, q);
#else
  return (a.value + a.rest) / b.value;
#endif
}

// A function of two float or two double lanes; scalars convert on either side.
#define TYCHO_BINARY(name, ...)         \
  TYCHO_INLINE F32 name(F32 a, F32 b) { \
    using T [[maybe_unused]] = float;   \
    __VA_ARGS__                         \
  }                                     \
  TYCHO_INLINE F64 name(F64 a, F64 b) { \
    using T [[maybe_unused]] = double;  \
    __VA_ARGS__                         \
  }
template <class T>
TYCHO_INLINE Lane<T> abs(Lane<T> x) {
  return abs_float(x);
}
template <class T>
TYCHO_INLINE Lane<T> neg(Lane<T> x) {
  return -x;
}
template <class T>
TYCHO_INLINE Lane<T> square(Lane<T> x) {
  return x * x;
}
template <class T>
TYCHO_INLINE Lane<T> sqrt(Lane<T> x) {
  return square_root(x);
}
template <class T>
TYCHO_INLINE Lane<T> rsqrt(Lane<T> x) {
#if defined(TYCHO_LEVEL_v4)
  FloatRoot root;
  if constexpr (sizeof(T) == 4)
    if (float_root((__m512)x.v, &root))
      return refined_inverse((F32::V)root.g, (F32::V)_mm512_add_ps(root.h, root.h));
#endif
  return 1 / square_root(x);
}
template <class T>
TYCHO_INLINE Lane<T> reciprocal(Lane<T> x) {
  return 1 / x;
}
template <class T>
TYCHO_INLINE Lane<T> round(Lane<T> x) {
  return rounded<0>(x);
}
template <class T>
TYCHO_INLINE Lane<T> floor(Lane<T> x) {
  return rounded<1>(x);
}
template <class T>
TYCHO_INLINE Lane<T> ceil(Lane<T> x) {
  return rounded<2>(x);
}
template <class T>
TYCHO_INLINE Lane<T> trunc(Lane<T> x) {
  return rounded<3>(x);
}
template <class T>
TYCHO_INLINE Lane<T> frac(Lane<T> x) {
  return x - rounded<3>(x);
}
template <class T>
TYCHO_INLINE Lane<T> sign(Lane<T> x) {
  return number(x > 0) - number(x < 0);
}  // nan gives 0, as in PyTorch

template <class T>
TYCHO_INLINE Mask<T> isnan(Lane<T> x) {
  return x != x;
}
template <class T>
TYCHO_INLINE Mask<T> isinf(Lane<T> x) {
  return abs_float(x) == infinity<T>;
}
template <class T>
TYCHO_INLINE Mask<T> isfinite(Lane<T> x) {
  return abs_float(x) < infinity<T>;
}
template <class T>
TYCHO_INLINE Mask<T> isposinf(Lane<T> x) {
  return x == infinity<T>;
}
template <class T>
TYCHO_INLINE Mask<T> isneginf(Lane<T> x) {
  return x == -infinity<T>;
}
template <class T>
TYCHO_INLINE Mask<T> signbit(Lane<T> x) {
  return from_bits<T>(sign_bits(x) | Format<T>::one) < 0;
}

TYCHO_BINARY(copysign, return with_sign(a, b);)
// maximum and minimum return nan when either argument is; fmax and fmin return the other one.
TYCHO_BINARY(maximum, return select(a != a, a, second_max(a, b));)
TYCHO_BINARY(minimum, return select(a != a, a, second_min(a, b));)
// Between two numbers, neither of which is nan; what is equal to one of them, as -0 may be, stays.
template <class T>
TYCHO_INLINE Lane<T> bounded(Lane<T> a, Lane<T> low, Lane<T> high) {
  return second_min(high, second_max(low, a));
}
TYCHO_BINARY(fmax, return select(a != a, b, second_max(b, a));)
TYCHO_BINARY(fmin, return select(a != a, b, second_min(b, a));)

TYCHO_BINARY(heaviside, return select(a == 0, b, number(a > 0));)

// C's remainder with the sign of a. The quotient is exact enough to be off by one at most where
// it is below 2^22 (2^51); the rare rest goes to the library, one element at a time.
template <class T>
TYCHO_INLINE Lane<T> fmod_float(Lane<T> a, Lane<T> b) {
  using L = Lane<T>;
  L y = abs_float(b), x = abs_float(a), q = rounded<3>(x / y), r;
  Mask<T> easy = q < Format<T>::integral * T(0.5);
#if defined(TYCHO_FUSED)
  r = fma(-q, y, x);
#else
  if constexpr (sizeof(T) == 4) {
    Halves hq = halves(q), hx = halves(x), hy = halves(y);
    r = join(hx.low - hq.low * hy.low, hx.high - hq.high * hy.high);
  } else {
    // The split product is exact only while nothing in it over- or underflows.
    easy = easy & (x < 0x1p900) & (y > 0x1p-900) & (y < 0x1p900);
    Pair<T> p = exact_product(q, y);
    r = (x - p.value) - p.rest;
  }
#endif
  r = select(r < 0, r + y, r);
  Mask<T> whole = (y == infinity<T>)&(x < infinity<T>);  // fmod(1, inf) is 1
  r = select(whole, x, r);
  easy = easy | whole;
  if (any(~easy)) {
    L slow = each(x, y, [](T u, T v) -> T {
      if constexpr (sizeof(T) == 4) return TYCHO_C(fmodf)(u, v);
      return TYCHO_C(fmod)(u, v);
    });
    r = select(easy, r, slow);
  }
  return with_sign(r, a);
}
TYCHO_BINARY(fmod, return fmod_float(a, b);)
// Python's: the result has the sign of b.
TYCHO_BINARY(remainder, auto r = fmod_float(a, b);
             return select((r != 0) & ((r < 0) ^ (b < 0)), r + b, r);)
// Python's //, by way of the exact remainder.
TYCHO_BINARY(floor_divide, auto quotient = a / b, r = fmod_float(a, b), d = (a - r) / b;
             d = select((r != 0) & ((b < 0) ^ (r < 0)), d - 1, d); auto f = rounded<1>(d);
             f = select(d - f > 0.5, f + 1, f);
             f = select(d == 0, with_sign(Lane<T>(0), quotient), f);
             return select(b == 0, quotient, f);)

// sqrt(a^2 + b^2) without overflow on the way; infinite also where the other argument is nan.
TYCHO_INLINE F64 hypot_half(F64 a, F64 b) { return square_root(fma(a, a, b * b)); }
TYCHO_INLINE F32 hypot(F32 a, F32 b) {
  Halves x = halves(a), y = halves(b);
  F32 r = join(hypot_half(x.low, y.low), hypot_half(x.high, y.high));
  return select(isinf(a) | isinf(b), infinity<float>, r);
}
TYCHO_INLINE F64 hypot(F64 a, F64 b) {
  F64 large = second_max(abs_float(a), abs_float(b)),
      small = second_min(abs_float(a), abs_float(b));
  Mask<double> high = large > 0x1p500, low = large < 0x1p-450;
  F64 in = select(high, 0x1p-600, select(low, 0x1p600, 1));
  F64 out = select(high, 0x1p600, select(low, 0x1p-600, 1));
  F64 r = hypot_half(large * in, small * in) * out;
  r = select(isnan(a) | isnan(b), not_a_number<double>, r);
  return select(isinf(a) | isinf(b), infinity<double>, r);
}

// The next number after a on the way to b: one step of the bits, which are ordered like numbers.
template <class T>
TYCHO_INLINE Lane<T> next_float(Lane<T> a, Lane<T> b) {
  Lane<T> away = from_bits<T>(bits_of(a) + 1), toward_zero = from_bits<T>(bits_of(a) - 1);
  Lane<T> first = with_sign(from_bits<T>(bits_of(Lane<T>(0)) + 1), b);
  Lane<T> r = select((a < b) ^ (a < 0), away, toward_zero);
  r = select(a == 0, first, r);
  r = select(a == b, b, r);
  return select((a != a) | (b != b), not_a_number<T>, r);
}
TYCHO_BINARY(nextafter, return next_float(a, b);)

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
