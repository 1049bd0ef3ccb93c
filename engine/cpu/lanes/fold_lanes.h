// What folds, scans and softmax share: slots, halves of lanes, smallest and largest.
#pragma once
#include "engine/cpu/lanes/math_basic.h"
#include "engine/cpu/lanes/math_int.h"
#include "engine/cpu/lanes/parts.h"
#include "engine/cpu/reduce/fold.h"

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
template <class T>
TYCHO_INLINE Lane<T> larger(Lane<T> a, Lane<T> b) {
  return second_max(a, b);
}
TYCHO_INLINE I64 larger(I64 a, I64 b) { return select(a > b, a, b); }
template <class T>
TYCHO_INLINE Lane<T> smaller(Lane<T> a, Lane<T> b) {
  return second_min(a, b);
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

// The first `count` elements of a lane into slots: slot = f(slot, element).
template <class F>
TYCHO_INLINE void join_half(F64 x, Slot* s, int count, F f) {
  if (count >= F64::size)
    f(F64::load(&s->d), x).store(&s->d);
  else if (count > 0)
    store_part(f(load_part<double>(&s->d, count, 0), x), &s->d, count);
}
template <class F>
TYCHO_INLINE void join_slots(F32 x, Slot* s, int count, F f) {
  join_half(low_half(x), s, count, f);
  join_half(high_half(x), s + F64::size, count - F64::size, f);
}
template <class F>
TYCHO_INLINE void join_slots(F64 x, Slot* s, int count, F f) {
  join_half(x, s, count, f);
}
template <class F>
TYCHO_INLINE void join_slots(I64 x, Slot* s, int count, F f) {
  if (count >= I64::size)
    f(I64::load(&s->i), x).store(&s->i);
  else if (count > 0)
    store_part(f(load_part<int64_t>(&s->i, count, 0), x), &s->i, count);
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
