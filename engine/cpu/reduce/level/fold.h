// The rows of ops/reduce/reduce.def (sums, products, extremes) on lanes, and the two loops that
// drive them: over a run, and over rows.
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
// that are not there are dropped.
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
  static TYCHO_INLINE void fold(A a, Slot* s) {
    if constexpr (sizeof(T) == 4)
      s->d += across(low_half(a) + high_half(a), Sum()).v[0];
    else
      slot<T>(*s) = plus(slot<T>(*s), across(a, Sum()).v[0]);
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
    TYCHO_INLINE A operator()(A x, A y) const { return x * y; }
  };
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
  static TYCHO_INLINE void fold(A a, Slot* s) {
    Double::join(a.low, a.high);
    Double::fold(a.low, s);
  }
  static TYCHO_INLINE void flush(A a, Slot* s, int count) {
    Double::flush(a.low, s, count);
    Double::flush(a.high, s + w, count - w);
  }
  static void init(Slot* s, int64_t cap, int64_t n) { Double::init(s, cap, n); }
  static void merge(Slot* to, int64_t a, const Slot* from, int64_t b, int64_t n) {
    Double::merge(to, a, from, b, n);
  }
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
  static TYCHO_INLINE void fold(A a, Slot* s) {
    T best =
        across(
            a.v, [](Lane<T> x, Lane<T> y) __attribute__((always_inline)) { return pick(x, y); })
            .v[0];
    if constexpr (!is_int<T>)
      if (any(a.nan)) best = static_cast<T>(__builtin_nan(""));
    if (better<Largest, typename SlotOf<T>::S>(best, slot<T>(*s))) slot<T>(*s) = best;
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
// At most this many elements go through the registers before the state moves to its slot.
template <class T>
constexpr int64_t run_block = 8 * Lane<T>::size * 32;

template <class Op>
TYCHO_INLINE typename Op::A accumulate(const typename Op::T* x, int64_t n) {
  using T = typename Op::T;
  constexpr int w = Lane<T>::size;
  typename Op::A a[8] = {Op::start()};
  int64_t i = 0;
  if (n >= 8 * w) {
    for (int u = 1; u < 8; ++u) a[u] = Op::start();
    for (; i + 8 * w <= n; i += 8 * w)
#pragma GCC unroll 8
      for (int u = 0; u < 8; ++u) Op::step(a[u], Lane<T>::load(x + i + u * w));
    for (int u = 4; u; u /= 2)
      for (int k = 0; k < u; ++k) Op::join(a[k], a[k + u]);
  }
  for (; i + w <= n; i += w) Op::step(a[0], Lane<T>::load(x + i));
  if (i < n) {
    const int count = static_cast<int>(n - i);
    Op::part(a[0], load_part<T>(x + i, count, 0), count);
  }
  return a[0];
}

template <class Op>
void run(const void* px, int64_t n, int64_t, Slot* s, int64_t) {
  using T = typename Op::T;
  const T* x = static_cast<const T*>(px);
  if constexpr (requires { Op::kSumsOfFloats; }) {
    // 16 steps, and then in double: even equal addends, whose rounding errors add up, lose little.
    constexpr int w = Lane<T>::size, block = 8 * w * 16;
    for (; n >= block; x += block, n -= block) {
      typename Op::A a[8];
      for (int u = 0; u < 8; ++u) a[u] = Op::start();
      for (int64_t i = 0; i < block; i += 8 * w)
#pragma GCC unroll 8
        for (int u = 0; u < 8; ++u) Op::step(a[u], Lane<T>::load(x + i + u * w));
      F64 sum(0);
      for (int u = 0; u < 8; ++u) sum += low_half(a[u]) + high_half(a[u]);
      Add<double, Itself>::fold(sum, s);
    }
  }
  while (n > 0) {
    const int64_t m = n < run_block<T> ? n : run_block<T>;
    Op::fold(accumulate<Op>(x, m), s);
    x += m;
    n -= m;
  }
}

template <class Op>
void rows(const void* px, int64_t step, int64_t count, int64_t cols, int64_t, Slot* s, int64_t) {
  using T = typename Op::T;
  constexpr int w = Lane<T>::size;
  const int64_t full = cols / w;
  const int rest = static_cast<int>(cols % w);
  typename Op::A tile[kFoldCols / w + 1];
  const T* x = static_cast<const T*>(px);
  while (count > 0) {
    const int64_t m = count < 128 ? count : 128;
    for (int64_t j = 0; j < full + (rest != 0); ++j) tile[j] = Op::start();
    int64_t r = 0;
    for (; r + 4 <= m; r += 4) {
      const T *p = x + r * step, *q = p + step, *u = q + step, *v = u + step;
      for (int64_t j = 0; j < full; ++j) {
        typename Op::A a = tile[j];
        Op::step(a, Lane<T>::load(p + j * w));
        Op::step(a, Lane<T>::load(q + j * w));
        Op::step(a, Lane<T>::load(u + j * w));
        Op::step(a, Lane<T>::load(v + j * w));
        tile[j] = a;
      }
      if (rest)
        for (int k = 0; k < 4; ++k)
          Op::step(tile[full], load_part<T>(p + k * step + full * w, rest, 0));
    }
    for (; r < m; ++r) {
      const T* p = x + r * step;
      for (int64_t j = 0; j < full; ++j) Op::step(tile[j], Lane<T>::load(p + j * w));
      if (rest) Op::step(tile[full], load_part<T>(p + full * w, rest, 0));
    }
    for (int64_t j = 0; j < full; ++j) Op::flush(tile[j], s + j * w, w);
    if (rest) Op::flush(tile[full], s + full * w, rest);
    x += m * step;
    count -= m;
  }
}

// n registers of columns.
template <class Op, int n>
TYCHO_INLINE void shallow_at(const typename Op::T* x, int64_t step, int64_t count, double by,
                             typename Op::T* to, int rest) {
  using T = typename Op::T;
  constexpr int w = Lane<T>::size;
  typename Op::A a[n];
  for (int k = 0; k < n; ++k) a[k] = Op::start();
  for (int64_t r = 0; r < count; ++r, x += step)
#pragma GCC unroll 4
    for (int k = 0; k < n; ++k)
      Op::step(a[k], rest ? load_part<T>(x, rest, 0) : Lane<T>::load(x + k * w));
#pragma GCC unroll 4
  for (int k = 0; k < n; ++k) {
    Lane<T> y = Op::value(a[k]);
    if constexpr (sizeof(T) == 4) {
      if (by != 1) y = join(low_half(y) / F64(by), high_half(y) / F64(by));
    } else if constexpr (!is_int<T>) {
      if (by != 1) y = y / Lane<T>(by);
    }
    if (rest)
      store_part(y, to, rest);
    else
      y.store(to + k * w);
  }
}
template <class Op>
void shallow(const void* px, int64_t step, int64_t count, int64_t cols, double by, void* to) {
  using T = typename Op::T;
  constexpr int w = Lane<T>::size;
  const T* x = static_cast<const T*>(px);
  T* y = static_cast<T*>(to);
  int64_t j = 0;
  for (; j + 4 * w <= cols; j += 4 * w) shallow_at<Op, 4>(x + j, step, count, by, y + j, 0);
  for (; j + w <= cols; j += w) shallow_at<Op, 1>(x + j, step, count, by, y + j, 0);
  if (j < cols) shallow_at<Op, 1>(x + j, step, count, by, y + j, static_cast<int>(cols - j));
}

template <class T, auto run>
void each(const void* px, int64_t step, int64_t count, int64_t n, Slot* s, int64_t cap) {
  const T* x = static_cast<const T*>(px);
  for (int64_t k = 0; k < count; ++k) run(x + k * step, n, 0, s + k, cap);
}

template <class Op>
constexpr Fold make_fold() {
  return {1, Op::init, run<Op>, each<typename Op::T, run<Op>>, rows<Op>, Op::merge, shallow<Op>};
}

// The op of a row in lanes of T.
template <Combine combine, class T, class Map>
struct OpOf {
  using Op = Add<T, Map>;
};
template <class Map>
struct OpOf<Combine::Sum, float, Map> {
  using Op = AddFloats<Map>;
};
template <class Map>
struct OpOf<Combine::WideSum, float, Map> {
  using Op = Wide<Add<double, Map>>;
};
template <class T, class Map>
struct OpOf<Combine::Product, T, Map> {
  using Op = Multiply<T, Map>;
};
template <class Map>
struct OpOf<Combine::Product, float, Map> {
  using Op = Wide<Multiply<double, Map>>;
};
template <class T, class Map>
struct OpOf<Combine::Largest, T, Map> {
  using Op = Extreme<T, Map, true>;
};
template <class T, class Map>
struct OpOf<Combine::Smallest, T, Map> {
  using Op = Extreme<T, Map, false>;
};
template <class T, FoldOp op, class Map>
constexpr Fold row_fold() {
  constexpr FoldRow row = fold_rows[static_cast<int>(op)];
  if constexpr (shared_fold(op) != op || (is_int<T> && row.lanes == FoldLanes::Floats))
    return {};
  else
    return make_fold<typename OpOf<row.combine, T, Map>::Op>();
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
