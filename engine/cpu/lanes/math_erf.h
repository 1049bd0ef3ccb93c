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
  F32 a = second_min(F32(10.2f), abs_float(x)), b = a + 2, two = b - a, inverse = quick_inverse(b),
      u = (a - 2) * inverse;
  F32 p = poly(u, 1.02158271f, -0.687160696f, 0.279471766f, -0.0364418057f, -0.021505665f,
               0.00647607063f, 0.00306244081f, -0.000832698992f, -0.000592583486f, 4.76478946e-5f,
               6.98577159e-5f);
  Pair<float> square = exact_product(a, a), below = {b, (a - (b - two)) + (2 - two)};
  Reduced<float> e = reduce_exp(-square.value);
  F32 r = e.r + (e.rest - square.rest);
  F32 y = scale(quotient(fma(p, fma(r * r, exp_tail(r), r), p), below, inverse), e.shifted);
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

// The inverse of erf: polynomials in w = -log(1 - y^2), and in its root where y is near 1 (Giles
// 2010).
template <class T>
TYCHO_INLINE Lane<T> erfinv_edges(Lane<T> x, Lane<T> y) {
  Lane<T> a = abs_float(y);
  x = select(a < 1, x, select(a == 1, infinity<T>, not_a_number<T>));
  return with_sign(x, y);
}
TYCHO_INLINE F32 erfinv(F32 y) {
  F32 a = abs_float(y), w = -log((1 - a) * (1 + a)), c = w - 2.5f;
  F32 near =
      poly(c, 1.50140936f, 0.246640286f, -0.00417738678f, -0.00125274188f, 0.000218344439f,
           -4.96334786e-6f, -3.46270476e-6f, 4.66170664e-7f, 2.32326441e-8f, -8.79105653e-9f);
  F32 x = near;
  if (any(w >= 5)) {
    F32 s = square_root(w) - 3;
    F32 far = poly(s, 2.83297691f, 1.00167403f, 0.00943935849f, -0.00762141163f, 0.00573646017f,
                   -0.00367700887f, 0.00135591876f, 0.000104315210f, -0.000204989357f);
    x = select(w < 5, near, far);
  }
  return erfinv_edges(x * a, y);
}
TYCHO_INLINE F64 erfinv(F64 y) {
  F64 a = abs_float(y), w = -log((1 - a) * (1 + a));
  F64 x = a * poly(w, 0.886226925452758, 0.23201366653465072, 0.011549342038391792,
                   -0.0023351016431539234, -0.00012804328383146413, 4.661139727165089e-05,
                   2.0201079084323593e-06, -1.0127864937705417e-06, -3.696314839908195e-08,
                   2.243548568035313e-08, 1.0505903309458064e-09, -7.142978556657569e-10,
                   7.87470611019618e-11, -2.461865708877179e-11, 1.1363765048554992e-11,
                   -2.743958959962668e-12, 3.7622024923259316e-13, -2.8766806444225544e-14,
                   7.591865313668958e-16, 6.239476950097626e-17, -6.099820601275317e-18,
                   1.64533799430872e-19);
  if (any(w > 5)) {
    F64 s = square_root(w);
    F64 far = poly(s - 3.1, 2.93313332689281, 1.003932226717259, 0.005876469862575088,
                   -0.003010726431475352, 0.0010281320122347702, -0.00023274062029367016,
                   -3.94636285817382e-06, 3.7819893826660986e-05, -2.068627669568419e-05,
                   4.68705426491607e-06, 1.2244374177431e-06, -1.461015499832771e-06,
                   5.033708890871244e-07, 1.4351049421328013e-08, -9.614678351246601e-08,
                   4.2547066094350244e-08, -1.2827068685339093e-09, -6.366646167430055e-09,
                   1.7802373703254033e-09, 1.2891120973558894e-10);
    F64 end = poly(s - 5.01, 4.860009391940492, 1.010297626571736, -0.00014512625958660133,
                   -0.00021200539902792014, 7.500763792862062e-05, -1.939389814543042e-05,
                   4.4306310930603075e-06, -9.431097873966589e-07, 1.9086159949992642e-07,
                   -3.6869462035185893e-08, 6.65542393801884e-09, -9.997104357806985e-10,
                   5.451165833818249e-11, 4.3649813383178133e-11, -3.7205154086678034e-11,
                   2.3846738179877224e-11, -6.8238383217445875e-12);
    x = select(w > 5, select(s > 4, end, far), x);
  }
  return erfinv_edges(x, y);
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
