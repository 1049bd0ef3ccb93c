// The modified Bessel functions i0 and i1: even polynomials of what lies within 8 of 0, and beyond,
// e^|x| / sqrt(|x|) times polynomials in u = 16 / |x| - 1.
#pragma once
#include "engine/cpu/lanes/math_exp.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

constexpr int kBesselNear = 8;

// `near` of |x| up to 8. The power, which would overflow before the result does, comes in two factors.
template <class T, class Far>
TYCHO_INLINE Lane<T> bessel(Lane<T> near, Lane<T> x, Far far) {
  const Lane<T> a = abs_float(x);
  const Mask<T> close = a <= T(kBesselNear);
  if (!any(~close)) return near;
  const Lane<T> b = select(close, T(kBesselNear), a), inverse = 1 / b;
  const Lane<T> root = exp(b * T(0.5));
  const Lane<T> y =
      root * square_root(inverse) * far(fma(inverse, Lane<T>(16), Lane<T>(-1))) * root;
  return select(close, near, select(a < infinity<T>, y, a));
}
TYCHO_INLINE F32 i0(F32 x) {
  const F32 near = poly(x * x, 1.f, 0.25f, 1.5624999e-02f, 4.34028e-04f, 6.7816463e-06f,
                        6.782015e-08f, 4.7076537e-10f, 2.4095808e-12f, 9.221438e-15f,
                        3.1582715e-17f, 4.6607543e-20f, 2.8886774e-22f);
  return bessel(near, x, [](F32 u) {
    return poly(u, 4.021765e-01f, 3.3605532e-03f, 1.3615616e-04f, 1.1122156e-05f, 1.6390399e-06f,
                3.54762e-07f);
  });
}
TYCHO_INLINE F64 i0(F64 x) {
  const F64 near =
      poly(x * x, 1.0, 0.25, 0.015625, 0.0004340277777777778, 6.781684027777758e-06,
           6.781684027778203e-08, 4.7095027970619e-10, 2.402807549583671e-12, 9.385966986098854e-15,
           2.896903414473123e-17, 7.242257588753194e-20, 1.4963370838452556e-22,
           2.5977414368153943e-25, 3.8439551522008304e-28, 4.888364886932104e-31,
           5.566132785039442e-34, 4.596006867582225e-37, 7.156384103870475e-40);
  return bessel(near, x, [](F64 u) {
    return poly(u, 0.4021765094450081, 0.0033605519836677235, 0.00013621607439187193,
                1.1143033802583682e-05, 1.4838475863096976e-06, 2.9735956581528157e-07,
                8.872154618944625e-08, 3.932926571091252e-08, 2.155681110989874e-08,
                7.532386417555123e-09, -6.805980075129678e-09, -1.331979859201994e-08,
                -5.162517880939013e-09, 7.323310735122893e-09, 6.789790403895736e-09,
                -3.11851456121224e-09, -4.8482509221176966e-09, 1.0924527246468664e-09,
                2.3981927228949238e-09, -2.748111637276033e-10, -7.473844621887592e-10,
                3.525321019700796e-11, 1.0881994785468934e-10);
  });
}
// The first derivative of i0.
TYCHO_INLINE F32 i1(F32 x) {
  const F32 near =
      abs_float(x) * poly(x * x, 0.5f, 6.25e-02f, 2.6041667e-03f, 5.425348e-05f, 6.78167e-07f,
                          5.651526e-09f, 3.3632454e-11f, 1.5042655e-13f, 5.153366e-16f,
                          1.5456263e-18f, 2.3291948e-21f, 1.1460832e-23f);
  const F32 y = bessel(near, x, [](F32 u) {
    return poly(u, 3.8939846e-01f, -9.749578e-03f, -2.1916827e-04f, -1.50152755e-05f,
                -2.0096372e-06f, -4.1209137e-07f);
  });
  return with_sign(y, x);
}
TYCHO_INLINE F64 i1(F64 x) {
  const F64 near =
      abs_float(x) * poly(x * x, 0.5, 0.0625, 0.0026041666666666665, 5.4253472222222226e-05,
                          6.781684027777773e-07, 5.651403356481591e-09, 3.3639305693326665e-11,
                          1.5017547184680642e-13, 5.214426104646516e-16, 1.4484517018212629e-18,
                          3.2919354425983547e-21, 6.234733594318706e-24, 9.991390632392436e-27,
                          1.3727374047117812e-29, 1.630447729545268e-32, 1.732995471708614e-35,
                          1.3769047940227905e-38, 1.9429054278018956e-41);
  const F64 y = bessel(near, x, [](F64 u) {
    return poly(u, 0.38939845902587233, -0.009749577193235609, -0.000219235763833829,
                -1.503854721127423e-05, -1.8349101539664522e-06, -3.483853071371078e-07,
                -1.0001220638799958e-07, -4.31323156237458e-08, -2.3382691353601083e-08,
                -8.407326839577817e-09, 6.795073490187386e-09, 1.3952625102162603e-08,
                5.722677527454156e-09, -7.432535335623792e-09, -7.222524178953976e-09,
                3.0717395650769477e-09, 5.094016301574338e-09, -1.0476127785270019e-09,
                -2.5062162405593894e-09, 2.582169443152386e-10, 7.79067217908059e-10,
                -3.2677656089803323e-11, -1.13288885034257e-10);
  });
  return with_sign(y, x);
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
