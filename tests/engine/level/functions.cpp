// Compiled once per instruction-set level: see functions.h.
#include "tests/engine/level/functions.h"

#include "engine/cpu/lanes/convert.h"
#include "engine/cpu/lanes/math.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

template <class T, class F>
void over(const T* x, const T* y, T* out, int64_t n, F f) {
  for (int64_t i = 0; i < n; i += Lane<T>::size) {
    f(Lane<T>::load(x + i), Lane<T>::load(y + i)).store(out + i);
  }
}

TYCHO_INLINE I64 add(I64 a, I64 b) { return a + b; }
TYCHO_INLINE I64 multiply(I64 a, I64 b) { return a * b; }
TYCHO_INLINE I64 shift_left(I64 a, I64 b) { return a << b; }
TYCHO_INLINE I64 shift_right(I64 a, I64 b) { return a >> b; }
TYCHO_INLINE I64 less(I64 a, I64 b) { return number((a < b) & ~(a == b)); }

#define LANES(name, expression)                                                    \
  {#name,                                                                          \
   [](const float* x, const float* y, float* out, int64_t n) {                     \
     over(x, y, out, n, [](F32 a, [[maybe_unused]] F32 b) { return expression; }); \
   },                                                                              \
   [](const double* x, const double* y, double* out, int64_t n) {                  \
     over(x, y, out, n, [](F64 a, [[maybe_unused]] F64 b) { return expression; }); \
   }},
#define UNARY(name, ...) LANES(name, name(a))
#define BINARY(name, ...) LANES(name, name(a, b))
#define TEST_OF(name) LANES(name, number(name(a)))
const LaneFunction lane_functions[] = {TYCHO_UNARY_ROWS(UNARY) TYCHO_BINARY_ROWS(BINARY)
                                           TYCHO_OTHER_UNARY(UNARY) TYCHO_OTHER_BINARY(BINARY)
                                               TYCHO_TEST_ROWS(TEST_OF){nullptr, nullptr, nullptr}};

#define INTEGER(name)                                                       \
  {#name, [](const int64_t* x, const int64_t* y, int64_t* out, int64_t n) { \
     over(x, y, out, n, [](I64 a, I64 b) { return name(a, b); });           \
   }},
const IntegerFunction integer_functions[] = {TYCHO_INTEGER_ROWS(INTEGER){nullptr, nullptr}};

}  // namespace

LevelFunctions level_functions() {
  LevelFunctions f;
  f.lanes = lane_functions;
  f.integers = integer_functions;
  for (int i = 0; i < dtype_count; i++) {
    f.load_f32[i] = load_f32[i];
    f.load_f64[i] = load_f64[i];
    f.load_i64[i] = load_i64[i];
    f.store_f32[i] = store_f32[i];
    f.store_f64[i] = store_f64[i];
    f.store_i64[i] = store_i64[i];
  }
  f.polygamma = [](int64_t n, double x) {
    double out[F64::size];
    polygamma(n, F64(x)).store(out);
    return out[0];
  };
  return f;
}

}  // namespace tycho::cpu::TYCHO_LEVEL
