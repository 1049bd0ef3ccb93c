// Exponentials, logarithms, powers and what is made of them: the hyperbolic functions, sigmoid,
// erf.
//
// exp:   x = n ln2 + r, |r| <= ln2 / 2;  e^r = 1 + r + r^2 q(r)
// log:   x = 2^k (1 + f), sqrt(1/2) <= 1 + f < sqrt(2)
// pow:   float goes through double; double carries the logarithm in two doubles.
// The polynomials are minimax fits made for these intervals; their error stays below 2^-27 (float)
// and 2^-57 (double) of the result unless a line says otherwise.
#pragma once
#include "engine/cpu/lanes/math_basic.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

template <class T>
struct Constants;
template <>
struct Constants<float> {
  // Parts called _high have trailing zero bits, so that their product with an exponent is exact.
  static constexpr float log2_e = 0x1.715476p0f, log2_e_rest = 0x1.4ae0cp-26f;
  static constexpr float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;
  static constexpr float ln2 = 0x1.62e43p-1f, ln2_rest = -0x1.05c61p-29f;
  static constexpr float log10_2_high = 0x1.344p-2f, log10_2_low = 0x1.3509f8p-18f;
  static constexpr float log10_e = 0x1.bcb7b2p-2f, log10_e_rest = -0x1.5b235ep-27f;
  static constexpr float exp_low = -104, exp_high = 89;     // e^x is 0 or inf beyond
  static constexpr float exp_normal = 87;                   // up to here e^x and e^-x are normal
  static constexpr float exp2_low = -151, exp2_high = 129;  // 2^x is
  static constexpr float exp2_normal = 126;
  static constexpr float expm1_low = -20, tanh_high = 10;  // -1 and 1 beyond
};
template <>
struct Constants<double> {
  static constexpr double log2_e = 0x1.71547652b82fep0, log2_e_rest = 0x1.777d0ffda0d24p-56;
  static constexpr double ln2_high = 0x1.62e42fefa38p-1, ln2_low = 0x1.ef35793c7673p-45;
  static constexpr double ln2 = 0x1.62e42fefa39efp-1, ln2_rest = 0x1.abc9e3b39803fp-56;
  static constexpr double log2_e_high = 0x1.71547652p0, log2_e_low = 0x1.705fc2eefa2p-33;
  static constexpr double log10_e_high = 0x1.bcb7b152p-2, log10_e_low = 0x1.b9438ca9aadd5p-36;
  static constexpr double log10_2_high = 0x1.34413509f8p-2, log10_2_low = -0x1.80433b83b532ap-44;
  static constexpr double exp_low = -746, exp_high = 710;
  static constexpr double exp_normal = 708;
  static constexpr double exp2_low = -1076, exp2_high = 1025, exp2_normal = 1022;
  static constexpr double expm1_low = -40, tanh_high = 20;
};

TYCHO_INLINE F32 exp_tail(F32 r) {
  return poly_halves(r, 0.5f, 0.166665420f, 0.0416666158f, 0.00836679246f, 0.00139170990f);
}
TYCHO_INLINE F64 exp_tail(F64 r) {
  return poly(r, 0.5, 0.16666666666666677, 0.041666666666666699, 0.0083333333333221946,
              0.0013888888888867847, 0.00019841269884822313, 2.4801587358941949e-5,
              2.7557245430462018e-6, 2.7557243930185325e-7, 2.5108636188851180e-8,
              2.0924126656331625e-9);
}

// 2^n for an integral n given as n + shifter, while that is a normal number.
template <class T>
TYCHO_INLINE Lane<T> power_of_two(Lane<T> shifted) {
  return from_bits<T>((bits_of(shifted) << Format<T>::mantissa) + Format<T>::one);
}
// p * 2^n, rounded once, for every n that matters (|n| below twice the exponent range).
template <class T>
TYCHO_INLINE Lane<T> scale(Lane<T> p, Lane<T> shifted) {
  using V [[maybe_unused]] = typename Lane<T>::V;
  Lane<T> n = shifted - Format<T>::shifter;
#if defined(TYCHO_LEVEL_v4)
  if constexpr (sizeof(T) == 4) {
    return (V)_mm512_maskz_scalef_ps(-1, (__m512)p.v, (__m512)n.v);
  } else {
    return (V)_mm512_maskz_scalef_pd(-1, (__m512d)p.v, (__m512d)n.v);
  }
#else
  Lane<T> half = n * T(0.5) + Format<T>::shifter;
  Lane<T> other = (n - (half - Format<T>::shifter)) + Format<T>::shifter;
  return p * power_of_two(half) * power_of_two(other);
#endif
}

// scale() where `some` is true, else 0: the hardware takes a hundred cycles to make a 0 of what is
// too small, and scores that are masked by -inf are common.
template <class T>
TYCHO_INLINE Lane<T> scale_where(Mask<T> some, Lane<T> p, Lane<T> shifted) {
#if defined(TYCHO_LEVEL_v4)
  using V = typename Lane<T>::V;
  const Lane<T> n = shifted - Format<T>::shifter;
  if constexpr (sizeof(T) == 4) {
    return (V)_mm512_maskz_scalef_ps(some.m, (__m512)p.v, (__m512)n.v);
  } else {
    return (V)_mm512_maskz_scalef_pd(some.m, (__m512d)p.v, (__m512d)n.v);
  }
#else
  return scale(select(some, p, Lane<T>(0)), shifted);
#endif
}

// x = n ln2 + r + rest; n comes with the shifter added.
template <class T>
struct Reduced {
  Lane<T> shifted, r, rest;
};
template <class T>
TYCHO_INLINE Reduced<T> reduce_exp(Lane<T> x) {
  using C = Constants<T>;
  Lane<T> shifted = fma(x, Lane<T>(C::log2_e), Lane<T>(Format<T>::shifter));
  Lane<T> n = shifted - Format<T>::shifter;
  Lane<T> high = fma(n, Lane<T>(-C::ln2_high), x);
  Lane<T> r = fma(n, Lane<T>(-C::ln2_low), high);
  return {shifted, r, fma(n, Lane<T>(-C::ln2_low), high - r)};
}
template <class T>
TYCHO_INLINE Lane<T> exp_of_reduced(Lane<T> r) {
  return fma(r * r, exp_tail(r), r) + 1;
}
// e^x where that is a normal number.
template <class T>
TYCHO_INLINE Lane<T> exp_normal(Lane<T> x) {
  Reduced<T> a = reduce_exp(x);
  return exp_of_reduced(a.r) * power_of_two(a.shifted);
}
// e^x where 0 and inf are as likely as any number: of scores among which some are -inf.
template <class T>
TYCHO_INLINE Lane<T> exp_masked(Lane<T> x) {
  using C = Constants<T>;
  auto a = reduce_exp(clamp_keeping_nan(x, C::exp_low, C::exp_high));
  return scale_where(~(x < Lane<T>(C::exp_low)), exp_of_reduced(a.r), a.shifted);
}
template <class T>
TYCHO_INLINE Lane<T> exp(Lane<T> x) {
#if !defined(TYCHO_LEVEL_v4) && !defined(TYCHO_LEVEL_scalar)  // v4 scales by one instruction
  if (!any(~(abs_float(x) < Constants<T>::exp_normal))) return exp_normal(x);
#endif
  return exp_masked(x);
}
template <class T>
TYCHO_INLINE Lane<T> exp2(Lane<T> x) {
  using C = Constants<T>;
  const auto power = [](Lane<T> c, auto times) __attribute__((always_inline)) {
    auto shifted = c + Format<T>::shifter;
    auto f = c - (shifted - Format<T>::shifter);
    return times(exp_of_reduced(fma(f, Lane<T>(C::ln2), f * C::ln2_rest)), shifted);
  };
#if !defined(TYCHO_LEVEL_v4) && !defined(TYCHO_LEVEL_scalar)
  if (!any(~(abs_float(x) < C::exp2_normal)))
    return power(
        x, [](Lane<T> p, Lane<T> shifted)
               __attribute__((always_inline)) { return p * power_of_two(shifted); });
#endif
  return power(
      clamp_keeping_nan(x, C::exp2_low, C::exp2_high),
      [](Lane<T> p, Lane<T> shifted) __attribute__((always_inline)) { return scale(p, shifted); });
}

// 2^n (r + r^2 q) + (2^n - 1), computed at half its size so that n = 128 (1024) does not overflow.
template <class T>
TYCHO_INLINE Lane<T> expm1_float(Lane<T> x) {
  using L = Lane<T>;
  using C = Constants<T>;
  Reduced<T> a = reduce_exp(clamp_keeping_nan(x, C::expm1_low, C::exp_high));
  L s = power_of_two(a.shifted - 1), base = s - T(0.5);
  L tail = fma(a.r * a.r, exp_tail(a.r), a.rest);
  L high = fma(s, a.r, base), low = fma(s, a.r, base - high);
  L y = high + fma(s, tail, low);
  return select(abs_float(x) < Format<T>::epsilon * T(0.25), x, y + y);
}
template <class T>
TYCHO_INLINE Lane<T> expm1(Lane<T> x) {
  return expm1_float(x);
}

// ---- logarithms

// x = 2^k m with sqrt(1/2) <= m < sqrt(2), for normal positive x.
template <class T>
struct Split {
  Lane<T> k, m;
};
template <class T>
TYCHO_INLINE Split<T> split(Lane<T> x) {
  using F = Format<T>;
  auto b = bits_of(x) + (F::one - F::sqrt_half);
  auto m = (b & F::fraction) + F::sqrt_half;
  // The biased exponent, put into the low bits of 2^mantissa, becomes a number there.
  Lane<T> k = from_bits<T>((b >> F::mantissa) | bits_of(Lane<T>(F::integral)));
  return {k - (F::integral + F::bias), from_bits<T>(m)};
}
// The same for subnormal numbers too.
template <class T>
TYCHO_INLINE Split<T> split_any(Lane<T> x) {
#if defined(TYCHO_LEVEL_v4)
  // The instructions give m in [1, 2).
  using V = typename Lane<T>::V;
  Split<T> s;
  if constexpr (sizeof(T) == 4) {
    s.k = (V)_mm512_maskz_getexp_ps(-1, (__m512)x.v);
    s.m = (V)_mm512_maskz_getmant_ps(-1, (__m512)x.v, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
  } else {
    s.k = (V)_mm512_maskz_getexp_pd(-1, (__m512d)x.v);
    s.m = (V)_mm512_maskz_getmant_pd(-1, (__m512d)x.v, _MM_MANT_NORM_1_2, _MM_MANT_SIGN_src);
  }
  Mask<T> large = s.m > T(1.41421356237309504880);
  return {select(large, s.k + 1, s.k), select(large, s.m * T(0.5), s.m)};
#else
  constexpr T up = sizeof(T) == 4 ? T(0x1p24) : T(0x1p54);
  Mask<T> small = x < Format<T>::smallest_normal;
  Split<T> s = split(select(small, x * up, x));
  s.k = s.k - select(small, sizeof(T) == 4 ? 24 : 54, 0);
  return s;
#endif
}
// The special values of a logarithm of x, where y is its value for the others.
TYCHO_INLINE F32 log_specials(F32 y, F32 x) {
#if defined(TYCHO_LEVEL_v4)
  return (F32::V)_mm512_fixupimm_ps((__m512)y.v, (__m512)x.v, _mm512_set1_epi32(0x03530422), 0);
#else
  y = select(x < infinity<float>, y, x);
  return select(x > 0, y, select(x == 0, -infinity<float>, not_a_number<float>));
#endif
}
TYCHO_INLINE F64 log_specials(F64 y, F64 x) {
#if defined(TYCHO_LEVEL_v4)
  return (F64::V)_mm512_fixupimm_pd((__m512d)y.v, (__m512d)x.v, _mm512_set1_epi64(0x03530422), 0);
#else
  y = select(x < infinity<double>, y, x);
  return select(x > 0, y, select(x == 0, -infinity<double>, not_a_number<double>));
#endif
}

// log(1 + f) - f
TYCHO_INLINE F32 log_tail(F32 f) {
  F32 p = poly(f, 0.333333164f, -0.250007987f, 0.200023144f, -0.166249141f, 0.141806304f,
               -0.131250605f, 0.128849387f, -0.0787347332f);
  F32 z = f * f;
  return fma(f * z, p, z * -0.5f);
}
// k ln2 + log(1 + f)
TYCHO_INLINE F32 log_from(F32 k, F32 f) {
  using C = Constants<float>;
  F32 p = poly(f, 0.333333164f, -0.250007987f, 0.200023144f, -0.166249141f, 0.141806304f,
               -0.131250605f, 0.128849387f, -0.0787347332f);
  F32 z = f * f, y = fma(f * z, p, k * C::ln2_low);
  return fma(k, C::ln2_high, f + fma(z, -0.5f, y));
}
// With s = f / (2 + f): log(1 + f) = f - f^2 / 2 + s (f^2 / 2 + R(s^2)); this is R.
TYCHO_INLINE F64 log_rest(F64 s) {
  F64 z = s * s;
  return z * poly(z, 0.66666666666667340, 0.39999999999414704, 0.28571428742383914,
                  0.22222198573451618, 0.18183564317587508, 0.15314050642962140,
                  0.14795949969430411);
}
TYCHO_INLINE F64 log_from(F64 k, F64 f) {
  using C = Constants<double>;
  F64 s = f / (f + 2), half = f * f * 0.5;
  return fma(k, C::ln2_high, f - (half - fma(s, half + log_rest(s), k * C::ln2_low)));
}
template <class T>
TYCHO_INLINE Lane<T> log(Lane<T> x) {
  Split<T> a = split_any(x);
  return log_specials(log_from(a.k, a.m - 1), x);
}

// With u = 1 + x rounded and c what that lost, 1 + x = 2^k (m + c / 2^k).
template <class T>
TYCHO_INLINE Lane<T> log1p(Lane<T> x) {
  using F = Format<T>;
  auto u = x + 1;
  auto c = x - (u - 1);
  Split<T> a = split(u);
  auto down = power_of_two(second_max(Lane<T>(-100), -a.k) + F::shifter);
  auto y = log_specials(log_from(a.k, fma(c, down, a.m - 1)), u);
  return select(abs_float(x) < F::epsilon * T(0.25), x, y);
}

// log(x) of a positive normal x as two doubles, to about 2^-66 of its value:
// s = f / (2 + f), log(1 + f) = 2 s + 2/3 s^3 + s^5 P(s^2).
TYCHO_INLINE Pair<double> log_pair(Split<double> a) {
  using C = Constants<double>;
  F64 f = a.m - 1, d = a.m + 1, d_rest = a.m - (d - 1), inverse = 1 / d;
  F64 s = f * inverse;
  Pair<double> sd = exact_product(s, d);
  F64 s_rest = (((f - sd.value) - sd.rest) - s * d_rest) * inverse;
  Pair<double> z = exact_product(s, s);
  z.rest = fma(s + s, s_rest, z.rest);
  F64 tail = z.value * poly(z.value, 0.40000000000002256, 0.28571428570100105, 0.22222222519819321,
                            0.18181784376957419, 0.15386756844917207, 0.13256829781427010,
                            0.13196211000714395);
  Pair<double> u = exact_sum(F64(0x1.5555555555555p-1), tail);
  u.rest += 0x1.5555555555555p-55;
  Pair<double> w = exact_product(z.value, u.value);
  w.rest += z.value * u.rest + z.rest * u.value;
  Pair<double> v = exact_product(s, w.value);
  v.rest += s * w.rest + s_rest * w.value;
  Pair<double> h = exact_sum(s + s, v.value);
  Pair<double> sum = exact_sum(a.k * C::ln2_high, h.value);
  sum.rest += h.rest + (v.rest + (s_rest + s_rest)) + a.k * C::ln2_low;
  return exact_sum(sum.value, sum.rest);
}
// log(x) times a factor, where k logarithms of two are k times `two`: products with the leading
// bits of f - f^2 / 2 are exact, and small next to those of k (as fdlibm's e_log2.c).
TYCHO_INLINE F64 scaled_log(F64 x, double factor, double factor_low, double two, double two_low) {
  constexpr int64_t kLeading = ~int64_t{0} << 32;
  Split<double> a = split_any(x);
  F64 f = a.m - 1, s = f / (f + 2), half = f * f * 0.5;
  F64 lead = from_bits<double>(bits_of(f - half) & kLeading);
  F64 tail = fma(s, half + log_rest(s), (f - lead) - half);
  F64 high = lead * factor, low = fma(tail + lead, F64(factor_low), tail * factor);
  F64 twos = a.k * two, y = twos + high;
  return log_specials(y + (fma(a.k, F64(two_low), low) + ((twos - y) + high)), x);
}
TYCHO_INLINE F64 log2(F64 x) {
  return scaled_log(x, Constants<double>::log2_e_high, Constants<double>::log2_e_low, 1, 0);
}
TYCHO_INLINE F64 log10(F64 x) {
  using C = Constants<double>;
  return scaled_log(x, C::log10_e_high, C::log10_e_low, C::log10_2_high, C::log10_2_low);
}
TYCHO_INLINE F32 log2(F32 x) {
  using C = Constants<float>;
  Split<float> a = split_any(x);
  F32 f = a.m - 1, tail = fma(f, C::log2_e_rest, log_tail(f) * C::log2_e);
  return log_specials(a.k + fma(f, C::log2_e, tail), x);
}
TYCHO_INLINE F32 log10(F32 x) {
  using C = Constants<float>;
  Split<float> a = split_any(x);
  F32 f = a.m - 1, tail = fma(f, C::log10_e_rest, log_tail(f) * C::log10_e);
  F32 y = fma(f, C::log10_e, fma(a.k, C::log10_2_low, tail));
  return log_specials(fma(a.k, C::log10_2_high, y), x);
}

// ---- powers

// C's special cases of x^y, where r = |x|^y is right for finite |x| > 0 and any y but nan.
template <class T>
TYCHO_INLINE Lane<T> pow_specials(Lane<T> r, Lane<T> x, Lane<T> y) {
  using L = Lane<T>;
  L ax = abs_float(x), half = y * T(0.5);
  Mask<T> whole = rounded<0>(y) == y, odd = whole & (rounded<0>(half) != half);
  Mask<T> edge = (ax == 0) | (ax == infinity<T>);
  r = select(edge, select((ax == 0) ^ (y < 0), 0, infinity<T>), r);
  r = select(odd, flip_sign(r, x), r);
  r = select((x < 0) & ~whole & (ax < infinity<T>), not_a_number<T>, r);
  r = select((x != x) | (y != y), not_a_number<T>, r);
  return select((x == 1) | (y == 0), 1, r);
}

// x^y rounded to float from double arithmetic good to 2^-30 of the result.
TYCHO_INLINE F64 pow_half(F64 x, F64 y) {
  Split<double> a = split(x);
  F64 s = (a.m - 1) / (a.m + 1), z = s * s;
  F64 l = fma(s,
              poly(z, 2.8853900817901406, 0.96179667328435003, 0.57708359445216562,
                   0.41167221829313966, 0.34073835512438910),
              a.k);
  F64 e = clamp_keeping_nan(y * l, -200., 200.), shifted = e + Format<double>::shifter;
  F64 f = e - (shifted - Format<double>::shifter);
  F64 p = poly(f, 1., 0.69314720457439671, 0.24022651331208666, 0.055503300290650974,
               0.0096180051804781105, 0.0013399615046253276, 0.00015476019327902201);
  return p * power_of_two(shifted);
}
TYCHO_INLINE F32 pow(F32 x, F32 y) {
  Halves a = halves(abs_float(x)), b = halves(clamp_keeping_nan(y, -1e20f, 1e20f));
  F32 r = join(pow_half(a.low, b.low), pow_half(a.high, b.high));
  if (any(~((x > 0) & (x < infinity<float>)&(y == y)))) r = pow_specials(r, x, y);
  return r;
}
TYCHO_INLINE F64 pow(F64 x, F64 y) {
  Pair<double> l = log_pair(split_any(abs_float(x)));
  F64 c = clamp_keeping_nan(y, -1e20, 1e20);
  Pair<double> e = exact_product(c, l.value);
  e.rest = select(abs_float(e.value) < 800, fma(c, l.rest, e.rest), 0);
  Reduced<double> a = reduce_exp(clamp_keeping_nan(e.value, -760., 715.));
  Pair<double> r = exact_sum(a.r, a.rest + e.rest);
  F64 p = fma(r.value * r.value, exp_tail(r.value), r.rest);
  F64 result = scale(1 + (r.value + p), a.shifted);
  if (any(~((x > 0) & (x < infinity<double>)&(y == y)))) result = pow_specials(result, x, y);
  return result;
}

// ---- made of the above

// 1 / (1 + e^-x) without overflow: e^-|x| stays in [0, 1].
template <class T>
TYCHO_INLINE Lane<T> sigmoid(Lane<T> x) {
  Lane<T> e = exp(-abs_float(x));
  return select(x < 0, e, 1) / (1 + e);
}
template <class T>
TYCHO_INLINE Lane<T> log_sigmoid(Lane<T> x) {
  return minimum(x, Lane<T>(0)) - log1p(exp(-abs_float(x)));
}
template <class T>
TYCHO_INLINE Lane<T> logit(Lane<T> x) {
  return log(x / (1 - x));
}

// 1 - 2 / (e^2|x| + 1), and x + x^3 P(x^2) near 0, where that would cancel. Of floats, e^2|x| / 2
// is made as 2^n 2^f with a polynomial in f; n is added to its exponent.
TYCHO_INLINE F32 tanh(F32 x) {
  using F = Format<float>;
  const F32 log2_e_twice = 2 * Constants<float>::log2_e;
  F32 a = abs_float(x), z = x * x, high = second_min(F32(Constants<float>::tanh_high), a);
  F32 shifted = fma(high, log2_e_twice, F32(F::shifter));
  F32 f = fma(high, log2_e_twice, -(shifted - F::shifter));
  F32 half = poly(f, 0.5f, 0.346573591f, 0.120113231f, 0.0277516432f, 0.00480924454f,
                  0.000669996545f, 7.67290584e-5f);
  half = from_bits<float>(bits_of(half) + (bits_of(shifted) << F::mantissa));
  F32 far = 1 - 1 / (half + 0.5f);
  F32 near = fma(x * z,
                 poly(z, -0.333332986f, 0.133322209f, -0.0538523346f, 0.0213029906f,
                      -0.00740955677f, 0.00158475572f),
                 x);
  return from_bits<float>(bits_of(select(a >= 0.8f, far, near)) | sign_bits(x));  // also of -0
}
TYCHO_INLINE F64 tanh(F64 x) {
  F64 a = abs_float(x), z = a * a;
  F64 e = exp_normal(clamp_keeping_nan(a + a, 0., 2 * Constants<double>::tanh_high));
  F64 near = fma(a * z,
                 poly(z, -0.33333333333333298, 0.13333333333328970, -0.053968253966447645,
                      0.021869488498048987, -0.0088632350480111113, 0.0035921240346166749,
                      -0.0014558112796962464, 0.00058993112181280022, -0.00023883189566269386,
                      9.6225179888399337e-5, -3.8060076653794841e-5, 1.4276080623758707e-5,
                      -4.7554296206702543e-6, 1.2701825586358636e-6, -2.3271617621890646e-7,
                      2.1270527275085891e-8),
                 a);
  return with_sign(select(a < 1, near, 1 - 2 / (e + 1)), x);
}

TYCHO_INLINE F32 sinh_small(F32 x, F32 z) {
  return fma(x * z, poly(z, 0.166666672f, 0.00833331048f, 0.000198428956f, 2.78221228e-6f), x);
}
TYCHO_INLINE F64 sinh_small(F64 x, F64 z) {
  return fma(x * z,
             poly(z, 0.16666666666666666, 0.0083333333333333332, 0.00019841269841269600,
                  2.7557319224116289e-6, 2.5052108346509174e-8, 1.6059050601239818e-10,
                  7.6464828971489483e-13, 2.8482329732039093e-15),
             x);
}
// e^|x| / 2, which is finite a little longer than e^|x|.
template <class T>
TYCHO_INLINE Lane<T> half_exp(Lane<T> x) {
  Reduced<T> a = reduce_exp(clamp_keeping_nan(abs_float(x), T(0), Constants<T>::exp_high + 2));
  return scale(exp_of_reduced(a.r), a.shifted - 1);
}
template <class T>
TYCHO_INLINE Lane<T> cosh(Lane<T> x) {
  auto h = half_exp(x);
  return h + T(0.25) / h;
}
template <class T>
TYCHO_INLINE Lane<T> sinh(Lane<T> x) {
  auto h = half_exp(x);
  return select(abs_float(x) < 1, sinh_small(x, x * x), with_sign(h - T(0.25) / h, x));
}

// Inverse hyperbolic functions, by log1p of an argument without cancellation.
template <class T>
TYCHO_INLINE Lane<T> atanh(Lane<T> x) {
  auto a = abs_float(x);
  return with_sign(log1p((a + a) / (1 - a)) * T(0.5), x);
}
template <class T>
TYCHO_INLINE Lane<T> asinh(Lane<T> x) {
  auto a = abs_float(x), z = a * a;
  constexpr T big = sizeof(T) == 4 ? T(0x1p14) : T(0x1p28);  // from there asinh = log 2a
  auto near = a + z / (1 + square_root(z + 1));
  auto y = log1p(select(a < big, near, a - 1));
  return with_sign(select(a < big, y, y + Constants<T>::ln2), x);
}
template <class T>
TYCHO_INLINE Lane<T> acosh(Lane<T> x) {
  auto t = x - 1;
  constexpr T big = sizeof(T) == 4 ? T(0x1p14) : T(0x1p28);
  auto y = log1p(select(x < big, t + square_root(t * (x + 1)), t));
  return select(x < 1, not_a_number<T>, select(x < big, y, y + Constants<T>::ln2));
}

TYCHO_BINARY(logaddexp, auto y = maximum(a, b) + log1p(exp(-abs_float(a - b)));
             return select((a == b) & (abs_float(a) == infinity<T>), a, y);)
TYCHO_BINARY(logaddexp2, auto y = fma(log1p(exp2(-abs_float(a - b))), Lane<T>(Constants<T>::log2_e),
                                      maximum(a, b));
             return select((a == b) & (abs_float(a) == infinity<T>), a, y);)
TYCHO_BINARY(xlogy, return select(b != b, b, select(a == 0, 0, a* log(b)));)
TYCHO_BINARY(ldexp, return a * exp2(b);)

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
