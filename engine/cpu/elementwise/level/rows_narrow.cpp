// Every row of elementwise.def that has a value in narrow lanes, in lanes of the small integers and
// of bool, whose elements are 0 and 1 when they are read and when they are written.
#include "engine/cpu/elementwise/level/rows.h"
#include "engine/cpu/lanes/narrow.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// As Value_.. of row_values.h; what the value needs is part of its type.
#define ROW(name, operands, args, type, amp, doc, expression, ...)             \
  struct Narrow_##name {                                                       \
    template <class L>                                                         \
    static TYCHO_INLINE auto value([[maybe_unused]] L a, [[maybe_unused]] L b, \
                                   [[maybe_unused]] L c, [[maybe_unused]] L d) \
        -> decltype(expression) {                                              \
      return expression;                                                       \
    }                                                                          \
  };
#include "engine/ops/elementwise/elementwise.def"

// Rows of so few instructions that counting elements takes a good part of their time.
template <class Value>
constexpr bool is_brief =
    is_one_of<Value, Narrow_add, Narrow_add_alpha, Narrow_sub, Narrow_sub_alpha, Narrow_rsub,
              Narrow_mul, Narrow_neg, Narrow_abs, Narrow_square, Narrow_identity, Narrow_maximum,
              Narrow_minimum, Narrow_fmax, Narrow_fmin, Narrow_eq, Narrow_ne, Narrow_lt, Narrow_le,
              Narrow_gt, Narrow_ge, Narrow_logical_and, Narrow_logical_or, Narrow_logical_xor,
              Narrow_logical_not, Narrow_bitwise_and, Narrow_bitwise_or, Narrow_bitwise_xor,
              Narrow_bitwise_not, Narrow_where, Narrow_masked_fill, Narrow_sign, Narrow_relu>;

template <class T, bool truth>
struct NarrowElements : Elements<T> {
  using Elements<T>::Elements, Elements<T>::at;
  // All of n elements, which are fewer than a lane's, in `room`.
  TYCHO_INLINE NarrowElements few(int64_t n, T* room) const {
    memset(room, 0, Narrow<T>::size * sizeof(T));
    memcpy(room, this->p, static_cast<size_t>(n) * sizeof(T));
    return {room, this->mask};
  }
  TYCHO_INLINE Narrow<T> get(int64_t i) const {
    typename Narrow<T>::V v;
    memcpy(&v, at(i), sizeof v);
    if constexpr (truth) v = (v != 0) & 1;
    return v;
  }
};
template <class T, bool truth>
TYCHO_INLINE void result(char* y, int64_t i, Low<T> r) {
  if constexpr (truth) r.v = (r.v != 0) & 1;
  memcpy(y + i * static_cast<int64_t>(sizeof(T)), &r.v, sizeof r.v);
}
template <class T, bool truth>
TYCHO_INLINE void result(char* y, int64_t i, NarrowMask<T> r) {
#if defined(TYCHO_LEVEL_v3)
  if constexpr (sizeof(T) > 1) {
    const __m128i some = truth_bytes<sizeof(T)>((__m256i)r.m);
    memcpy(y + i, &some, Narrow<T>::size);
    return;
  }
#endif
  using Bytes = typename NarrowRaw<T>::Bytes;
  const Bytes bytes = __builtin_convertvector(r.m, Bytes) & 1;
  memcpy(y + i, &bytes, sizeof bytes);
}

// As run_row in rows.h. Where the last lane is a partial one, a whole lane that ends there is computed
// before anything is written; rows shorter than a lane pass through buffers.
template <class Value, int operands, class T, bool truth>
void run_narrow(void* const* p, int64_t n, unsigned repeated, const Times& times) {
  using L = Narrow<T>;
  constexpr int64_t size = L::size;
  using X = NarrowElements<T, truth>;
  alignas(TYCHO_LANE_BYTES) T room[operands][L::size];
  X a(p, 1, repeated, room[0]);
  X b = operands > 1 ? X(p, 2, repeated, room[operands > 1]) : a;
  X c = operands > 2 ? X(p, 3, repeated, room[operands > 2 ? 2 : 0]) : a;
  X d = operands > 3 ? X(p, 4, repeated, room[operands > 3 ? 3 : 0]) : a;
  const auto value_of = [](const X& x0, const X& x1, const X& x2, const X& x3, int64_t i)
      __attribute__((always_inline)) {
    const L v0 = x0.get(i), v1 = operands > 1 ? x1.get(i) : v0, v2 = operands > 2 ? x2.get(i) : v0,
            v3 = operands > 3 ? x3.get(i) : v0;
    return Value::value(v0, v1, v2, v3);
  };
  const auto value = [&](int64_t i) __attribute__((always_inline)) {
    return value_of(a, b, c, d, i);
  };
  constexpr bool test = !requires(L x, Low<T> r) { r = Value::value(x, x, x, x); };
  constexpr int64_t bytes = test ? 1 : sizeof(T);
  char* to = static_cast<char*>(p[0]);
  for (int64_t left = times.count;;) {
    if (n < size) {
      char y[TYCHO_LANE_BYTES];
      T part[4][L::size];
      result<T, truth>(
          y, 0,
          value_of(a.few(n, part[0]), operands > 1 ? b.few(n, part[1]) : a,
                   operands > 2 ? c.few(n, part[2]) : a, operands > 3 ? d.few(n, part[3]) : a, 0));
      memcpy(to, y, static_cast<size_t>(n * bytes));
    } else {
      decltype(value(0)) last;
      if (n % size) last = value(n - size);
      int64_t i = 0;
      if constexpr (is_brief<Value>)
        for (; i + 4 * size <= n; i += 4 * size)
#pragma GCC unroll 4
          for (int64_t u = 0; u < 4; ++u) result<T, truth>(to, i + u * size, value(i + u * size));
#pragma GCC unroll 1
      for (; i + size <= n; i += size) result<T, truth>(to, i, value(i));
      if (n % size) result<T, truth>(to, n - size, last);
    }
    if (!--left) return;
    to += times.step[0];
    a.go_on(times.step[1], room[0]);
    if constexpr (operands > 1) b.go_on(times.step[2], room[1]);
    if constexpr (operands > 2) c.go_on(times.step[3], room[2]);
    if constexpr (operands > 3) d.go_on(times.step[4], room[3]);
  }
}

template <class T, bool truth, LevelType type, class Value, int operands>
constexpr RowFn pick_narrow() {
  if constexpr (!has_ints(type))
    return nullptr;
  else if constexpr (requires(Narrow<T> a) { Value::value(a, a, a, a); })
    return run_narrow<Value, operands, T, truth>;
  else
    return nullptr;
}

template <class T, bool truth>
RowFn narrow_row(int row) {
  static constexpr RowFn table[] = {
#define ROW(name, operands, args, type, ...) \
  pick_narrow<T, truth, LevelType::type, Narrow_##name, operands>(),
#include "engine/ops/elementwise/elementwise.def"
  };
  return table[row];
}

}  // namespace

RowFn row_narrow(int lanes, int row) {
  switch (static_cast<Lanes>(lanes)) {
    case Lanes::Truth:
      return narrow_row<uint8_t, true>(row);
    case Lanes::U8:
      return narrow_row<uint8_t, false>(row);
    case Lanes::I8:
      return narrow_row<int8_t, false>(row);
    case Lanes::I16:
      return narrow_row<int16_t, false>(row);
    case Lanes::I32:
      return narrow_row<int32_t, false>(row);
    default:
      return nullptr;
  }
}

}  // namespace tycho::cpu::TYCHO_LEVEL
