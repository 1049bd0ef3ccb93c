// Turns the value column of elementwise.def into loops over one lane type. Included by
// rows_f32.cpp, rows_f64.cpp and rows_i64.cpp, which only choose the lane.
#pragma once
#include "engine/cpu/level/math.h"
#include "engine/cpu/rows.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

template <class T>
TYCHO_INLINE Lane<T> to_lane(Lane<T> x) {
  return x;
}
template <class T>
TYCHO_INLINE Lane<T> to_lane(Mask<T> x) {
  return number(x);
}

// Mirrors RowType in ops/elementwise.h: which lanes a row's value is compiled for.
enum class LevelType { Same, Num, Float, Real, Test, Bits, Ints };
constexpr bool has_floats(LevelType t) { return t != LevelType::Bits && t != LevelType::Ints; }
constexpr bool has_ints(LevelType t) { return t != LevelType::Float && t != LevelType::Real; }

// Runs Value over n elements. The last, partial lane goes through a padded copy: reading past the
// end could fault, and writing past it would destroy a neighbour.
template <class Value, int operands, class T>
void run_row(void* const* p, int64_t n) {
  constexpr int size = Lane<T>::size;
  T* y = static_cast<T*>(p[0]);
  const T* a = static_cast<const T*>(p[1]);
  const T* b = static_cast<const T*>(operands > 1 ? p[2] : p[1]);
  const T* c = static_cast<const T*>(operands > 2 ? p[3] : p[1]);
  int64_t i = 0;
  for (; i + size <= n; i += size)
    to_lane<T>(Value::value(Lane<T>::load(a + i), Lane<T>::load(b + i), Lane<T>::load(c + i)))
        .store(y + i);
  if (i < n) {
    T pa[size], pb[size], pc[size];
    for (int k = 0; k < size; ++k) {
      const int64_t j = i + k < n ? i + k : n - 1;
      pa[k] = a[j], pb[k] = b[j], pc[k] = c[j];
    }
    T py[size];
    to_lane<T>(Value::value(Lane<T>::load(pa), Lane<T>::load(pb), Lane<T>::load(pc))).store(py);
    for (int k = 0; i + k < n; ++k) y[i + k] = py[k];
  }
}

#define ROW(name, operands, args, type, amp, doc, expression, ga, gb, gc)      \
  struct Value_##name {                                                        \
    template <class L>                                                         \
    static TYCHO_INLINE auto value([[maybe_unused]] L a, [[maybe_unused]] L b, \
                                   [[maybe_unused]] L c) {                     \
      return expression;                                                       \
    }                                                                          \
  };
#include "engine/ops/elementwise.def"

template <class T, LevelType type, class Value, int operands>
constexpr RowFn pick() {
  constexpr bool is_int = sizeof(T) == 8 && static_cast<T>(0.5) == T(0);
  if constexpr (is_int ? has_ints(type) : has_floats(type))
    return run_row<Value, operands, T>;
  else
    return nullptr;
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
