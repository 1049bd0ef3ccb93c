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
// erfc(a) of a >= 0: e^(-a^2), whose square is taken exactly, times a polynomial in
// (a - 2) / (a + 2), over a + 2.
TYCHO_INLINE F32 erfc(F32 x) {
  F32 a = second_min(F32(10.2f), abs_float(x)), b = a + 2, two = b - a, u = (a - 2) / b;
  F32 p = poly(u, 1.02158271f, -0.687160696f, 0.279471766f, -0.0364418057f, -0.021505665f,
               0.00647607063f, 0.00306244081f, -0.000832698992f, -0.000592583486f, 4.76478946e-5f,
               6.98577159e-5f);
  Pair<float> square = exact_product(a, a), below = {b, (a - (b - two)) + (2 - two)};
  Reduced<float> e = reduce_exp(-square.value);
  F32 r = e.r + (e.rest - square.rest);
  F32 y = scale(quotient(fma(p, fma(r * r, exp_tail(r), r), p), below), e.shifted);
  return select(x < 0, 2 - y, select(x == x, y, x));
}

// erf(x) - x of a double on [-1, 1], over x.
TYCHO_INLINE F64 erf_small(F64 z) {
  return poly(z, 0.12837916709551259, -0.37612638903183748, 0.11283791670954858,
              -0.026866170645072959, 0.0052239776247813702, -0.00085483269787651485,
              0.00012055331037551084, -1.4925593518727707e-5, 1.6460972954146153e-6,
              -1.6350026192002770e-7, 1.4657883530453024e-8, -1.1365670670135735e-9,
              5.9452555815251008e-11);
}
// erfc(a) of a double on [1/2, 27.3) is e^(-a^2) / (1 + 2a) times this polynomial in
// u = (a - 4) / (a + 4).
TYCHO_INLINE F64 erfc_factor(F64 u) {
  return poly(u, 1.2329951186255526, -0.13962111684056250, 0.015379652102619865,
              0.068097054254688941, -0.10103906603631160, 0.093732834998514536,
              -0.066330365812045960, 0.037167515534161297, -0.016197734059903365,
              0.0050319700148416446, -0.00075777327348395466, -0.00019925694286235170,
              0.00015062160968159043, -2.4398143749996365e-5, -1.1221854889762211e-5,
              5.7067022861505135e-6, 2.9354477033528652e-7, -8.1981368217645438e-7,
              7.4835479854175379e-8, 1.0350741037688002e-7, -1.7963371175755111e-8,
              -9.7403871272532049e-9, 1.8227165955012021e-9);
}
TYCHO_INLINE F64 erfc_large(F64 a) {
  F64 p = erfc_factor((a - 4) / (a + 4));
  Pair<double> square = exact_product(a, a);
  Reduced<double> e = reduce_exp(-square.value);
  Pair<double> r = exact_sum(e.r, e.rest - square.rest);
  F64 power = 1 + (r.value + fma(r.value * r.value, exp_tail(r.value), r.rest));
  return scale(power * quotient(p, exact_sum(a + a, F64(1))), e.shifted);
}
// Above 1 erfc is a small part of erf, and need not be as exact; one division serves both.
TYCHO_INLINE F64 erf(F64 x) {
  F64 a = second_min(F64(6), abs_float(x)), b = a + 4, c = a + a + 1, over = 1 / (b * c);
  F64 part = exp_normal(-a * a) * erfc_factor((a - 4) * c * over);
  F64 big = fma(-part, b * over, F64(1));
  return select(abs_float(x) > 1, with_sign(big, x), fma(x, erf_small(x * x), x));
}
TYCHO_INLINE F64 erfc(F64 x) {
  F64 a = abs_float(x), y = erfc_large(second_min(F64(27.3), a));
  y = select(x < 0, 2 - y, y);
  return select(a > 0.75, y, 1 - fma(x, erf_small(x * x), x));
}

// The inverse of erf on [0, 1): polynomials in w = -log(1 - y^2) and in its root (Giles 2010); of
// doubles to 2^-28.
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
  F32 a = abs_float(y), w = -log((1 - a) * (1 + a)), c = w - 2.5f, s = square_root(w) - 3;
  F32 near =
      poly(c, 1.50140936f, 0.246640286f, -0.00417738678f, -0.00125274188f, 0.000218344439f,
           -4.96334786e-6f, -3.46270476e-6f, 4.66170664e-7f, 2.32326441e-8f, -8.79105653e-9f);
  F32 far = poly(s, 2.83297691f, 1.00167403f, 0.00943935849f, -0.00762141163f, 0.00573646017f,
                 -0.00367700887f, 0.00135591876f, 0.000104315210f, -0.000204989357f);
  return erfinv_edges(select(w < 5, near, far) * a, y);
}
// One step of Halley's method makes 2^-28 exact. It takes e^(x^2) (erf(x) - y), from a half on as the
// difference of the complements, where one division serves both.
TYCHO_INLINE F64 erfinv(F64 y) {
  F64 a = abs_float(y), x = erfinv_half(a), z = x * x, power = exp_normal(z);
  F64 b = x + 4, c = x + x + 1, over = 1 / (b * c);
  F64 near = (fma(x, erf_small(z), x) - a) * power;
  F64 far = fma(1 - a, power, -(erfc_factor((x - 4) * c * over) * b * over));
  F64 d = select(a < 0.5, near, far) * 0.88622692545275801365;
  return erfinv_edges(x - d / fma(x, d, F64(1)), y);
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
