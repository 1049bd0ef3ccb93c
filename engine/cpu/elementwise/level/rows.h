// Loops over one lane type for the rows of elementwise.def. Included by rows_f32.cpp, rows_f64.cpp
// and rows_i64.cpp, which only choose the lane, and where other lanes share some of it.
#pragma once
#include "engine/cpu/elementwise/level/row_values.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/lanes/stream.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Where the elements of an operand are. One value for all of them is spread over `room` first, and `mask` is 0.
template <class T>
struct Elements {
  const T* p;
  int64_t mask;
  const T* from;  // where they lie
  TYCHO_INLINE Elements(const T* all, int64_t m) : p(all), mask(m), from(all) {}
  template <int n>
  TYCHO_INLINE Elements(void* const* all, int k, unsigned repeated, T (&room)[n])
      : Elements(static_cast<const T*>(all[k]), static_cast<int64_t>(repeated >> k & 1) - 1) {
    spread(room);
  }
  TYCHO_INLINE const T* at(int64_t i) const { return p + (i & mask); }
  // To those of the next time.
  template <int n>
  TYCHO_INLINE void go_on(int64_t bytes, T (&room)[n]) {
    if (!bytes) return;
    p = from = reinterpret_cast<const T*>(reinterpret_cast<const char*>(from) + bytes);
    spread(room);
  }

 private:
  template <int n>
  TYCHO_INLINE void spread(T (&room)[n]) {
    if (mask) return;
    typedef T V __attribute__((vector_size(TYCHO_LANE_BYTES)));
    const V v = *p - V{};  // keeps the sign of a zero
    for (int i = 0; i < n; i += static_cast<int>(sizeof v / sizeof(T)))
      memcpy(room + i, &v, sizeof v);
    p = room;
  }
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

// Whole lanes past the caches, if their places fit: how many elements they were. One at a time: memory is
// quicker when reads and writes take turns.
template <class T, class F>
TYCHO_INLINE int64_t pass_lanes(char* y, int64_t n, F value) {
  constexpr int size = Lane<T>::size;
  int64_t i = 0;
  if constexpr (__is_same(decltype(value(0)), Lane<T>)) {
    if (reinterpret_cast<uintptr_t>(y) % TYCHO_LANE_BYTES) return 0;
#pragma GCC unroll 1
    for (; i + size <= n; i += size)
      pass(y + i * static_cast<int64_t>(sizeof(T)), as_bytes(value(i)));
  }
  return i;
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
              Value_signbit, Value_isnan, Value_isinf, Value_isfinite, Value_fmax, Value_fmin,
              Value_logical_xor, Value_bitwise_and, Value_bitwise_or, Value_bitwise_xor,
              Value_bitwise_not, Value_bitwise_left_shift, Value_bitwise_right_shift>;

// Of one operand or two. One that is a single value stays in a register: reloading it would wait for the
// stores before. Rows of a matrix may be shorter than a lane, so there is next to nothing around them. Parts of
// lanes are slow to store: where a row is longer, a whole lane that ends with it takes their place (`overlaps`),
// computed before anything is written.
template <class Value, int operands, bool one_a, bool one_b, bool overlaps, class T>
void run_short_rows(void* const* p, int64_t n, const Times& times) {
  constexpr int size = Lane<T>::size;
  constexpr bool two = operands == 2;
  char* y = static_cast<char*>(p[0]);
  const char *from_a = static_cast<const char*>(p[1]),
             *from_b = two ? static_cast<const char*>(p[2]) : from_a;
  for (int64_t left = times.count;;) {
    const T *const a = reinterpret_cast<const T*>(from_a), *const b =
                                                               reinterpret_cast<const T*>(from_b);
    const Lane<T> va(one_a ? *a : T()), vb(one_b ? *b : T());
    const auto value = [&](int64_t i) __attribute__((always_inline)) {
      const Lane<T> x = one_a ? va : Lane<T>::load(a + i), z = one_b ? vb
                                                               : two ? Lane<T>::load(b + i)
                                                                     : x;
      return Value::value(x, z, x, x);
    };
    [[maybe_unused]] decltype(value(0)) last;
    if constexpr (overlaps) last = value(n - size);
    int64_t i = times.past_caches ? pass_lanes<T>(y, n, value) : 0;
    for (; i + 4 * size <= n; i += 4 * size)
#pragma GCC unroll 4
      for (int u = 0; u < 4; ++u) result(y, i + u * size, value(i + u * size), size);
#pragma GCC unroll 1
    for (; i + size <= n; i += size) result(y, i, value(i), size);
    if constexpr (overlaps) {
      result(y, n - size, last, size);
    } else if (i < n) {
      const Lane<T> x = one_a ? va : load_some(a + i, n - i), z = one_b ? vb
                                                                  : two ? load_some(b + i, n - i)
                                                                        : x;
      result(y, i, Value::value(x, z, x, x), n - i);
    }
    if (!--left) return;
    y += times.step[0], from_a += times.step[1], from_b += times.step[2];
  }
}

template <class Value, int operands, bool one_a, bool one_b, class T>
void run_short(void* const* p, int64_t n, const Times& times) {
  if (n > Lane<T>::size && n % Lane<T>::size)
    return run_short_rows<Value, operands, one_a, one_b, true, T>(p, n, times);
  run_short_rows<Value, operands, one_a, one_b, false, T>(p, n, times);
}

// Runs Value over n elements. Short rows run four lanes at a time first, and then one; otherwise the value
// stands once in the code, for whole lanes and for the partial one at the end: reading past the end could
// fault, and writing past it would destroy a neighbour.
template <class Value, int operands, class T>
void run_row(void* const* p, int64_t n, unsigned repeated, const Times& times) {
  constexpr int size = Lane<T>::size;
  if constexpr (is_short<Value> && operands == 1) {
    return repeated ? run_short<Value, 1, true, true, T>(p, n, times)
                    : run_short<Value, 1, false, false, T>(p, n, times);
  } else if constexpr (is_short<Value> && operands == 2) {
    return repeated == 6   ? run_short<Value, 2, true, true, T>(p, n, times)
           : repeated == 2 ? run_short<Value, 2, true, false, T>(p, n, times)
           : repeated == 4 ? run_short<Value, 2, false, true, T>(p, n, times)
                           : run_short<Value, 2, false, false, T>(p, n, times);
  } else {
    alignas(TYCHO_LANE_BYTES) T room[operands][(is_short<Value> ? 4 : 1) * size];
    Elements<T> a(p, 1, repeated, room[0]);
    Elements<T> b = operands > 1 ? Elements<T>(p, 2, repeated, room[operands > 1]) : a;
    Elements<T> c = operands > 2 ? Elements<T>(p, 3, repeated, room[operands > 2 ? 2 : 0]) : a;
    Elements<T> d = operands > 3 ? Elements<T>(p, 4, repeated, room[operands > 3 ? 3 : 0]) : a;
    char* y = static_cast<char*>(p[0]);
    for (int64_t left = times.count;;) {
      const auto lane = [&](int64_t i, int at, int64_t most) __attribute__((always_inline)) {
        const Lane<T> va = operand(a.at(i) + at, most);
        const Lane<T> vb = operands > 1 ? operand(b.at(i) + at, most) : va;
        const Lane<T> vc = operands > 2 ? operand(c.at(i) + at, most) : va;
        const Lane<T> vd = operands > 3 ? operand(d.at(i) + at, most) : va;
        return Value::value(va, vb, vc, vd);
      };
      decltype(lane(0, 0, size)) last;
      const bool overlaps = is_short<Value> && n > size && n % size;
      if (overlaps) last = lane(n - size, 0, size);
      int64_t i = 0;
      if constexpr (is_short<Value>) {
        if (times.past_caches)
          i = pass_lanes<T>(
              y, n, [&](int64_t k) __attribute__((always_inline)) { return lane(k, 0, size); });
        for (; i + 4 * size <= n; i += 4 * size)
#pragma GCC unroll 4
          for (int u = 0; u < 4; ++u) result(y, i + u * size, lane(i, u * size, size), size);
#pragma GCC unroll 1
        for (; i + size <= n; i += size) result(y, i, lane(i, 0, size), size);
        if (overlaps)
          result(y, n - size, last, size);
        else if (i < n)
          result(y, i, lane(i, 0, n - i), n - i);
      } else {
        for (; i < n; i += size) result(y, i, lane(i, 0, n - i), n - i);
      }
      if (!--left) return;
      y += times.step[0];
      a.go_on(times.step[1], room[0]);
      if constexpr (operands > 1) b.go_on(times.step[2], room[1]);
      if constexpr (operands > 2) c.go_on(times.step[3], room[2]);
      if constexpr (operands > 3) d.go_on(times.step[4], room[3]);
    }
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
