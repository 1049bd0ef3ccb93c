// The error function, its complement and its inverse.
#pragma once
#include "engine/cpu/lanes/math_exp.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// erf: x + x P(x^2) near 0; 1 - e^Q(|x|) where it is above 0.8.
TYCHO_INLINE F32 erf(F32 x) {
  F32 a = abs_float(x), z = x * x;
  F32 small = poly(z, 0.128379166f, -0.376126289f, 0.112836257f, -0.0268557351f, 0.00519242650f,
                   -0.000805015909f, 7.99891059e-5f);
  F32 t = second_min(F32(3.95f), a);
  F32 q = poly(t, 0.000174683461f, -1.12951493f, -0.633346915f, -0.108280048f, 0.0251193903f,
               -0.00417105947f, 0.000434467802f, -2.10960825e-5f);
  return select(a > 0.92f, with_sign(1 - exp_normal(q), x), fma(x, small, x));
}
// erfc for a float's accuracy: e^(-x^2) / (1 + 2x) times a polynomial in (x - 3) / (x + 3).
TYCHO_INLINE F64 erfc_half(F64 x) {
  F64 a = second_min(F64(10.2), abs_float(x)), u = (a - 3) / (a + 3);
  F64 p =
      poly(u, 1.2530080582674001, -0.13562110693985360, -0.047562294087157918, 0.12964520293167309,
           -0.11927364736396040, 0.068307348128402098, -0.023771117040710076, 0.0025335913553757527,
           0.0018945530541792039, -0.00078989104707286441, -0.00012709298779855883,
           0.00012627707733771156, 3.2961628298992977e-5);
  F64 y = p * exp_normal(-a * a) / fma(a, F64(2), F64(1));
  return select(x < 0, 2 - y, select(x == x, y, x));
}
TYCHO_INLINE F32 erfc(F32 x) {
  Halves h = halves(x);
  return join(erfc_half(h.low), erfc_half(h.high));
}

// erf(x) - x of a double on [-1, 1], over x.
TYCHO_INLINE F64 erf_small(F64 z) {
  return poly(z, 0.12837916709551259, -0.37612638903183748, 0.11283791670954858,
              -0.026866170645072959, 0.0052239776247813702, -0.00085483269787651485,
              0.00012055331037551084, -1.4925593518727707e-5, 1.6460972954146153e-6,
              -1.6350026192002770e-7, 1.4657883530453024e-8, -1.1365670670135735e-9,
              5.9452555815251008e-11);
}
// erfc(a) of a double on [1/2, 27.3): e^(-a^2) / (1 + 2a) times a polynomial in (a - 4) / (a + 4).
TYCHO_INLINE F64 erfc_large(F64 a) {
  F64 u = (a - 4) / (a + 4);
  F64 p =
      poly(u, 1.2329951186255526, -0.13962111684056250, 0.015379652102619865, 0.068097054254688941,
           -0.10103906603631160, 0.093732834998514536, -0.066330365812045960, 0.037167515534161297,
           -0.016197734059903365, 0.0050319700148416446, -0.00075777327348395466,
           -0.00019925694286235170, 0.00015062160968159043, -2.4398143749996365e-5,
           -1.1221854889762211e-5, 5.7067022861505135e-6, 2.9354477033528652e-7,
           -8.1981368217645438e-7, 7.4835479854175379e-8, 1.0350741037688002e-7,
           -1.7963371175755111e-8, -9.7403871272532049e-9, 1.8227165955012021e-9);
  Pair<double> square = exact_product(a, a);
  Reduced<double> e = reduce_exp(-square.value);
  Pair<double> r = exact_sum(e.r, e.rest - square.rest);
  F64 power = 1 + (r.value + fma(r.value * r.value, exp_tail(r.value), r.rest));
  return scale(power * quotient(p, exact_sum(a + a, F64(1))), e.shifted);
}
TYCHO_INLINE F64 erf(F64 x) {
  F64 a = abs_float(x), big = 1 - erfc_large(second_min(F64(6), a));
  return select(a > 1, with_sign(big, x), fma(x, erf_small(x * x), x));
}
TYCHO_INLINE F64 erfc(F64 x) {
  F64 a = abs_float(x), y = erfc_large(second_min(F64(27.3), a));
  y = select(x < 0, 2 - y, y);
  return select(a > 0.75, y, 1 - fma(x, erf_small(x * x), x));
}

// The inverse of erf on [0, 1), to 2^-28: polynomials in w = -log(1 - y^2) and in its root.
TYCHO_INLINE F64 erfinv_half(F64 y) {
  F64 w = -log((1 - y) * (1 + y)), s = square_root(w) - 4;
  F64 near = poly(w, 0.88622692744480658, 0.23201355618379865, 0.011550334895114547,
                  -0.0023385394781671050, -0.00012200385509796232, 4.0487656809714297e-5,
                  5.8352405308793937e-6, -2.4977741120804670e-6, 3.0977925851277831e-7,
                  -1.7159745511166292e-8, 3.3547944286099419e-10);
  F64 far = poly(s, 3.8397835778138196, 1.0094950088938177, 0.0012536903017057509,
                 -0.00085459078459652535, 0.00029501960709073661, -8.3290086381854629e-5,
                 2.1526696047618645e-5, -5.4516641482033563e-6, 6.2651333920582642e-7,
                 4.9682490666968456e-7, -2.5594752078789529e-7, 3.6099095132902869e-8);
  return select(w < 5, near * y, far);
}
template <class T>
TYCHO_INLINE Lane<T> erfinv_edges(Lane<T> x, Lane<T> y) {
  Lane<T> a = abs_float(y);
  x = select(a < 1, x, select(a == 1, infinity<T>, not_a_number<T>));
  return with_sign(x, y);
}
TYCHO_INLINE F32 erfinv(F32 y) {
  Halves a = halves(abs_float(y));
  return erfinv_edges(join(erfinv_half(a.low), erfinv_half(a.high)), y);
}
// One step of Halley's method makes 2^-28 exact.
TYCHO_INLINE F64 erfinv(F64 y) {
  F64 a = abs_float(y), x = erfinv_half(a);
  F64 error = select(a < 0.5, erf(x) - a, (1 - a) - erfc(x));
  F64 d = error * 0.88622692545275801365 * exp(x * x);
  return erfinv_edges(x - d / fma(x, d, F64(1)), y);
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
