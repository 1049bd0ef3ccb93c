// The folds of cpu/reduce/fold.h with one component (sums, products, extremes) on lanes, and the
// two loops that drive them: over a run, and over rows.
#pragma once
#include "engine/cpu/lanes/fold_lanes.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Maps: what an element counts as, and what counts as nothing.
struct Itself {
  template <class T>
  static constexpr T pad = 0;
  template <class T>
  static TYCHO_INLINE Lane<T> map(Lane<T> x) {
    return x;
  }
};
struct Magnitude {
  template <class T>
  static constexpr T pad = 0;
  template <class T>
  static TYCHO_INLINE Lane<T> map(Lane<T> x) {
    return abs(x);
  }
};
struct NanIsZero {
  template <class T>
  static constexpr T pad = 0;
  template <class T>
  static TYCHO_INLINE Lane<T> map(Lane<T> x) {
    return select(x == x, x, Lane<T>(0));
  }
};
struct NonZero {
  template <class T>
  static constexpr T pad = 0;
  template <class T>
  static TYCHO_INLINE Lane<T> map(Lane<T> x) {
    return number(x != Lane<T>(0));
  }
};
struct Number {
  template <class T>
  static constexpr T pad = static_cast<T>(__builtin_nan(""));
  template <class T>
  static TYCHO_INLINE Lane<T> map(Lane<T> x) {
    return number(x == x);
  }
};

// An op: the accumulator A of a register of elements, and how it meets slots. `pad` fills up the
// last, partial register of a run; in rows the unused columns are dropped.
template <class T_, class Map>
struct Add {
  using T = T_;
  using A = Lane<T>;
  static TYCHO_INLINE T pad() { return Map::template pad<T>; }
  static TYCHO_INLINE A start() { return A(0); }
  static TYCHO_INLINE void step(A& a, Lane<T> x) { a += Map::map(x); }
  static TYCHO_INLINE void join(A& a, A b) { a += b; }
  static TYCHO_INLINE void fold(A a, Slot* s) {
    T v[A::size];
    a.store(v);
    auto sum = slot<T>(*s);
    for (int k = 0; k < A::size; ++k) sum = plus(sum, v[k]);
    slot<T>(*s) = sum;
  }
  static TYCHO_INLINE void flush(A a, Slot* s, int count) {
    T v[A::size];
    a.store(v);
    for (int k = 0; k < count; ++k) slot<T>(s[k]) = plus(slot<T>(s[k]), v[k]);
  }
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

// Squares of floats are summed as doubles: neither large nor small ones are lost.
struct AddSquares {
  using T = float;
  struct A {
    F64 low, high;
  };
  static TYCHO_INLINE T pad() { return 0; }
  static TYCHO_INLINE A start() { return {F64(0), F64(0)}; }
  static TYCHO_INLINE void step(A& a, F32 x) {
    const F64 low = low_half(x), high = high_half(x);
    a.low = fma(low, low, a.low);
    a.high = fma(high, high, a.high);
  }
  static TYCHO_INLINE void join(A& a, A b) {
    a.low += b.low;
    a.high += b.high;
  }
  static TYCHO_INLINE void fold(A a, Slot* s) {
    double v[F64::size];
    (a.low + a.high).store(v);
    for (int k = 0; k < F64::size; ++k) s->d += v[k];
  }
  static TYCHO_INLINE void flush(A a, Slot* s, int count) {
    double v[2 * F64::size];
    a.low.store(v);
    a.high.store(v + F64::size);
    for (int k = 0; k < count; ++k) s[k].d += v[k];
  }
  static void init(Slot* s, int64_t cap, int64_t n) { Add<float, Itself>::init(s, cap, n); }
  static void merge(Slot* to, int64_t a, const Slot* from, int64_t b, int64_t n) {
    Add<float, Itself>::merge(to, a, from, b, n);
  }
};
template <class T_>
struct Square {
  template <class T>
  static constexpr T pad = 0;
  template <class L>
  static TYCHO_INLINE L map(L x) {
    return x * x;
  }
};

template <class T_>
struct Multiply {
  using T = T_;
  using A = Lane<T>;
  static TYCHO_INLINE T pad() { return 1; }
  static TYCHO_INLINE A start() { return A(1); }
  static TYCHO_INLINE void step(A& a, Lane<T> x) { a *= x; }
  static TYCHO_INLINE void join(A& a, A b) { a *= b; }
  static TYCHO_INLINE void fold(A a, Slot* s) {
    T v[A::size];
    a.store(v);
    for (int k = 0; k < A::size; ++k) slot<T>(*s) = times(slot<T>(*s), v[k]);
  }
  static TYCHO_INLINE void flush(A a, Slot* s, int count) {
    T v[A::size];
    a.store(v);
    for (int k = 0; k < count; ++k) slot<T>(s[k]) = times(slot<T>(s[k]), v[k]);
  }
  static void init(Slot* s, int64_t, int64_t n) {
    for (int64_t j = 0; j < n; ++j) slot<T>(s[j]) = 1;
  }
  static void merge(Slot* to, int64_t, const Slot* from, int64_t, int64_t n) {
    for (int64_t j = 0; j < n; ++j) slot<T>(to[j]) = times(slot<T>(to[j]), slot<T>(from[j]));
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
  static TYCHO_INLINE T pad() { return worst; }
  static TYCHO_INLINE A start() { return {Lane<T>(worst), Lane<T>(0) != Lane<T>(0)}; }
  static TYCHO_INLINE Lane<T> pick(Lane<T> x, Lane<T> v) {
    return Largest ? larger(x, v) : smaller(x, v);
  }
  static TYCHO_INLINE void step(A& a, Lane<T> x) {
    x = Map::map(x);
    a.v = pick(x, a.v);
    if constexpr (!is_int<T>) a.nan = a.nan | (x != x);
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
    T v[Lane<T>::size];
    value(a).store(v);
    auto best = slot<T>(*s);
    for (int k = 0; k < Lane<T>::size; ++k)
      if (better<Largest, decltype(best)>(v[k], best)) best = v[k];
    slot<T>(*s) = best;
  }
  static TYCHO_INLINE void flush(A a, Slot* s, int count) {
    T v[Lane<T>::size];
    value(a).store(v);
    for (int k = 0; k < count; ++k)
      if (better<Largest, typename SlotOf<T>::S>(v[k], slot<T>(s[k]))) slot<T>(s[k]) = v[k];
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
// Padding must not look like an extreme magnitude.
template <class T_, bool Largest>
struct ExtremeMagnitude : Extreme<T_, Magnitude, Largest> {
  static TYCHO_INLINE T_ pad() { return Largest ? T_(0) : highest<T_>; }
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
  if (i < n) Op::step(a[0], load_part<T>(x + i, static_cast<int>(n - i), Op::pad()));
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
          Op::step(tile[full], load_part<T>(p + k * step + full * w, rest, Op::pad()));
    }
    for (; r < m; ++r) {
      const T* p = x + r * step;
      for (int64_t j = 0; j < full; ++j) Op::step(tile[j], Lane<T>::load(p + j * w));
      if (rest) Op::step(tile[full], load_part<T>(p + full * w, rest, Op::pad()));
    }
    for (int64_t j = 0; j < full; ++j) Op::flush(tile[j], s + j * w, w);
    if (rest) Op::flush(tile[full], s + full * w, rest);
    x += m * step;
    count -= m;
  }
}

template <class Op>
constexpr Fold make_fold() {
  return {1, Op::init, run<Op>, rows<Op>, Op::merge};
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
