// The rows of ops/reduce/reduce.def (sums, products, extremes) on lanes: how elements meet in registers,
// and registers in slots.
#pragma once
#include "engine/cpu/lanes/fold_lanes.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Maps: what an element counts as.
struct Itself {
  template <class L>
  static TYCHO_INLINE L map(L x) {
    return x;
  }
};
#define FOLD(name, lanes, value, combine) \
  struct Value_##name {                   \
    template <class L>                    \
    static TYCHO_INLINE L map(L x) {      \
      return value;                       \
    }                                     \
  };
#include "engine/ops/reduce/reduce.def"

// An op: the accumulator A of a register of elements, and how it meets slots. `part` takes the
// last, partial register of a run, whose elements from `count` on are not there; in rows, columns
// that are not there are dropped. `fold` takes what `Meet` makes of `ends` across the register; `odd` says
// that it has to look at more than that.
template <class T_, class Map>
struct Add {
  using T = T_;
  using A = Lane<T>;
  static TYCHO_INLINE A start() { return A(0); }
  static TYCHO_INLINE void step(A& a, Lane<T> x) { a += Map::map(x); }
  static TYCHO_INLINE void part(A& a, Lane<T> x, int count) {
    a += select(first<T>(count), Map::map(x), Lane<T>(0));
  }
  static TYCHO_INLINE void join(A& a, A b) { a += b; }
  static TYCHO_INLINE A value(A a) { return a; }
  using Meet = Sum;
  static TYCHO_INLINE auto ends(A a) {
    if constexpr (sizeof(T) == 4)
      return low_half(a) + high_half(a);
    else
      return a;
  }
  static TYCHO_INLINE bool odd(A) { return false; }
  static TYCHO_INLINE void fold(A a, Slot* s) {
    slot<T>(*s) = plus(slot<T>(*s), across(ends(a), Sum()).v[0]);
  }
  static TYCHO_INLINE void flush(A a, Slot* s, int count) { join_slots(a, s, count, Sum()); }
  static void init(Slot* s, int64_t, int64_t n) {
    for (int64_t j = 0; j < n; ++j) slot<T>(s[j]) = 0;
  }
  static void merge(Slot* to, int64_t, const Slot* from, int64_t, int64_t n) {
    for (int64_t j = 0; j < n; ++j) slot<T>(to[j]) = plus(slot<T>(to[j]), slot<T>(from[j]));
  }
};

template <class Map>
struct AddFloats : Add<float, Map> {
  static constexpr bool kSumsOfFloats = true;
};

template <class T_, class Map>
struct Multiply {
  using T = T_;
  using A = Lane<T>;
  static TYCHO_INLINE A start() { return A(1); }
  static TYCHO_INLINE void step(A& a, Lane<T> x) { a *= Map::map(x); }
  static TYCHO_INLINE void part(A& a, Lane<T> x, int count) {
    a *= select(first<T>(count), Map::map(x), Lane<T>(1));
  }
  static TYCHO_INLINE void join(A& a, A b) { a *= b; }
  static TYCHO_INLINE A value(A a) { return a; }
  struct Product {
    template <class L>
    TYCHO_INLINE L operator()(L x, L y) const {
      return x * y;
    }
  };
  using Meet = Product;
  static TYCHO_INLINE A ends(A a) { return a; }
  static TYCHO_INLINE bool odd(A) { return false; }
  static TYCHO_INLINE void fold(A a, Slot* s) {
    slot<T>(*s) = times(slot<T>(*s), across(a, Product()).v[0]);
  }
  static TYCHO_INLINE void flush(A a, Slot* s, int count) { join_slots(a, s, count, Product()); }
  static void init(Slot* s, int64_t, int64_t n) {
    for (int64_t j = 0; j < n; ++j) slot<T>(s[j]) = 1;
  }
  static void merge(Slot* to, int64_t, const Slot* from, int64_t, int64_t n) {
    for (int64_t j = 0; j < n; ++j) slot<T>(to[j]) = times(slot<T>(to[j]), slot<T>(from[j]));
  }
};

// An op on doubles, for floats that are made doubles before they are mapped: neither large nor small
// values are lost.
template <class Double>
struct Wide {
  using T = float;
  struct A {
    F64 low, high;
  };
  static constexpr int w = F64::size;
  static TYCHO_INLINE A start() { return {Double::start(), Double::start()}; }
  static TYCHO_INLINE void step(A& a, F32 x) {
    Double::step(a.low, low_half(x));
    Double::step(a.high, high_half(x));
  }
  static TYCHO_INLINE void part(A& a, F32 x, int count) {
    const int low = count < w ? count : w;
    Double::part(a.low, low_half(x), low);
    Double::part(a.high, high_half(x), count - low);
  }
  static TYCHO_INLINE void join(A& a, A b) {
    Double::join(a.low, b.low);
    Double::join(a.high, b.high);
  }
  static TYCHO_INLINE F32 value(A a) { return tycho::cpu::TYCHO_LEVEL::join(a.low, a.high); }
  using Meet = typename Double::Meet;
  static TYCHO_INLINE F64 ends(A a) {
    Double::join(a.low, a.high);
    return a.low;
  }
  static TYCHO_INLINE bool odd(A) { return false; }
  static TYCHO_INLINE void fold(A a, Slot* s) { Double::fold(ends(a), s); }
  static TYCHO_INLINE void flush(A a, Slot* s, int count) {
    Double::flush(a.low, s, count);
    Double::flush(a.high, s + w, count - w);
  }
  static void init(Slot* s, int64_t cap, int64_t n) { Double::init(s, cap, n); }
  static void merge(Slot* to, int64_t a, const Slot* from, int64_t b, int64_t n) {
    Double::merge(to, a, from, b, n);
  }
};

// Products of floats: some steps as floats, whose product is then taken in as double. Where that is no
// normal number, something may have been lost on the way, and the steps are made again in double.
template <class Map>
struct MultiplyFloats : Wide<Multiply<double, Map>> {
  using Exact = Wide<Multiply<double, Map>>;
  using Quick = Multiply<float, Map>;
  using A = typename Exact::A;
  static constexpr int64_t steps = 32;
  static TYCHO_INLINE bool sound(F32 product) {
    const F32 size = abs(product);
    return !any(~(size >= F32(__FLT_MIN__)) | (size > F32(__FLT_MAX__)));
  }
  static TYCHO_INLINE void take(A& a, F32 product) {
    a.low *= low_half(product);
    a.high *= high_half(product);
  }
};
// Sums of floats that may be too large or too small by themselves, squares above all: the same way. What
// is lost below the least sound sum is nothing beside it.
template <class Map>
struct AddWide : Wide<Add<double, Map>> {
  using Exact = Wide<Add<double, Map>>;
  using Quick = Add<float, Map>;
  using A = typename Exact::A;
  static constexpr int64_t steps = 32;
  static TYCHO_INLINE bool sound(F32 sum) {
    return !any(~(sum >= F32(1e-24f)) | (sum > F32(__FLT_MAX__)));
  }
  static TYCHO_INLINE void take(A& a, F32 sum) {
    a.low += low_half(sum);
    a.high += high_half(sum);
  }
};
template <class Op>
concept HasQuick = requires {
  typename Op::Quick;
};
// What rows go through, and how many before the slots take it.
template <class Op>
struct RowsOf {
  using Fast = Op;
  static constexpr int64_t steps = 128;
};
template <HasQuick Op>
struct RowsOf<Op> {
  using Fast = typename Op::Quick;
  static constexpr int64_t steps = Op::steps;
};

// Is x the better extreme, where nan is better than all and the earlier one stays?
template <bool Largest, class S>
TYCHO_INLINE bool better(S x, S than) {
  if constexpr (is_int<S>) {
    return Largest ? x > than : x < than;
  } else {
    return than == than && (Largest ? !(x <= than) : !(x >= than));
  }
}

template <class T_, class Map, bool Largest>
struct Extreme {
  using T = T_;
  struct A {
    Lane<T> v;
    Mask<T> nan;
  };
  static constexpr bool kExact = true;
  static constexpr T worst = Largest ? lowest<T> : highest<T>;
  static TYCHO_INLINE A start() { return {Lane<T>(worst), Lane<T>(0) != Lane<T>(0)}; }
  static TYCHO_INLINE Lane<T> pick(Lane<T> x, Lane<T> v) {
    return Largest ? larger(x, v) : smaller(x, v);
  }
  static TYCHO_INLINE void take(A& a, Lane<T> value) {
    a.v = pick(value, a.v);
    if constexpr (!is_int<T>) a.nan = a.nan | (value != value);
  }
  static TYCHO_INLINE void step(A& a, Lane<T> x) { take(a, Map::map(x)); }
  static TYCHO_INLINE void part(A& a, Lane<T> x, int count) {
    take(a, select(first<T>(count), Map::map(x), Lane<T>(worst)));
  }
  static TYCHO_INLINE void join(A& a, A b) {
    a.v = pick(b.v, a.v);
    if constexpr (!is_int<T>) a.nan = a.nan | b.nan;
  }
  static TYCHO_INLINE Lane<T> value(A a) {
    if constexpr (is_int<T>) {
      return a.v;
    } else {
      return select(a.nan, Lane<T>(__builtin_nan("")), a.v);
    }
  }
  struct Meet {
    template <class L>
    TYCHO_INLINE L operator()(L x, L y) const {
      return Largest ? larger(x, y) : smaller(x, y);
    }
  };
  static TYCHO_INLINE auto ends(A a) {
    if constexpr (sizeof(T) == 4)
      return Meet()(low_half(a.v), high_half(a.v));
    else
      return a.v;
  }
  static TYCHO_INLINE bool odd(A a) {
    if constexpr (is_int<T>) return false;
    return any(a.nan);
  }
  static TYCHO_INLINE void fold(A a, Slot* s) {
    typename SlotOf<T>::S best = across(ends(a), Meet()).v[0];
    if (odd(a)) best = static_cast<typename SlotOf<T>::S>(__builtin_nan(""));
    if (better<Largest>(best, slot<T>(*s))) slot<T>(*s) = best;
  }
  struct Better {  // of a slot and an element: nan wins
    template <class L>
    TYCHO_INLINE L operator()(L slot, L x) const {
      const L best = Largest ? larger(x, slot) : smaller(x, slot);
      if constexpr (is_int<T>)
        return best;
      else
        return select(x != x, x, best);
    }
  };
  static TYCHO_INLINE void flush(A a, Slot* s, int count) {
    join_slots(value(a), s, count, Better());
  }
  static void init(Slot* s, int64_t, int64_t n) {
    for (int64_t j = 0; j < n; ++j) slot<T>(s[j]) = worst;
  }
  static void merge(Slot* to, int64_t, const Slot* from, int64_t, int64_t n) {
    for (int64_t j = 0; j < n; ++j)
      if (better<Largest, typename SlotOf<T>::S>(slot<T>(from[j]), slot<T>(to[j])))
        slot<T>(to[j]) = slot<T>(from[j]);
  }
};

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
