// The folds of cpu/fold.h on lanes; included by reduce_f32.cpp, reduce_f64.cpp, reduce_i64.cpp.
#pragma once
#include "engine/cpu/fold.h"
#include "engine/cpu/level/math_basic.h"
#include "engine/cpu/level/math_int.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

template <class T>
constexpr bool is_int = static_cast<T>(0.5) == T(0);

// What a slot holds for lane type T.
template <class T>
struct SlotOf {
  using S = double;
  static TYCHO_INLINE S& get(Slot& s) { return s.d; }
  static TYCHO_INLINE S get(const Slot& s) { return s.d; }
};
template <>
struct SlotOf<int64_t> {
  using S = int64_t;
  static TYCHO_INLINE S& get(Slot& s) { return s.i; }
  static TYCHO_INLINE S get(const Slot& s) { return s.i; }
};
template <class T>
TYCHO_INLINE auto& slot(Slot& s) {
  return SlotOf<T>::get(s);
}
template <class T>
TYCHO_INLINE auto slot(const Slot& s) {
  return SlotOf<T>::get(s);
}
// Integers wrap, which signed C++ arithmetic must not.
TYCHO_INLINE double plus(double a, double b) { return a + b; }
TYCHO_INLINE int64_t plus(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
TYCHO_INLINE double times(double a, double b) { return a * b; }
TYCHO_INLINE int64_t times(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}

// b where a is not larger (or smaller), or either is nan.
TYCHO_INLINE F32 larger(F32 a, F32 b) {
#if defined(TYCHO_LEVEL_v4)
  return F32((F32::V)_mm512_maskz_max_ps(-1, (__m512)a.v, (__m512)b.v));
#elif defined(TYCHO_LEVEL_v3)
  return F32((F32::V)_mm256_max_ps((__m256)a.v, (__m256)b.v));
#else
  return F32((F32::V)_mm_max_ps((__m128)a.v, (__m128)b.v));
#endif
}
TYCHO_INLINE F64 larger(F64 a, F64 b) {
#if defined(TYCHO_LEVEL_v4)
  return F64((F64::V)_mm512_maskz_max_pd(-1, (__m512d)a.v, (__m512d)b.v));
#elif defined(TYCHO_LEVEL_v3)
  return F64((F64::V)_mm256_max_pd((__m256d)a.v, (__m256d)b.v));
#else
  return F64((F64::V)_mm_max_pd((__m128d)a.v, (__m128d)b.v));
#endif
}
TYCHO_INLINE I64 larger(I64 a, I64 b) { return select(a > b, a, b); }
TYCHO_INLINE F32 smaller(F32 a, F32 b) {
#if defined(TYCHO_LEVEL_v4)
  return F32((F32::V)_mm512_maskz_min_ps(-1, (__m512)a.v, (__m512)b.v));
#elif defined(TYCHO_LEVEL_v3)
  return F32((F32::V)_mm256_min_ps((__m256)a.v, (__m256)b.v));
#else
  return F32((F32::V)_mm_min_ps((__m128)a.v, (__m128)b.v));
#endif
}
TYCHO_INLINE F64 smaller(F64 a, F64 b) {
#if defined(TYCHO_LEVEL_v4)
  return F64((F64::V)_mm512_maskz_min_pd(-1, (__m512d)a.v, (__m512d)b.v));
#elif defined(TYCHO_LEVEL_v3)
  return F64((F64::V)_mm256_min_pd((__m256d)a.v, (__m256d)b.v));
#else
  return F64((F64::V)_mm_min_pd((__m128d)a.v, (__m128d)b.v));
#endif
}
TYCHO_INLINE I64 smaller(I64 a, I64 b) { return select(a < b, a, b); }

// The two halves of a float lane as doubles.
TYCHO_INLINE F64 low_half(F32 x) {
#if defined(TYCHO_LEVEL_v4)
  return F64((F64::V)_mm512_maskz_cvtps_pd(-1, _mm512_castps512_ps256((__m512)x.v)));
#elif defined(TYCHO_LEVEL_v3)
  return F64((F64::V)_mm256_cvtps_pd(_mm256_castps256_ps128((__m256)x.v)));
#else
  return F64((F64::V)_mm_cvtps_pd((__m128)x.v));
#endif
}
TYCHO_INLINE F64 high_half(F32 x) {
#if defined(TYCHO_LEVEL_v4)
  return F64(
      (F64::V)_mm512_maskz_cvtps_pd(-1, (__m256)_mm512_maskz_extractf64x4_pd(-1, (__m512d)x.v, 1)));
#elif defined(TYCHO_LEVEL_v3)
  return F64((F64::V)_mm256_cvtps_pd(_mm256_extractf128_ps((__m256)x.v, 1)));
#else
  return F64((F64::V)_mm_cvtps_pd(_mm_movehl_ps((__m128)x.v, (__m128)x.v)));
#endif
}

// What every element beats: the largest value, or the smallest.
template <class T>
constexpr T highest = infinity<T>;
template <>
constexpr int64_t highest<int64_t> = INT64_MAX;
template <class T>
constexpr T lowest = -infinity<T>;
template <>
constexpr int64_t lowest<int64_t> = INT64_MIN;

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

// The first `count` elements of a lane, the others `pad`.
template <class T>
TYCHO_INLINE Lane<T> load_part(const T* x, int count, T pad) {
#if defined(TYCHO_LEVEL_v4)
  using V = typename Lane<T>::V;
  const Lane<T> p(pad);
  const auto mask = static_cast<typename Raw<T>::MaskBits>((1u << count) - 1);
  if constexpr (sizeof(T) == 4) {
    return Lane<T>((V)_mm512_mask_loadu_ps((__m512)p.v, mask, x));
  } else {
    return Lane<T>((V)_mm512_mask_loadu_pd((__m512d)p.v, mask, x));
  }
#else
  T v[Lane<T>::size];
  for (int k = 0; k < Lane<T>::size; ++k) v[k] = pad;
  for (int k = 0; k < count; ++k) v[k] = x[k];
  return Lane<T>::load(v);
#endif
}
template <class T>
TYCHO_INLINE void store_part(Lane<T> x, T* to, int count) {
#if defined(TYCHO_LEVEL_v4)
  const auto mask = static_cast<typename Raw<T>::MaskBits>((1u << count) - 1);
  if constexpr (sizeof(T) == 4) {
    _mm512_mask_storeu_ps(to, mask, (__m512)x.v);
  } else {
    _mm512_mask_storeu_pd(to, mask, (__m512d)x.v);
  }
#else
  T v[Lane<T>::size];
  x.store(v);
  for (int k = 0; k < count; ++k) to[k] = v[k];
#endif
}

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

// ArgMax and ArgMin.
template <class T, bool Largest>
struct Arg {
  using Value = Extreme<T, Itself, Largest>;
  using S = typename SlotOf<T>::S;

  static void init(Slot* s, int64_t cap, int64_t n) {
    for (int64_t j = 0; j < n; ++j) {
      slot<T>(s[j]) = 0;
      s[cap + j].i = -1;
    }
  }
  static TYCHO_INLINE bool wins(S x, const Slot* s, int64_t cap) {
    return s[cap].i < 0 || better<Largest, S>(x, slot<T>(*s));
  }
  static void merge(Slot* to, int64_t to_cap, const Slot* from, int64_t from_cap, int64_t n) {
    for (int64_t j = 0; j < n; ++j) {
      if (from[from_cap + j].i < 0 || !wins(slot<T>(from[j]), to + j, to_cap)) continue;
      slot<T>(to[j]) = slot<T>(from[j]);
      to[to_cap + j].i = from[from_cap + j].i;
    }
  }
  // Position of the first element that is `value`, or the first nan.
  static int64_t find(const T* x, int64_t n, T value) {
    constexpr int w = Lane<T>::size;
    const Lane<T> v(value);
    const bool nan = value != value;
    int64_t i = 0;
    for (; i + w <= n; i += w) {
      const Lane<T> l = Lane<T>::load(x + i);
      if (any(nan ? l != l : l == v)) break;
    }
    while (i < n && !(nan ? x[i] != x[i] : x[i] == value)) ++i;
    return i;
  }
  // The extreme of a block first; its position is looked for only when it wins.
  static void run(const void* px, int64_t n, int64_t at, Slot* s, int64_t cap) {
    const T* x = static_cast<const T*>(px);
    while (n > 0) {
      const int64_t m = n < run_block<T> ? n : run_block<T>;
      T v[Lane<T>::size];
      Value::value(accumulate<Value>(x, m)).store(v);
      T best = v[0];
      for (int k = 1; k < Lane<T>::size; ++k)
        if (better<Largest, T>(v[k], best)) best = v[k];
      if (wins(best, s, cap)) {
        slot<T>(*s) = best;
        s[cap].i = at + find(x, m, best);
      }
      x += m;
      n -= m;
      at += m;
    }
  }

  struct A {
    Lane<T> v, position;
  };
  static TYCHO_INLINE void step(A& a, Lane<T> x, Lane<T> row) {
    Mask<T> take = Largest ? x > a.v : x < a.v;
    if constexpr (!is_int<T>) take = (Largest ? ~(x <= a.v) : ~(x >= a.v)) & (a.v == a.v);
    a.v = select(take, x, a.v);
    a.position = select(take, row, a.position);
  }
  static TYCHO_INLINE Lane<T> row_number(int64_t r) {
    return from_bits<T>(typename Raw<T>::Bits{} + static_cast<typename Raw<T>::Bit>(r));
  }
  static void rows(const void* px, int64_t stride, int64_t count, int64_t cols, int64_t at, Slot* s,
                   int64_t cap) {
    constexpr int w = Lane<T>::size;
    const int64_t full = cols / w;
    const int rest = static_cast<int>(cols % w);
    A tile[kFoldCols / w + 1];
    const T* x = static_cast<const T*>(px);
    while (count > 0) {
      const int64_t m = count < 1 << 20 ? count : 1 << 20;
      for (int64_t j = 0; j < full; ++j) tile[j] = {Lane<T>::load(x + j * w), row_number(0)};
      if (rest) tile[full] = {load_part<T>(x + full * w, rest, 0), row_number(0)};
      int64_t r = 1;
      for (; r + 4 <= m; r += 4) {
        const T *p = x + r * stride, *q = p + stride, *u = q + stride, *v = u + stride;
        const Lane<T> i0 = row_number(r), i1 = row_number(r + 1), i2 = row_number(r + 2),
                      i3 = row_number(r + 3);
        for (int64_t j = 0; j < full; ++j) {
          A a = tile[j];
          step(a, Lane<T>::load(p + j * w), i0);
          step(a, Lane<T>::load(q + j * w), i1);
          step(a, Lane<T>::load(u + j * w), i2);
          step(a, Lane<T>::load(v + j * w), i3);
          tile[j] = a;
        }
        if (rest)
          for (int k = 0; k < 4; ++k)
            step(tile[full], load_part<T>(p + k * stride + full * w, rest, 0), row_number(r + k));
      }
      for (; r < m; ++r) {
        const T* p = x + r * stride;
        for (int64_t j = 0; j < full; ++j) step(tile[j], Lane<T>::load(p + j * w), row_number(r));
        if (rest) step(tile[full], load_part<T>(p + full * w, rest, 0), row_number(r));
      }
      for (int64_t j = 0; j < full + (rest != 0); ++j) {
        T v[w], position[w];
        tile[j].v.store(v);
        tile[j].position.store(position);
        for (int k = 0; k < (j < full ? w : rest); ++k) {
          Slot* to = s + j * w + k;
          if (!wins(v[k], to, cap)) continue;
          slot<T>(*to) = v[k];
          to[cap].i =
              at + static_cast<int64_t>(__builtin_bit_cast(typename Raw<T>::Bit, position[k]));
        }
      }
      x += m * stride;
      at += m;
      count -= m;
    }
  }
};
template <class T, bool Largest>
constexpr Fold make_arg() {
  using F = Arg<T, Largest>;
  return {2, F::init, F::run, F::rows, F::merge};
}

// Count, mean and squared differences. A block that fits the first-level cache is read twice: for
// its mean, then for the differences, which so are small and exact; blocks join by Chan's formula.
template <class T>
struct MomentsOf {
  static void init(Slot* s, int64_t cap, int64_t n) {
    for (int c = 0; c < 3; ++c)
      for (int64_t j = 0; j < n; ++j) s[c * cap + j].d = 0;
  }
  // Joins equally many elements into each of `n` columns.
  static TYCHO_INLINE void join(Slot* s, int64_t cap, int64_t n, double more, const double* mean,
                                const double* squares) {
    Slot *m = s + cap, *q = s + 2 * cap;
    for (int64_t j = 0; j < n; ++j) {
      const double have = s[j].d, share = more / (have + more), d = mean[j] - m[j].d;
      m[j].d += d * share;
      q[j].d += squares[j] + d * d * (have * share);
      s[j].d = have + more;
    }
  }
  static void merge(Slot* to, int64_t to_cap, const Slot* from, int64_t from_cap, int64_t n) {
    for (int64_t j = 0; j < n; ++j)
      if (from[j].d > 0)
        join(to + j, to_cap, 1, from[j].d, &from[from_cap + j].d, &from[2 * from_cap + j].d);
  }

  static TYCHO_INLINE double total(Lane<T> a) {
    T v[Lane<T>::size];
    a.store(v);
    double sum = 0;
    for (int k = 0; k < Lane<T>::size; ++k) sum += v[k];
    return sum;
  }
  static void run(const void* px, int64_t n, int64_t, Slot* s, int64_t cap) {
    constexpr int w = Lane<T>::size;
    const T* x = static_cast<const T*>(px);
    while (n > 0) {
      const int64_t m = n < run_block<T> ? n : run_block<T>;
      const double mean = total(accumulate<Add<T, Itself>>(x, m)) / static_cast<double>(m);
      const T middle = static_cast<T>(mean);
      const Lane<T> center(middle);
      Lane<T> d[4], q[4];
      for (int k = 0; k < 4; ++k) d[k] = q[k] = Lane<T>(0);
      int64_t i = 0;
      for (; i + 4 * w <= m; i += 4 * w)
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) {
          const Lane<T> e = Lane<T>::load(x + i + k * w) - center;
          d[k] += e;
          q[k] = fma(e, e, q[k]);
        }
      for (; i < m; i += w) {
        const Lane<T> e = i + w <= m
                              ? Lane<T>::load(x + i) - center
                              : load_part<T>(x + i, static_cast<int>(m - i), middle) - center;
        d[0] += e;
        q[0] = fma(e, e, q[0]);
      }
      // The differences' own mean corrects what rounding `middle` left.
      const double off = total((d[0] + d[1]) + (d[2] + d[3])),
                   squares = total((q[0] + q[1]) + (q[2] + q[3])),
                   exact = static_cast<double>(middle) + off / static_cast<double>(m),
                   least = squares - off * off / static_cast<double>(m),
                   positive = least < 0 ? 0 : least;
      join(s, cap, 1, static_cast<double>(m), &exact, &positive);
      x += m;
      n -= m;
    }
  }
  static void rows(const void* px, int64_t step, int64_t count, int64_t cols, int64_t, Slot* s,
                   int64_t cap) {
    constexpr int w = Lane<T>::size, block = 256;
    const T* x = static_cast<const T*>(px);
    for (; count > 0; count -= 32, x += 32 * step) {
      const int64_t m = count < 32 ? count : 32;
      const double one = 1 / static_cast<double>(m);
      for (int64_t j0 = 0; j0 < cols; j0 += block) {
        const int64_t n = cols - j0 < block ? cols - j0 : block, full = n / w;
        const int rest = static_cast<int>(n % w);
        Lane<T> center[block / w + 1], off[block / w + 1], squares[block / w + 1];
        for (int64_t j = 0; j < full + (rest != 0); ++j)
          center[j] = off[j] = squares[j] = Lane<T>(0);
        const auto at = [&](int64_t r, int64_t j) __attribute__((always_inline)) {
          const T* p = x + r * step + j0 + j * w;
          return j < full ? Lane<T>::load(p) : load_part<T>(p, rest, 0);
        };
        for (int64_t r = 0; r < m; ++r) {
          for (int64_t j = 0; j < full; ++j) center[j] += at(r, j);
          if (rest) center[full] += at(r, full);
        }
        for (int64_t j = 0; j < full + (rest != 0); ++j) center[j] *= Lane<T>(one);
        for (int64_t r = 0; r < m; ++r)
          for (int64_t j = 0; j < full + (rest != 0); ++j) {
            const Lane<T> e = at(r, j) - center[j];
            off[j] += e;
            squares[j] = fma(e, e, squares[j]);
          }
        double mean[block + w], least[block + w];
        for (int64_t j = 0; j < full + (rest != 0); ++j) {
          T c[w], o[w], q[w];
          center[j].store(c);
          off[j].store(o);
          squares[j].store(q);
          for (int k = 0; k < w; ++k) {
            const double d = o[k], e = q[k] - d * d * one;
            mean[j * w + k] = static_cast<double>(c[k]) + d * one;
            least[j * w + k] = e < 0 ? 0 : e;
          }
        }
        join(s + j0, cap, n, static_cast<double>(m), mean, least);
      }
    }
  }
};
template <class T>
constexpr Fold make_moments() {
  using F = MomentsOf<T>;
  return {3, F::init, F::run, F::rows, F::merge};
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
