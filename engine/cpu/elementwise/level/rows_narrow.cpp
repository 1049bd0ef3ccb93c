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

// The first n elements at p, fewer than a lane's, and zeros.
template <class T>
TYCHO_INLINE typename Narrow<T>::V load_few(const T* p, int64_t n) {
#if defined(TYCHO_LEVEL_v4)
  const uint64_t some = (uint64_t{1} << n) - 1;
  return sizeof(T) == 1 ? (typename Narrow<T>::V)_mm512_maskz_loadu_epi8(some, p)
         : sizeof(T) == 2
             ? (typename Narrow<T>::V)_mm512_maskz_loadu_epi16(static_cast<uint32_t>(some), p)
             : (typename Narrow<T>::V)_mm512_maskz_loadu_epi32(static_cast<uint16_t>(some), p);
#else
  typename Narrow<T>::V v = {};
  memcpy(&v, p, static_cast<size_t>(n) * sizeof(T));
  return v;
#endif
}
template <class V>
TYCHO_INLINE void store_few(char* y, V v, int64_t bytes) {
#if defined(TYCHO_LEVEL_v4)
  const uint64_t some = (uint64_t{1} << bytes) - 1;
  if constexpr (sizeof v == 64) _mm512_mask_storeu_epi8(y, some, (__m512i)v);
  if constexpr (sizeof v == 32) _mm256_mask_storeu_epi8(y, static_cast<uint32_t>(some), (__m256i)v);
  if constexpr (sizeof v == 16) _mm_mask_storeu_epi8(y, static_cast<uint16_t>(some), (__m128i)v);
#else
  memcpy(y, &v, static_cast<size_t>(bytes));
#endif
}

template <class T, bool truth>
struct NarrowElements : Elements<T> {
  using Elements<T>::Elements, Elements<T>::at;
  TYCHO_INLINE Narrow<T> get(int64_t i) const {
    typename Narrow<T>::V v;
    memcpy(&v, at(i), sizeof v);
    if constexpr (truth) v = (v != 0) & 1;
    return v;
  }
  // All of n elements, which are fewer than a lane's.
  TYCHO_INLINE Narrow<T> get_few(int64_t n) const {
    if (!this->mask) return get(0);
    typename Narrow<T>::V v = load_few(this->p, n);
    if constexpr (truth) v = (v != 0) & 1;
    return v;
  }
};

template <class T, bool truth>
TYCHO_INLINE auto to_store(Low<T> r) {
  if constexpr (truth) r.v = (r.v != 0) & 1;
  return r.v;
}
template <class T, bool truth>
TYCHO_INLINE auto to_store(NarrowMask<T> r) {
#if defined(TYCHO_LEVEL_v3)
  if constexpr (sizeof(T) > 1) {
    const __m128i some = truth_bytes<sizeof(T)>((__m256i)r.m);
    typename NarrowRaw<T>::Bytes bytes;
    memcpy(&bytes, &some, sizeof bytes);
    return bytes;
  } else
#endif
    return __builtin_convertvector(r.m, typename NarrowRaw<T>::Bytes) & 1;
}
// A lane of results, numbers or truth values, at elements i and behind.
template <class T, bool truth, class R>
TYCHO_INLINE void result(char* y, int64_t i, R r) {
  const auto v = to_store<T, truth>(r);
  memcpy(y + i * static_cast<int64_t>(sizeof v) / Narrow<T>::size, &v, sizeof v);
}

// As run_row in rows.h. Where the last lane is a partial one, a whole lane that ends there is computed
// before anything is written.
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
  const auto value = [&](int64_t i) __attribute__((always_inline)) {
    const L v0 = a.get(i), v1 = operands > 1 ? b.get(i) : v0, v2 = operands > 2 ? c.get(i) : v0,
            v3 = operands > 3 ? d.get(i) : v0;
    return Value::value(v0, v1, v2, v3);
  };
  char* to = static_cast<char*>(p[0]);
  const auto each_time = [&](auto&& row) __attribute__((always_inline)) {
    for (int64_t left = times.count;;) {
      row();
      if (!--left) return;
      to += times.step[0];
      a.go_on(times.step[1], room[0]);
      if constexpr (operands > 1) b.go_on(times.step[2], room[1]);
      if constexpr (operands > 2) c.go_on(times.step[3], room[2]);
      if constexpr (operands > 3) d.go_on(times.step[4], room[3]);
    }
  };
  if (n < size) {
    each_time([&]() __attribute__((always_inline)) {
      const L v0 = a.get_few(n), v1 = operands > 1 ? b.get_few(n) : v0,
              v2 = operands > 2 ? c.get_few(n) : v0, v3 = operands > 3 ? d.get_few(n) : v0;
      const auto v = to_store<T, truth>(Value::value(v0, v1, v2, v3));
      store_few(to, v, n * static_cast<int64_t>(sizeof v) / size);
    });
    return;
  }
  each_time([&]() __attribute__((always_inline)) {
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
  });
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
