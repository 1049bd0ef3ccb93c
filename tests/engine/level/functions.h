// The lane functions as plain functions over arrays, so that one test can run them at every
// instruction-set level: functions.cpp is compiled once per level, like the kernels, and includes
// nothing that other files could share.
//
// A row: the name, what it should be in terms of C's functions (x, y of a wider type), and the
// largest error allowed on levels with fused products, in ulp, for float and for double.
#pragma once
#include <cstdint>

#define TYCHO_UNARY_ROWS(ROW)                                               \
  ROW(abs, fabs(x), 0, 0)                                                   \
  ROW(neg, -x, 0, 0)                                                        \
  ROW(square, x* x, 0.5, 0.5)                                               \
  ROW(sign, R((x > 0) - (x < 0)), 0, 0)                                     \
  ROW(sqrt, sqrt(x), 0.5, 0.501)                                            \
  ROW(rsqrt, 1 / sqrt(x), 1.5, 1.5)                                         \
  ROW(reciprocal, 1 / x, 0.5, 0.501)                                        \
  ROW(round, rint(x), 0, 0)                                                 \
  ROW(floor, floor(x), 0, 0)                                                \
  ROW(ceil, ceil(x), 0, 0)                                                  \
  ROW(trunc, trunc(x), 0, 0)                                                \
  ROW(frac, x - trunc(x), 0, 0)                                             \
  ROW(exp, exp(x), 1.1, 1.1)                                                \
  ROW(exp2, exp2(x), 1.1, 1.1)                                              \
  ROW(expm1, expm1(x), 1.2, 1.2)                                            \
  ROW(log, log(x), 1, 1)                                                    \
  ROW(log2, log2(x), 1, 0.75)                                               \
  ROW(log10, log10(x), 1, 0.75)                                             \
  ROW(log1p, log1p(x), 1.5, 1.5)                                            \
  ROW(sin, sin(x), 1.8, 1.3)                                                \
  ROW(cos, cos(x), 1, 1)                                                    \
  ROW(tan, tan(x), 1.5, 1.5)                                                \
  ROW(asin, asin(x), 1.7, 1.7)                                              \
  ROW(acos, acos(x), 1.5, 1.5)                                              \
  ROW(atan, atan(x), 1.2, 1.8)                                              \
  ROW(sinh, sinh(x), 1.8, 1.8)                                              \
  ROW(cosh, cosh(x), 1.6, 1.6)                                              \
  ROW(tanh, tanh(x), 1.2, 1.2)                                              \
  ROW(asinh, asinh(x), 2, 2)                                                \
  ROW(acosh, acosh(x), 2.2, 2.2)                                            \
  ROW(atanh, atanh(x), 2.2, 2.2)                                            \
  ROW(sigmoid, x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x)), 1.9, 1.9) \
  ROW(erf, erf(x), 1.2, 1.2)                                                \
  ROW(erfc, erfc(x), 3.5, 4)

#define TYCHO_BINARY_ROWS(ROW)                                 \
  ROW(pow, pow(x, y), 0.6, 1)                                  \
  ROW(atan2, atan2(x, y), 2, 2)                                \
  ROW(hypot, hypot(x, y), 0.6, 1)                              \
  ROW(fmod, fmod(x, y), 0, 0)                                  \
  ROW(copysign, copysign(x, y), 0, 0)                          \
  ROW(fmax, x != x || y > x ? y : x, 0, 0)                     \
  ROW(fmin, x != x || y < x ? y : x, 0, 0)                     \
  ROW(maximum, x != x || y != y ? x + y : x > y ? x : y, 0, 0) \
  ROW(minimum, x != x || y != y ? x + y : x < y ? x : y, 0, 0)

// Checked against a formula of their own.
#define TYCHO_OTHER_UNARY(ROW) \
  ROW(erfinv)                  \
  ROW(lgamma)                  \
  ROW(digamma)                 \
  ROW(trigamma)                \
  ROW(sinc)                    \
  ROW(log_sigmoid)             \
  ROW(logit)                   \
  ROW(i0)                      \
  ROW(i1)
#define TYCHO_OTHER_BINARY(ROW) \
  ROW(remainder)                \
  ROW(floor_divide)             \
  ROW(nextafter)                \
  ROW(ldexp)                    \
  ROW(logaddexp)                \
  ROW(logaddexp2)               \
  ROW(xlogy)                    \
  ROW(heaviside)
#define TYCHO_TEST_ROWS(ROW) \
  ROW(isnan) ROW(isinf) ROW(isfinite) ROW(isposinf) ROW(isneginf) ROW(signbit)
#define TYCHO_INTEGER_ROWS(ROW) \
  ROW(add)                      \
  ROW(multiply)                 \
  ROW(shift_left)               \
  ROW(shift_right)              \
  ROW(trunc_divide)             \
  ROW(floor_divide)             \
  ROW(remainder)                \
  ROW(fmod)                     \
  ROW(pow)                      \
  ROW(gcd)                      \
  ROW(lcm)                      \
  ROW(maximum)                  \
  ROW(minimum)                  \
  ROW(less)

// n is a multiple of 16 everywhere; the second argument is not read by functions of one.
struct LaneFunction {
  const char* name;
  void (*f32)(const float* x, const float* y, float* out, int64_t n);
  void (*f64)(const double* x, const double* y, double* out, int64_t n);
};
struct IntegerFunction {
  const char* name;
  void (*run)(const int64_t* x, const int64_t* y, int64_t* out, int64_t n);
};
// Everything that functions.cpp gives the tests; lists end with a null name.
struct LevelFunctions {
  const LaneFunction* lanes;
  const IntegerFunction* integers;
  void (*load_f32[10])(float*, const void*, int64_t stride, int64_t n);
  void (*load_f64[10])(double*, const void*, int64_t stride, int64_t n);
  void (*load_i64[10])(int64_t*, const void*, int64_t stride, int64_t n);
  void (*store_f32[10])(void*, const float*, int64_t stride, int64_t n);
  void (*store_f64[10])(void*, const double*, int64_t stride, int64_t n);
  void (*store_i64[10])(void*, const int64_t*, int64_t stride, int64_t n);
  double (*polygamma)(int64_t n, double x);
};

namespace tycho::cpu::x86_64 {
LevelFunctions level_functions();
}
namespace tycho::cpu::v3 {
LevelFunctions level_functions();
}
namespace tycho::cpu::v4 {
LevelFunctions level_functions();
}
