// Every row of elementwise.def that has a value in narrow lanes, in lanes of the small integers and
// of bool, whose elements are 0 and 1 when they are read and when they are written.
#include "engine/cpu/elementwise/level/row_values.h"
#include "engine/cpu/elementwise/rows.h"
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

template <class T, bool truth>
TYCHO_INLINE Narrow<T> operand(const T* p) {
  typename Narrow<T>::V v;
  memcpy(&v, p, sizeof v);
  if constexpr (truth) v = (v != 0) & 1;
  return v;
}
template <class T, bool truth>
TYCHO_INLINE void result(char* y, int64_t i, Low<T> r) {
  if constexpr (truth) r.v = (r.v != 0) & 1;
  memcpy(y + i * static_cast<int64_t>(sizeof(T)), &r.v, sizeof r.v);
}
template <class T, bool truth>
TYCHO_INLINE void result(char* y, int64_t i, NarrowMask<T> r) {
  using Bytes = typename NarrowRaw<T>::Bytes;
  const Bytes bytes = __builtin_convertvector(r.m, Bytes) & 1;
  memcpy(y + i, &bytes, sizeof bytes);
}

// As run_row in rows.h. Where the last lane is a partial one, a whole lane that ends there is computed
// before anything is written, or what there is passes through buffers.
template <class Value, int operands, class T, bool truth>
void run_narrow(void* const* p, int64_t n) {
  using L = Narrow<T>;
  constexpr int64_t size = L::size;
  const T* from[4];
  for (int k = 0; k < 4; k++) from[k] = static_cast<const T*>(p[k < operands ? k + 1 : 1]);
  const auto step = [](char* y, const T* const* x, int64_t i) {
    const L a = operand<T, truth>(x[0] + i);
    const L b = operands > 1 ? operand<T, truth>(x[1] + i) : a;
    const L c = operands > 2 ? operand<T, truth>(x[2] + i) : a;
    const L d = operands > 3 ? operand<T, truth>(x[3] + i) : a;
    result<T, truth>(y, i, Value::value(a, b, c, d));
  };
  constexpr bool test = !requires(L a, Low<T> r) { r = Value::value(a, a, a, a); };
  constexpr int64_t bytes = test ? 1 : sizeof(T);
  char* const to = static_cast<char*>(p[0]);
  char y[TYCHO_LANE_BYTES];
  T part[4][L::size];
  const T* last[4];
  if (n % size) {
    for (int k = 0; k < 4; k++) {
      last[k] = n < size ? part[k] : from[k] + (n - size);
      if (n >= size) continue;
      memset(part[k], 0, sizeof part[k]);
      memcpy(part[k], from[k], static_cast<size_t>(n) * sizeof(T));
    }
    step(y, last, 0);
  }
  for (int64_t i = 0; i + size <= n; i += size) step(to, from, i);
  if (n < size)
    memcpy(to, y, static_cast<size_t>(n * bytes));
  else if (n % size)
    memcpy(to + (n - size) * bytes, y, static_cast<size_t>(size * bytes));
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
