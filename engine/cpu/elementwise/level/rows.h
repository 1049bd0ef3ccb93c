// Loops over one lane type for the rows of elementwise.def. Included by rows_f32.cpp, rows_f64.cpp
// and rows_i64.cpp, which only choose the lane, and where other lanes share some of it.
#pragma once
#include "engine/cpu/elementwise/level/row_values.h"
#include "engine/cpu/elementwise/rows.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Where the elements of an operand are. One value for all of them is spread over `room` first, and `mask` is 0.
template <class T>
struct Elements {
  const T* p;
  int64_t mask;
  TYCHO_INLINE Elements(const T* from, int64_t m) : p(from), mask(m) {}
  template <int n>
  TYCHO_INLINE Elements(void* const* all, int k, unsigned repeated, T (&room)[n])
      : p(static_cast<const T*>(all[k])), mask(static_cast<int64_t>(repeated >> k & 1) - 1) {
    if (mask) return;
    typedef T V __attribute__((vector_size(TYCHO_LANE_BYTES)));
    const V v = V{} + *p;
    for (int i = 0; i < n; i += static_cast<int>(sizeof v / sizeof(T)))
      memcpy(room + i, &v, sizeof v);
    p = room;
  }
  TYCHO_INLINE const T* at(int64_t i) const { return p + (i & mask); }
};
template <class T>
TYCHO_INLINE Lane<T> operand(const T* p, int64_t left) {
  return left >= Lane<T>::size ? Lane<T>::load(p) : load_some(p, left);
}
template <class T>
TYCHO_INLINE void result(void* y, int64_t i, Lane<T> r, int64_t left) {
  T* p = static_cast<T*>(y) + i;
  if (left >= Lane<T>::size)
    r.store(p);
  else
    store_some(p, r, left);
}
template <class T>
TYCHO_INLINE void result(void* y, int64_t i, Mask<T> r, int64_t left) {
  store_truth(static_cast<uint8_t*>(y) + i, r, left);
}

// Rows of so few instructions that counting elements takes a good part of their time.
template <class Value, class... Rows>
constexpr bool is_one_of = (__is_same(Value, Rows) || ...);
template <class Value>
constexpr bool is_short =
    is_one_of<Value, Value_add, Value_add_alpha, Value_sub, Value_sub_alpha, Value_rsub, Value_mul,
              Value_neg, Value_abs, Value_square, Value_cube, Value_identity, Value_maximum,
              Value_minimum, Value_clamp_numbers, Value_clamp_min, Value_clamp_max, Value_lerp,
              Value_addcmul, Value_where, Value_masked_fill, Value_relu, Value_threshold,
              Value_leaky_relu, Value_relu_grad, Value_sigmoid_grad, Value_tanh_grad,
              Value_squared_error, Value_squared_error_grad, Value_huber_error, Value_huber_grad,
              Value_prelu_row, Value_deg2rad, Value_hardtanh, Value_div, Value_sign, Value_sgn,
              Value_floor, Value_ceil, Value_trunc, Value_round, Value_frac, Value_copysign,
              Value_sqrt, Value_reciprocal, Value_finite_or, Value_hardshrink, Value_softshrink,
              Value_hardsigmoid, Value_hardswish, Value_relu6, Value_eq, Value_ne, Value_lt,
              Value_le, Value_gt, Value_ge, Value_logical_and, Value_logical_or, Value_logical_not,
              Value_signbit, Value_isnan, Value_isinf, Value_isfinite>;

// Of two operands, one of which is a single value: that one stays in a register. Reloading it would wait
// for the stores before, and rows of a matrix beside a column's values are short.
template <class Value, class T>
void run_row_and_one(void* const* p, int64_t n, bool first) {
  constexpr int size = Lane<T>::size;
  const T* const each = static_cast<const T*>(p[first ? 2 : 1]);
  const Lane<T> one(*static_cast<const T*>(p[first ? 1 : 2]));
  void* const y = p[0];
  const auto go = [&](const auto& value) {
    int64_t i = 0;
    for (; i + 4 * size <= n; i += 4 * size)
#pragma GCC unroll 4
      for (int u = 0; u < 4; ++u)
        result(y, i + u * size, value(Lane<T>::load(each + i + u * size)), size);
    for (; i < n; i += size) result(y, i, value(operand(each + i, n - i)), n - i);
  };
  if (first)
    go([&](Lane<T> x) { return Value::value(one, x, x, x); });
  else
    go([&](Lane<T> x) { return Value::value(x, one, x, x); });
}

// Runs Value over n elements. Short rows run four lanes at a time first; otherwise the value stands
// once in the code, for whole lanes and for the partial one at the end: reading past the end could
// fault, and writing past it would destroy a neighbour.
template <class Value, int operands, class T>
void run_row(void* const* p, int64_t n, unsigned repeated) {
  constexpr int size = Lane<T>::size;
  if constexpr (is_short<Value> && operands == 2)
    if (repeated == 2 || repeated == 4) return run_row_and_one<Value, T>(p, n, repeated == 2);
  alignas(TYCHO_LANE_BYTES) T room[operands][(is_short<Value> ? 4 : 1) * size];
  const Elements<T> a(p, 1, repeated, room[0]),
      b = operands > 1 ? Elements<T>(p, 2, repeated, room[operands > 1]) : a,
      c = operands > 2 ? Elements<T>(p, 3, repeated, room[operands > 2 ? 2 : 0]) : a,
      d = operands > 3 ? Elements<T>(p, 4, repeated, room[operands > 3 ? 3 : 0]) : a;
  void* const y = p[0];  // which a store could change, for all that the compiler knows
  int64_t i = 0;
  if constexpr (is_short<Value>)
    for (; i + 4 * size <= n; i += 4 * size)
#pragma GCC unroll 4
      for (int u = 0; u < 4; ++u) {
        const int at = u * size;
        const Lane<T> va = Lane<T>::load(a.at(i) + at);
        const Lane<T> vb = operands > 1 ? Lane<T>::load(b.at(i) + at) : va;
        const Lane<T> vc = operands > 2 ? Lane<T>::load(c.at(i) + at) : va;
        const Lane<T> vd = operands > 3 ? Lane<T>::load(d.at(i) + at) : va;
        result(y, i + at, Value::value(va, vb, vc, vd), size);
      }
  for (; i < n; i += size) {
    const int64_t left = n - i;
    const Lane<T> va = operand(a.at(i), left);
    const Lane<T> vb = operands > 1 ? operand(b.at(i), left) : va;
    const Lane<T> vc = operands > 2 ? operand(c.at(i), left) : va;
    const Lane<T> vd = operands > 3 ? operand(d.at(i), left) : va;
    result(y, i, Value::value(va, vb, vc, vd), left);
  }
}

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
