// The fourth level of vec.h: lanes of one element in plain C++, with fused products as at v3. No
// vector types, no intrinsics, nothing of the standard library, and float arithmetic only in float
// where the lanes do so: what a GPU's compiler (NVRTC) takes as it is.
#pragma once

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

template <class T>
struct Raw;
template <>
struct Raw<float> {
  using V = float;
  using Bit = uint32_t;
  using Bits = uint32_t;
  using Int = int32_t;
};
template <>
struct Raw<double> {
  using V = double;
  using Bit = uint64_t;
  using Bits = uint64_t;
  using Int = int64_t;
};
template <>
struct Raw<int64_t> {
  using V = int64_t;
  using Bit = uint64_t;
  using Bits = uint64_t;
  using Int = int64_t;
};

template <class T>
struct Lane;

template <class T>
struct Mask {
  bool m;
  TYCHO_INLINE friend Mask operator&(Mask a, Mask b) { return {a.m && b.m}; }
  TYCHO_INLINE friend Mask operator|(Mask a, Mask b) { return {a.m || b.m}; }
  TYCHO_INLINE friend Mask operator^(Mask a, Mask b) { return {a.m != b.m}; }
  TYCHO_INLINE Mask operator~() const { return {!m}; }

  TYCHO_INLINE friend Lane<T> select(Mask m, Lane<T> x, Lane<T> y) { return m.m ? x : y; }
  TYCHO_INLINE friend Lane<T> number(Mask m) { return m.m ? Lane<T>(1) : Lane<T>(0); }
  TYCHO_INLINE friend bool any(Mask m) { return m.m; }
};

template <class T>
struct Lane {
  using V = T;
  using Bits = typename Raw<T>::Bits;
  static constexpr int size = 1;
  static constexpr bool integral = T(0.5) == 0;
  T v;

  Lane() = default;
  TYCHO_INLINE Lane(T raw) : v(raw) {}
  template <class S>
  requires requires(S s) { static_cast<T>(s); }
  TYCHO_INLINE Lane(S s) : v(static_cast<T>(s)) {}

  TYCHO_INLINE static Lane load(const T* p) { return *p; }
  TYCHO_INLINE void store(T* p) const { *p = v; }

  // Integers wrap: the arithmetic happens on unsigned elements.
  TYCHO_INLINE friend Lane operator+(Lane a, Lane b) {
    if constexpr (integral) return static_cast<T>(static_cast<Bits>(a.v) + static_cast<Bits>(b.v));
    return a.v + b.v;
  }
  TYCHO_INLINE friend Lane operator-(Lane a, Lane b) {
    if constexpr (integral) return static_cast<T>(static_cast<Bits>(a.v) - static_cast<Bits>(b.v));
    return a.v - b.v;
  }
  TYCHO_INLINE friend Lane operator*(Lane a, Lane b) {
    if constexpr (integral) return static_cast<T>(static_cast<Bits>(a.v) * static_cast<Bits>(b.v));
    return a.v * b.v;
  }
  TYCHO_INLINE friend Lane operator/(Lane a, Lane b) {
    if constexpr (integral) {
      return trunc_divide(a, b);  // in math_int.h
    } else {
      return a.v / b.v;
    }
  }
  TYCHO_INLINE Lane operator-() const {
    if constexpr (integral) return static_cast<T>(-static_cast<Bits>(v));
    return -v;
  }
  TYCHO_INLINE Lane& operator+=(Lane b) { return *this = *this + b; }
  TYCHO_INLINE Lane& operator-=(Lane b) { return *this = *this - b; }
  TYCHO_INLINE Lane& operator*=(Lane b) { return *this = *this * b; }
  TYCHO_INLINE Lane& operator/=(Lane b) { return *this = *this / b; }

  TYCHO_INLINE friend Mask<T> operator==(Lane a, Lane b) { return {a.v == b.v}; }
  TYCHO_INLINE friend Mask<T> operator!=(Lane a, Lane b) { return {a.v != b.v}; }
  TYCHO_INLINE friend Mask<T> operator<(Lane a, Lane b) { return {a.v < b.v}; }
  TYCHO_INLINE friend Mask<T> operator<=(Lane a, Lane b) { return {a.v <= b.v}; }
  TYCHO_INLINE friend Mask<T> operator>(Lane a, Lane b) { return {a.v > b.v}; }
  TYCHO_INLINE friend Mask<T> operator>=(Lane a, Lane b) { return {a.v >= b.v}; }
  TYCHO_INLINE friend Mask<T> truth(Lane a) { return a != Lane(0); }

  // Integers only. A count outside 0..63 shifts everything out.
  TYCHO_INLINE friend Lane operator&(Lane a, Lane b) requires integral { return a.v & b.v; }
  TYCHO_INLINE friend Lane operator|(Lane a, Lane b) requires integral { return a.v | b.v; }
  TYCHO_INLINE friend Lane operator^(Lane a, Lane b) requires integral { return a.v ^ b.v; }
  TYCHO_INLINE Lane operator~() const requires integral { return ~v; }
  TYCHO_INLINE friend Lane operator<<(Lane a, Lane b) requires integral {
    return static_cast<Bits>(b.v) > 63 ? T(0) : static_cast<T>(static_cast<Bits>(a.v) << b.v);
  }
  TYCHO_INLINE friend Lane operator>>(Lane a, Lane b) requires integral {
    return a.v >> (static_cast<Bits>(b.v) > 63 ? 63 : b.v);
  }
};

using F32 = Lane<float>;
using F64 = Lane<double>;
using I64 = Lane<int64_t>;

template <class T>
TYCHO_INLINE typename Raw<T>::Bits bits_of(Lane<T> x) {
  return __builtin_bit_cast(typename Raw<T>::Bits, x.v);
}
template <class T>
TYCHO_INLINE Lane<T> from_bits(typename Raw<T>::Bits b) {
  return __builtin_bit_cast(T, b);
}
template <class To, class From>
TYCHO_INLINE Mask<To> mask_as(Mask<From> m) {
  return {m.m};
}

TYCHO_INLINE F32 fma(F32 a, F32 b, F32 c) { return TYCHO_C(fmaf)(a.v, b.v, c.v); }
TYCHO_INLINE F64 fma(F64 a, F64 b, F64 c) { return TYCHO_C(fma)(a.v, b.v, c.v); }

// The instructions of the other levels, for an element: math_basic.h gives them their names.
template <int mode>
TYCHO_INLINE float rounded1(float x) {
  if constexpr (mode == 0) return TYCHO_C(rintf)(x);
  if constexpr (mode == 1) return TYCHO_C(floorf)(x);
  if constexpr (mode == 2) return TYCHO_C(ceilf)(x);
  if constexpr (mode == 3) return TYCHO_C(truncf)(x);
}
template <int mode>
TYCHO_INLINE double rounded1(double x) {
  if constexpr (mode == 0) return TYCHO_C(rint)(x);
  if constexpr (mode == 1) return TYCHO_C(floor)(x);
  if constexpr (mode == 2) return TYCHO_C(ceil)(x);
  if constexpr (mode == 3) return TYCHO_C(trunc)(x);
}
TYCHO_INLINE float square_root1(float x) { return TYCHO_C(sqrtf)(x); }
TYCHO_INLINE double square_root1(double x) { return TYCHO_C(sqrt)(x); }

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
