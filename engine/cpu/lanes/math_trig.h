// Sine, cosine, tangent and their inverses.
//
// x = n pi/2 + r with |r| <= pi/4 (of the sine, n pi + r with |r| <= pi/2), where r carries a rest
// so that results near the zeros stay accurate; arguments beyond the range of that reduction go to
// the C library one by one.
#pragma once
#include "engine/cpu/lanes/math_basic.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

template <class T>
struct Angle {
  Lane<T> r, rest;
  typename Raw<T>::Bits quadrant;  // n, of which only the two low bits count
};

template <class T>
struct Pi;
template <>
struct Pi<float> {
  static constexpr float half = 0x1.921fb6p0f, half2 = -0x1.777a5cp-25f, half3 = -0x1.ee59dap-50f;
  static constexpr float inverse = 0x1.45f306p-1f;  // 2 / pi
  static constexpr float reach = 65536;
};
template <>
struct Pi<double> {
  static constexpr double half = 0x1.921fb54442d18p0, half2 = 0x1.1a62633145c07p-54;
  static constexpr double half3 = -0x1.f1976b7ed8fbcp-110;
  static constexpr double inverse = 0x1.45f306dc9c883p-1;
  static constexpr double reach = 1e6;
};

#if defined(TYCHO_FUSED)
// By `unit` times pi/2. The first fused difference is exact: pi/2 has as many bits as the format,
// so that it is a multiple of pi/2's last bit and below 1.
template <int unit = 1, class T>
TYCHO_INLINE Angle<T> reduce_angle(Lane<T> x) {
  using L = Lane<T>;
  using P = Pi<T>;
  constexpr T u = unit;
  L shifted = fma(x, L(P::inverse / u), L(Format<T>::shifter)), n = shifted - Format<T>::shifter;
  L first = fma(n, L(-P::half * u), x), w = n * (P::half2 * u);
  L w_rest = fma(n, L(P::half2 * u), -w), r = first - w;
  L rest = ((first - r) - w) - fma(n, L(P::half3 * u), w_rest);
  return {r, rest, bits_of(shifted)};
}
#else
// Without fused products: three parts of pi/2 of 33 bits, whose products with n are exact.
template <int unit = 1>
TYCHO_INLINE Angle<double> reduce_angle(F64 x) {
  constexpr double u = unit;
  F64 shifted = x * (Pi<double>::inverse / u) + Format<double>::shifter;
  F64 n = shifted - Format<double>::shifter, m = n * u;
  F64 r1 = x - m * 0x1.921fb544p0, w2 = m * 0x1.0b4611a6p-34, r2 = r1 - w2;
  F64 e2 = (r1 - r2) - w2, w3 = m * 0x1.3198a2ep-69, r3 = r2 - w3, e3 = (r2 - r3) - w3;
  F64 low = (e2 + e3) - m * 0x1.b839a252049c1p-104, r = r3 + low;
  return {r, (r3 - r) + low, bits_of(shifted)};
}
// Floats are reduced in double.
template <int unit>
TYCHO_INLINE F64 reduce_half(F64 x, F64& n) {
  constexpr double u = unit;
  n = (x * (Pi<double>::inverse / u) + Format<double>::shifter) - Format<double>::shifter;
  return (x - n * (0x1.921fb544p0 * u)) - n * (0x1.0b4611a626331p-34 * u);
}
template <int unit = 1>
TYCHO_INLINE Angle<float> reduce_angle(F32 x) {
  Halves h = halves(x);
  F64 n_low, n_high;
  F64 low = reduce_half<unit>(h.low, n_low), high = reduce_half<unit>(h.high, n_high);
  F32 r = join(low, high);
  Halves back = halves(r);
  F32 n = join(n_low, n_high) + Format<float>::shifter;
  return {r, join(low - back.low, high - back.high), bits_of(n)};
}
#endif

// sin(r + rest) and cos(r + rest) on [-pi/4, pi/4].
TYCHO_INLINE F32 sin_poly(F32 z) {
  return poly(z, -0.166666538f, 0.00833210442f, -0.000195074463f);
}
TYCHO_INLINE F64 sin_poly(F64 z) {
  return poly(z, -0.16666666666666630, 0.0083333333333219881, -0.00019841269829477974,
              2.7557313580493974e-6, -2.5050741052975251e-8, 1.5895825215314596e-10);
}
TYCHO_INLINE F32 cos_poly(F32 z) { return poly(z, 0.0416666456f, -0.00138872943f, 2.44294151e-5f); }
TYCHO_INLINE F64 cos_poly(F64 z) {
  return poly(z, 0.041666666666666595, -0.0013888888888872854, 2.4801587288720763e-5,
              -2.7557314140344067e-7, 2.0875695406288745e-9, -1.1358248258090483e-11);
}
template <class T>
TYCHO_INLINE Pair<T> sin_pair(Angle<T> a) {
  Lane<T> z = a.r * a.r;
  return exact_sum(a.r, fma(a.r * z, sin_poly(z), a.rest));
}
template <class T>
TYCHO_INLINE Pair<T> cos_pair(Angle<T> a) {
  Lane<T> z = a.r * a.r, half = z * T(0.5), w = 1 - half;
  return exact_sum(w, ((1 - w) - half) + fma(z * z, cos_poly(z), -(a.r * a.rest)));
}

template <class T>
TYCHO_INLINE Mask<T> odd_quadrant(typename Raw<T>::Bits q) {
  return from_bits<T>((q & 1) << (8 * sizeof(T) - 2)) != 0;
}
// The sign of the result as sign bits: set in the third and fourth quadrant.
template <class T>
TYCHO_INLINE Lane<T> quadrant_sign(Lane<T> x, typename Raw<T>::Bits q) {
  return from_bits<T>(bits_of(x) ^ ((q & 2) << (8 * sizeof(T) - 2)));
}

template <class T, class F>
TYCHO_FUNCTION __attribute__((noinline, cold)) void far_angles(const T* x, T* y, F f) {
  for (int i = 0; i < Lane<T>::size; i++) {
    if (!(x[i] > -Pi<T>::reach && x[i] < Pi<T>::reach)) y[i] = f(x[i]);
  }
}
// Replaces the results for arguments that the reduction does not reach, inf and nan too.
template <class T, class F>
TYCHO_INLINE Lane<T> with_far_angles(Lane<T> x, Lane<T> y, F f) {
  if (any(~(abs_float(x) < Pi<T>::reach))) {
    T in[Lane<T>::size], out[Lane<T>::size];
    x.store(in);
    y.store(out);
    far_angles(in, out, f);
    y = Lane<T>::load(out);
  }
  return y;
}

// The sine has one zero in each half turn, so that one polynomial will do: r + r^3 P(r^2). The
// rest, which counts as much as the cosine of r, is made part of r^3: 2.432 r^2 - 6 is about that
// cosine over P. So is what r^2 lacks, or there could be more than 1. x = 0 keeps its sign, which
// the reduction loses.
TYCHO_INLINE F32 half_turn_poly(F32 z) {
  return poly(z, -0.166666672f, 0.00833333097f, -0.000198408685f, 2.75253706e-6f, -2.38886741e-8f);
}
TYCHO_INLINE F64 half_turn_poly(F64 z) {
  return poly(z, -0.16666666666666666, 0.008333333333333194, -0.00019841269841209145,
              2.7557319211124362e-06, -2.5052106871586684e-08, 1.6058939643216172e-10,
              -7.642989819277652e-13, 2.7211569894112656e-15);
}
template <class T>
TYCHO_INLINE Lane<T> sin(Lane<T> x) {
  Angle<T> a = reduce_angle<2>(x);
  Lane<T> z = a.r * a.r, z_rest = fma(a.r, a.r, -z);
  Lane<T> rest = fma(a.r, z_rest, a.rest * fma(z, Lane<T>(T(2.432)), Lane<T>(T(-6))));
  Lane<T> cube = fma(a.r, z, rest);
  Lane<T> y = fma(cube, half_turn_poly(z), a.r);
  y = select(x == 0, x, quadrant_sign(y, a.quadrant + a.quadrant));
  return with_far_angles(x, y, [](T t) -> T {
    if constexpr (sizeof(T) == 4) return TYCHO_C(sinf)(t);
    return TYCHO_C(sin)(t);
  });
}
template <class T>
TYCHO_INLINE Lane<T> cos(Lane<T> x) {
  Angle<T> a = reduce_angle(x);
  Lane<T> y = select(odd_quadrant<T>(a.quadrant), sin_pair(a).value, cos_pair(a).value);
  return with_far_angles(x, quadrant_sign(y, a.quadrant + 1), [](T t) -> T {
    if constexpr (sizeof(T) == 4) return TYCHO_C(cosf)(t);
    return TYCHO_C(cos)(t);
  });
}
// Of floats: r + r^3 P(r^2), and -1 over it in odd quadrants. Of doubles, whose P would have many
// terms: the sine over the cosine.
TYCHO_INLINE F32 tan_of(Angle<float> a) {
  F32 z = a.r * a.r;
  F32 p = poly(z, 0.333331555f, 0.133388087f, 0.0534105301f, 0.024432864f, 0.00311547308f,
               0.00938807521f);
  Pair<float> t = exact_sum(a.r, fma(a.r * z, p, a.rest));
  return select(odd_quadrant<float>(a.quadrant), quotient(F32(-1), t), t.value);
}
TYCHO_INLINE F64 tan_of(Angle<double> a) {
  Pair<double> s = sin_pair(a), c = cos_pair(a);
  Mask<double> odd = odd_quadrant<double>(a.quadrant);
  Pair<double> top = {select(odd, -c.value, s.value), select(odd, -c.rest, s.rest)};
  Pair<double> bottom = {select(odd, s.value, c.value), select(odd, s.rest, c.rest)};
  return quotient(top, bottom);
}
template <class T>
TYCHO_INLINE Lane<T> tan(Lane<T> x) {
  Lane<T> y = tan_of(reduce_angle(x));
  return with_far_angles(x, select(x == 0, x, y), [](T t) -> T {
    if constexpr (sizeof(T) == 4) return TYCHO_C(tanf)(t);
    return TYCHO_C(tan)(t);
  });
}
template <class T>
TYCHO_INLINE Lane<T> sinc(Lane<T> x) {
  Lane<T> p = x * 3.14159265358979323846;
  return select(x == 0, 1, sin(p) / p);
}

// ---- inverses: x + x^3 P(x^2) on [0, 1] (atan) and [0, 1/2] (asin)

TYCHO_INLINE F32 atan_poly(F32 z) {
  return poly(z, -0.333332986f, 0.199985296f, -0.142640144f, 0.109508619f, -0.0839921385f,
              0.0578790568f, -0.0310938153f, 0.0108664772f, -0.00178220286f);
}
TYCHO_INLINE F64 atan_poly(F64 z) {
  return poly(
      z, -0.33333333333331860, 0.19999999999755097, -0.14285714271338687, 0.11111110678848454,
      -0.090909012369057213, 0.076922129454741431, -0.066658604650803116, 0.058773082725392826,
      -0.052392348276515170, 0.046739546269525305, -0.040926487425146617, 0.034067979970078259,
      -0.025827004811700853, 0.016978230252080135, -0.0091846946358928178, 0.0038560429783251666,
      -0.0011640950622561282, 0.00022302725698947705, -2.0259017642427118e-5);
}
TYCHO_INLINE F32 asin_poly(F32 z) {
  return poly(z, 0.166667521f, 0.0749530941f, 0.0454691350f, 0.0241849311f, 0.0421579294f);
}
TYCHO_INLINE F64 asin_poly(F64 z) {
  return poly(z, 0.16666666666666760, 0.074999999999708009, 0.044642857174610279,
              0.030381942707867239, 0.022372214985144852, 0.017351612060610831,
              0.013980819966519937, 0.011398917063832312, 0.010780225499339687,
              0.0037065117012300450, 0.021707197580028162, -0.020998711106204597,
              0.032628405034749085);
}

template <class T>
TYCHO_INLINE Lane<T> atan(Lane<T> x) {
  Lane<T> a = abs_float(x);
  Mask<T> far = a > 1;
  Lane<T> t = select(far, -1 / a, a), z = t * t;
  Lane<T> tail = fma(t * z, atan_poly(z), select(far, Pi<T>::half2, 0));
  return with_sign(select(far, Pi<T>::half, 0) + (t + tail), x);
}
// For |x| > 1/2 by asin(x) = pi/2 - 2 asin(sqrt((1 - x) / 2)).
template <class T>
TYCHO_INLINE Lane<T> asin(Lane<T> x) {
  Lane<T> a = abs_float(x);
  Mask<T> far = a > T(0.5);
  Lane<T> z = select(far, (1 - a) * T(0.5), a * a), s = select(far, square_root(z), a);
  Lane<T> tail = s * z * asin_poly(z);
  Lane<T> y = Pi<T>::half - ((s + s) + (tail + tail - Pi<T>::half2));
  return with_sign(select(far, y, s + tail), x);
}
template <class T>
TYCHO_INLINE Lane<T> acos(Lane<T> x) {
  Lane<T> a = abs_float(x);
  Mask<T> far = a > T(0.5);
  Lane<T> z = select(far, (1 - a) * T(0.5), a * a), s = select(far, square_root(z), a);
  Lane<T> tail = s * z * asin_poly(z), y = s + tail;
  Lane<T> beyond = 2 * (Pi<T>::half - (s + (tail - Pi<T>::half2)));
  Lane<T> near = Pi<T>::half - (flip_sign(s, x) + (flip_sign(tail, x) - Pi<T>::half2));
  return select(far, select(x < 0, beyond, y + y), near);
}

// The angle of (x, y): the arctangent of the smaller over the larger, then three reflections.
template <class T>
TYCHO_INLINE Lane<T> atan2_float(Lane<T> y, Lane<T> x) {
  Lane<T> ax = abs_float(x), ay = abs_float(y);
  Mask<T> steep = ay > ax, back = from_bits<T>(sign_bits(x) | Format<T>::one) < 0;
  Lane<T> small = second_min(ax, ay), large = second_max(ax, ay);
  Lane<T> t = select(small == large, number(small != 0), small / large), z = t * t;
  Lane<T> tail = t * z * atan_poly(z);
  Mask<T> minus = steep ^ back;  // the angle is base - atan(t) rather than base + atan(t)
  t = select(minus, -t, t);
  tail = select(minus, -tail, tail);
  constexpr T h = Pi<T>::half, h2 = Pi<T>::half2;
  Lane<T> base = select(steep, h, select(back, 2 * h, 0));
  tail = tail + select(steep, h2, select(back, 2 * h2, 0));
  Lane<T> r = with_sign(base + (t + tail), y);
  return select((x != x) | (y != y), not_a_number<T>, r);
}
TYCHO_BINARY(atan2, return atan2_float(a, b);)

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
