// Lanes of integers narrower than int64, of which a register holds two to eight times as many. A
// Narrow is the number that an int64 lane would hold; a Low has lost what is above its width, as
// storing does. So an expression whose parts exist here gives the same bits as in int64 lanes, and
// one that compares, chooses by or divides what may have overflowed does not compile: the rows that
// have narrow loops are found that way.
#pragma once
#include "engine/cpu/lanes/narrow_parts.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

template <class T>
struct NarrowRaw;
#define TYCHO_NARROW(type, unsigned_type)                                                \
  template <>                                                                            \
  struct NarrowRaw<type> {                                                               \
    using U = unsigned_type;                                                             \
    typedef type V __attribute__((vector_size(TYCHO_LANE_BYTES)));                       \
    typedef unsigned_type Wrap __attribute__((vector_size(TYCHO_LANE_BYTES)));           \
    typedef uint8_t Bytes __attribute__((vector_size(TYCHO_LANE_BYTES / sizeof(type)))); \
  };
TYCHO_NARROW(uint8_t, uint8_t)
TYCHO_NARROW(int8_t, uint8_t)
TYCHO_NARROW(int16_t, uint16_t)
TYCHO_NARROW(int32_t, uint32_t)
#undef TYCHO_NARROW

template <class T>
struct NarrowMask {
  using V = typename NarrowRaw<T>::V;
  V m;  // 0 or all bits
  TYCHO_INLINE friend NarrowMask operator&(NarrowMask a, NarrowMask b) { return {a.m & b.m}; }
  TYCHO_INLINE friend NarrowMask operator|(NarrowMask a, NarrowMask b) { return {a.m | b.m}; }
  TYCHO_INLINE friend NarrowMask operator^(NarrowMask a, NarrowMask b) { return {a.m ^ b.m}; }
};

template <class T>
struct Low {
  using V = typename NarrowRaw<T>::V;
  using Wrap = typename NarrowRaw<T>::Wrap;  // whose arithmetic is defined when it overflows
  static constexpr int size = TYCHO_LANE_BYTES / sizeof(T);
  V v;
  Low() = default;
  TYCHO_INLINE Low(V raw) : v(raw) {}
  TYCHO_INLINE Low(int s) : v(V{} + static_cast<T>(s)) {}
  TYCHO_INLINE friend Low operator+(Low a, Low b) { return V(Wrap(a.v) + Wrap(b.v)); }
  TYCHO_INLINE friend Low operator-(Low a, Low b) { return V(Wrap(a.v) - Wrap(b.v)); }
  TYCHO_INLINE friend Low operator*(Low a, Low b) { return V(Wrap(a.v) * Wrap(b.v)); }
  TYCHO_INLINE friend Low operator-(Low a) { return V(-Wrap(a.v)); }
  TYCHO_INLINE friend Low operator~(Low a) { return V(~a.v); }
  TYCHO_INLINE friend Low fma(Low a, Low b, Low c) { return a * b + c; }
  TYCHO_INLINE friend Low square(Low a) { return a * a; }
  TYCHO_INLINE friend Low select(NarrowMask<T> m, Low a, Low b) { return V(m.m ? a.v : b.v); }
};

// Are quotients computed by floats, which tell those of numbers of two bytes apart?
template <class T>
constexpr bool kDividesParts = sizeof(T)<4 && TYCHO_LANE_BYTES> 16;

// Numbers that rows compare with (0, 6) fit every type.
template <class T>
struct Narrow : Low<T> {
  using M = NarrowMask<T>;
  using V = typename Low<T>::V;
  Narrow() = default;
  TYCHO_INLINE Narrow(V raw) : Low<T>(raw) {}
  TYCHO_INLINE Narrow(int s) : Low<T>(s) {}
  TYCHO_INLINE friend Narrow operator&(Narrow a, Narrow b) { return V(a.v & b.v); }
  TYCHO_INLINE friend Narrow operator|(Narrow a, Narrow b) { return V(a.v | b.v); }
  TYCHO_INLINE friend Narrow operator^(Narrow a, Narrow b) { return V(a.v ^ b.v); }
  TYCHO_INLINE friend M operator==(Narrow a, Narrow b) { return {V(a.v == b.v)}; }
  TYCHO_INLINE friend M operator!=(Narrow a, Narrow b) { return {V(a.v != b.v)}; }
  TYCHO_INLINE friend M operator<(Narrow a, Narrow b) { return {V(a.v < b.v)}; }
  TYCHO_INLINE friend M operator<=(Narrow a, Narrow b) { return {V(a.v <= b.v)}; }
  TYCHO_INLINE friend M operator>(Narrow a, Narrow b) { return {V(a.v > b.v)}; }
  TYCHO_INLINE friend M operator>=(Narrow a, Narrow b) { return {V(a.v >= b.v)}; }
  TYCHO_INLINE friend M truth(Narrow a) { return a != Narrow(0); }
  TYCHO_INLINE friend Narrow select(M m, Narrow a, Narrow b) { return V(m.m ? a.v : b.v); }
  TYCHO_INLINE friend Narrow maximum(Narrow a, Narrow b) { return V(a.v > b.v ? a.v : b.v); }
  TYCHO_INLINE friend Narrow minimum(Narrow a, Narrow b) { return V(a.v < b.v ? a.v : b.v); }
  TYCHO_INLINE friend Narrow bounded(Narrow a, Narrow low, Narrow high) {
    return minimum(maximum(a, low), high);
  }
  TYCHO_INLINE friend Narrow fmax(Narrow a, Narrow b) { return maximum(a, b); }
  TYCHO_INLINE friend Narrow fmin(Narrow a, Narrow b) { return minimum(a, b); }
  // Few instruction sets shift small elements by counts of their own (narrow_parts.h); elsewhere the
  // bits of a count move the elements that have them. A count outside the width moves everything out.
  TYCHO_INLINE friend Low<T> operator<<(Narrow a, Narrow b) {
    Wrap r = Wrap(a.v);
    if constexpr (kShifts) return V((r << (Wrap(b.v) & kLast)) & within(b));
#if defined(TYCHO_LEVEL_v3)
    if constexpr (sizeof(T) < 4) return V(shifted_left<T>((__m256i)a.v, (__m256i)b.v));
#endif
#pragma GCC unroll 5
    for (int k = 1; k < kBits; k *= 2) {
      const Wrap moved = counts(b, k);
      r = ((r << k) & moved) | (r & ~moved);
    }
    return V(r & within(b));
  }
  TYCHO_INLINE friend Narrow operator>>(Narrow a, Narrow b) {
    V r = a.v;
    if constexpr (kShifts) {
      const Wrap inside = within(b), last = Wrap{} + kLast;
      return r >> V((Wrap(b.v) & inside) | (last & ~inside));
    }
#if defined(TYCHO_LEVEL_v3)
    if constexpr (sizeof(T) < 4) return V(shifted_right<T>((__m256i)a.v, (__m256i)b.v));
#endif
#pragma GCC unroll 5
    for (int k = 1; k < kBits; k *= 2) {
      const V moved = V(counts(b, k));
      r = ((r >> k) & moved) | (r & ~moved);
    }
    const V inside = V(within(b));
    return V((r & inside) | ((a.v < 0) & ~inside));
  }
  TYCHO_INLINE friend M isnan(Narrow a) { return a != a; }
  TYCHO_INLINE friend M isinf(Narrow a) { return a != a; }
  TYCHO_INLINE friend M isposinf(Narrow a) { return a != a; }
  TYCHO_INLINE friend M isneginf(Narrow a) { return a != a; }
  TYCHO_INLINE friend M isfinite(Narrow a) { return a == a; }
  TYCHO_INLINE friend M signbit(Narrow a) { return a < Narrow(0); }
  // Of negative exponents it is 0, but of bases 1 and -1.
  TYCHO_INLINE friend Low<T> pow(Narrow a, Narrow n) {
    const M back = n < Narrow(0);
    Low<T> r = 1, b = a;
    for (Wrap left = Wrap(select(back, n & Narrow(1), n).v); any_of(left); left >>= 1) {
      r = select(M{V((left & 1) != 0)}, r * b, r);
      b = b * b;
    }
    return select(back & (a != Narrow(1)) & (a != Narrow(-1)), Low<T>(0), r);
  }
  TYCHO_INLINE friend Low<T> trunc_divide(Narrow a, Narrow b) requires(kDividesParts<T>) {
    return by_floats(a, b, [](Ints, Ints, Ints q) { return q; });
  }
  TYCHO_INLINE friend Low<T> floor_divide(Narrow a, Narrow b) requires(kDividesParts<T>) {
    return by_floats(a, b, [](Ints x, Ints y, Ints q) { return q + goes_down(x - q * y, y); });
  }
  TYCHO_INLINE friend Low<T> fmod(Narrow a, Narrow b) requires(kDividesParts<T>) {
    return by_floats(a, b, [](Ints x, Ints y, Ints q) { return x - q * y; });
  }
  TYCHO_INLINE friend Low<T> remainder(Narrow a, Narrow b) requires(kDividesParts<T>) {
    return by_floats(a, b, [](Ints x, Ints y, Ints q) {
      const Ints r = x - q * y;
      return r + (goes_down(r, y) & y);
    });
  }
  TYCHO_INLINE friend Narrow floor(Narrow a) { return a; }
  TYCHO_INLINE friend Narrow ceil(Narrow a) { return a; }
  TYCHO_INLINE friend Narrow trunc(Narrow a) { return a; }
  TYCHO_INLINE friend Narrow round(Narrow a) { return a; }
  TYCHO_INLINE friend Low<T> abs(Narrow a) {
    return select(a < Narrow(0), -static_cast<Low<T>>(a), static_cast<Low<T>>(a));
  }
  TYCHO_INLINE friend Narrow sign(Narrow a) {
    return V(((a > Narrow(0)).m & 1) | (a < Narrow(0)).m);
  }
  TYCHO_INLINE friend Narrow sgn(Narrow a) { return sign(a); }

 private:
  using Wrap = typename Low<T>::Wrap;
  using U = typename NarrowRaw<T>::U;
  static constexpr int kBits = 8 * sizeof(T);
  static constexpr U kLast = kBits - 1;
  static constexpr bool kShifts =
      (sizeof(T) == 4 && TYCHO_LANE_BYTES > 16) || (sizeof(T) == 2 && TYCHO_LANE_BYTES == 64);
  using Ints = Raw<float>::Ints;
  // f(x, y, x / y toward zero) of as many elements as a lane has floats, part by part; 0 where y is.
  template <class F>
  TYCHO_INLINE static Low<T> by_floats(Narrow a, Narrow b, F f) {
    using Floats = Raw<float>::V;
    constexpr int parts = 4 / static_cast<int>(sizeof(T));
    alignas(TYCHO_LANE_BYTES) T from_a[Low<T>::size], from_b[Low<T>::size], to[Low<T>::size];
    memcpy(from_a, &a.v, sizeof a.v);
    memcpy(from_b, &b.v, sizeof b.v);
    Ints part[parts];
#pragma GCC unroll 4
    for (int k = 0; k < parts; ++k) {
      const Ints x = part_of(from_a, k), y = part_of(from_b, k), some = y != 0;
      const Floats q = __builtin_convertvector(x, Floats) / __builtin_convertvector(y, Floats);
      part[k] = f(x, y, __builtin_convertvector(q, Ints)) & some;
    }
    join_parts(to, part);
    V r;
    memcpy(&r, to, sizeof r);
    return r;
  }
  // -1 where toward zero is not down: where a rest has another sign than the divisor.
  TYCHO_INLINE static Ints goes_down(Ints r, Ints y) { return (r != 0) & ((r ^ y) < 0); }
  TYCHO_INLINE static bool any_of(Wrap bits) {
    uint64_t words[sizeof bits / 8], all = 0;
    memcpy(words, &bits, sizeof bits);
    for (const uint64_t word : words) all |= word;
    return all != 0;
  }
  TYCHO_INLINE static Wrap counts(Narrow b, int bit) {
    return Wrap((Wrap(b.v) & static_cast<U>(bit)) != 0);
  }
  TYCHO_INLINE static Wrap within(Narrow b) { return Wrap(Wrap(b.v) < static_cast<U>(kBits)); }
};

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
