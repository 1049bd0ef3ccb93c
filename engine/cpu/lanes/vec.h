// Lanes: a register full of float, double or int64 and the operators on it. This header is compiled
// once per instruction set (16, 32 or 64 bytes wide), so everything is always_inline and lives in
// an unnamed namespace inside the level's own. Rows of the operation tables are written in these
// types: `1 - y * y`, `select(x > 0, x, a * x)`. A fourth level, scalar, has lanes of one element
// for other compilers (vec_scalar.h).
#pragma once
#if defined(__CUDACC_RTC__)  // has no headers
using int32_t = int;
using uint32_t = unsigned;
using int64_t = long;
using uint64_t = unsigned long;
#else
#include <cstdint>
#include <cstring>
#endif

// TYCHO_C: a function of the C library. TYCHO_FUSED: fma rounds once.
#if defined(__CUDACC__)
#define TYCHO_INLINE __device__ inline __attribute__((always_inline))
#define TYCHO_FUNCTION __device__ inline
#define TYCHO_C(name) ::name
#else
#define TYCHO_INLINE inline __attribute__((always_inline))
#define TYCHO_FUNCTION inline
#define TYCHO_C(name) __builtin_##name
#endif
#if defined(TYCHO_LEVEL_v4) || defined(TYCHO_LEVEL_v3) || defined(TYCHO_LEVEL_scalar)
#define TYCHO_FUSED
#endif

#if defined(TYCHO_LEVEL_scalar)
#include "engine/cpu/lanes/vec_scalar.h"
#else
#include <immintrin.h>

#if defined(TYCHO_LEVEL_v4)
#define TYCHO_LANE_BYTES 64
#elif defined(TYCHO_LEVEL_v3)
#define TYCHO_LANE_BYTES 32
#else
#define TYCHO_LANE_BYTES 16
#endif

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Raw<T>: the vector types behind a lane. Bits and Ints have elements as wide as T.
template <class T>
struct Raw;
template <>
struct Raw<float> {
  using Bit = uint32_t;
  using Int = int32_t;
  typedef float V __attribute__((vector_size(TYCHO_LANE_BYTES)));
  typedef uint32_t Bits __attribute__((vector_size(TYCHO_LANE_BYTES)));
  typedef int32_t Ints __attribute__((vector_size(TYCHO_LANE_BYTES)));
  using MaskBits = uint16_t;
};
template <>
struct Raw<double> {
  using Bit = uint64_t;
  using Int = int64_t;
  typedef double V __attribute__((vector_size(TYCHO_LANE_BYTES)));
  typedef uint64_t Bits __attribute__((vector_size(TYCHO_LANE_BYTES)));
  typedef int64_t Ints __attribute__((vector_size(TYCHO_LANE_BYTES)));
  using MaskBits = uint8_t;
};
template <>
struct Raw<int64_t> {
  using Bit = uint64_t;
  using Int = int64_t;
  typedef int64_t V __attribute__((vector_size(TYCHO_LANE_BYTES)));
  typedef uint64_t Bits __attribute__((vector_size(TYCHO_LANE_BYTES)));
  typedef int64_t Ints __attribute__((vector_size(TYCHO_LANE_BYTES)));
  using MaskBits = uint8_t;
};

template <class T>
struct Lane;

// One truth value per element: an AVX-512 mask register, or a vector of 0 and -1 elsewhere.
template <class T>
struct Mask {
#if defined(TYCHO_LEVEL_v4)
  using M = typename Raw<T>::MaskBits;
#else
  using M = typename Raw<T>::Ints;
#endif
  M m;
  TYCHO_INLINE friend Mask operator&(Mask a, Mask b) { return {static_cast<M>(a.m & b.m)}; }
  TYCHO_INLINE friend Mask operator|(Mask a, Mask b) { return {static_cast<M>(a.m | b.m)}; }
  TYCHO_INLINE friend Mask operator^(Mask a, Mask b) { return {static_cast<M>(a.m ^ b.m)}; }
  TYCHO_INLINE Mask operator~() const { return {static_cast<M>(~m)}; }

  TYCHO_INLINE friend Lane<T> select(Mask m, Lane<T> x, Lane<T> y) { return pick(m, x, y); }
  TYCHO_INLINE friend Lane<T> number(Mask m) { return pick(m, Lane<T>(1), Lane<T>(0)); }
  TYCHO_INLINE friend bool any(Mask m) { return m.some(); }

 private:
  TYCHO_INLINE bool some() const {
#if defined(TYCHO_LEVEL_v4)
    return m != 0;
#elif defined(TYCHO_LEVEL_v3)
    return !_mm256_testz_si256((__m256i)m, (__m256i)m);
#else
    return _mm_movemask_epi8((__m128i)m) != 0;
#endif
  }
  TYCHO_INLINE static Lane<T> pick(Mask m, Lane<T> x, Lane<T> y) {
    using V = typename Raw<T>::V;
#if defined(TYCHO_LEVEL_v4)
    if constexpr (sizeof(T) == 4) {
      return Lane<T>((V)_mm512_mask_blend_ps(m.m, (__m512)y.v, (__m512)x.v));
    } else {
      return Lane<T>((V)_mm512_mask_blend_pd(m.m, (__m512d)y.v, (__m512d)x.v));
    }
#elif defined(TYCHO_LEVEL_v3)
    if constexpr (sizeof(T) == 4) {
      return Lane<T>((V)_mm256_blendv_ps((__m256)y.v, (__m256)x.v, (__m256)m.m));
    } else {
      return Lane<T>((V)_mm256_blendv_pd((__m256d)y.v, (__m256d)x.v, (__m256d)m.m));
    }
#else
    using I = typename Raw<T>::Ints;
    return Lane<T>((V)(((I)x.v & m.m) | ((I)y.v & ~m.m)));
#endif
  }
};

// The six comparisons, ordered as C's: a comparison with nan is false, != is true.
enum class Cmp { Eq, Ne, Lt, Le, Gt, Ge };
template <Cmp C, class T>
TYCHO_INLINE Mask<T> compare(typename Raw<T>::V a, typename Raw<T>::V b) {
#if defined(TYCHO_LEVEL_v4)
  constexpr int f = C == Cmp::Eq   ? _CMP_EQ_OQ
                    : C == Cmp::Ne ? _CMP_NEQ_UQ
                    : C == Cmp::Lt ? _CMP_LT_OQ
                    : C == Cmp::Le ? _CMP_LE_OQ
                    : C == Cmp::Gt ? _CMP_GT_OQ
                                   : _CMP_GE_OQ;
  constexpr int i = C == Cmp::Eq   ? _MM_CMPINT_EQ
                    : C == Cmp::Ne ? _MM_CMPINT_NE
                    : C == Cmp::Lt ? _MM_CMPINT_LT
                    : C == Cmp::Le ? _MM_CMPINT_LE
                    : C == Cmp::Gt ? _MM_CMPINT_NLE
                                   : _MM_CMPINT_NLT;
  using M = typename Mask<T>::M;
  if constexpr (sizeof(T) == 4) {
    return {static_cast<M>(_mm512_cmp_ps_mask((__m512)a, (__m512)b, f))};
  } else if constexpr (T(0.5) != 0) {
    return {static_cast<M>(_mm512_cmp_pd_mask((__m512d)a, (__m512d)b, f))};
  } else {
    return {static_cast<M>(_mm512_cmp_epi64_mask((__m512i)a, (__m512i)b, i))};
  }
#else
  using I = typename Raw<T>::Ints;
  if constexpr (C == Cmp::Eq) return {(I)(a == b)};
  if constexpr (C == Cmp::Ne) return {(I)(a != b)};
  if constexpr (C == Cmp::Lt) return {(I)(a < b)};
  if constexpr (C == Cmp::Le) return {(I)(a <= b)};
  if constexpr (C == Cmp::Gt) return {(I)(a > b)};
  if constexpr (C == Cmp::Ge) return {(I)(a >= b)};
#endif
}

// What float and double lanes share with int64 lanes. Scalars of any arithmetic type broadcast.
template <class T>
struct Lane {
  using V = typename Raw<T>::V;
  using Bits = typename Raw<T>::Bits;
  using Ints = typename Raw<T>::Ints;
  static constexpr int size = TYCHO_LANE_BYTES / sizeof(T);
  static constexpr bool integral = T(0.5) == 0;
  V v;

  Lane() = default;
  TYCHO_INLINE Lane(V raw) : v(raw) {}
  template <class S>
  requires requires(S s) { static_cast<T>(s); }
  TYCHO_INLINE Lane(S s) : v(broadcast(static_cast<T>(s))) {}

  TYCHO_INLINE static Lane load(const T* p) {
    Lane r;
    memcpy(&r.v, p, sizeof(V));
    return r;
  }
  TYCHO_INLINE void store(T* p) const { memcpy(p, &v, sizeof(V)); }

  // Integers wrap: the arithmetic happens on unsigned elements.
  TYCHO_INLINE friend Lane operator+(Lane a, Lane b) {
    if constexpr (integral) return Lane((V)((Bits)a.v + (Bits)b.v));
    return Lane((V)(a.v + b.v));
  }
  TYCHO_INLINE friend Lane operator-(Lane a, Lane b) {
    if constexpr (integral) return Lane((V)((Bits)a.v - (Bits)b.v));
    return Lane((V)(a.v - b.v));
  }
  TYCHO_INLINE friend Lane operator*(Lane a, Lane b) {
    if constexpr (integral) return Lane((V)((Bits)a.v * (Bits)b.v));
    return Lane((V)(a.v * b.v));
  }
  TYCHO_INLINE friend Lane operator/(Lane a, Lane b) { return divide(a, b); }
  TYCHO_INLINE Lane operator-() const {
    if constexpr (integral) return Lane((V)(-(Bits)v));
    return Lane((V)-v);
  }
  TYCHO_INLINE Lane& operator+=(Lane b) { return *this = *this + b; }
  TYCHO_INLINE Lane& operator-=(Lane b) { return *this = *this - b; }
  TYCHO_INLINE Lane& operator*=(Lane b) { return *this = *this * b; }
  TYCHO_INLINE Lane& operator/=(Lane b) { return *this = *this / b; }

  TYCHO_INLINE friend Mask<T> operator==(Lane a, Lane b) { return compare<Cmp::Eq, T>(a.v, b.v); }
  TYCHO_INLINE friend Mask<T> operator!=(Lane a, Lane b) { return compare<Cmp::Ne, T>(a.v, b.v); }
  TYCHO_INLINE friend Mask<T> operator<(Lane a, Lane b) { return compare<Cmp::Lt, T>(a.v, b.v); }
  TYCHO_INLINE friend Mask<T> operator<=(Lane a, Lane b) { return compare<Cmp::Le, T>(a.v, b.v); }
  TYCHO_INLINE friend Mask<T> operator>(Lane a, Lane b) { return compare<Cmp::Gt, T>(a.v, b.v); }
  TYCHO_INLINE friend Mask<T> operator>=(Lane a, Lane b) { return compare<Cmp::Ge, T>(a.v, b.v); }
  TYCHO_INLINE friend Mask<T> truth(Lane a) { return a != Lane(0); }

  // Integers only. A count outside 0..63 shifts everything out.
  TYCHO_INLINE friend Lane operator&(Lane a, Lane b) requires integral {
    return Lane((V)(a.v & b.v));
  }
  TYCHO_INLINE friend Lane operator|(Lane a, Lane b) requires integral {
    return Lane((V)(a.v | b.v));
  }
  TYCHO_INLINE friend Lane operator^(Lane a, Lane b) requires integral {
    return Lane((V)(a.v ^ b.v));
  }
  TYCHO_INLINE Lane operator~() const requires integral { return Lane((V)~v); }
  TYCHO_INLINE friend Lane operator<<(Lane a, Lane b) requires integral { return shift_left(a, b); }
  TYCHO_INLINE friend Lane operator>>(Lane a, Lane b) requires integral {
    return shift_right(a, b);
  }

 private:
  TYCHO_INLINE static V broadcast(T s) {
#if defined(TYCHO_LEVEL_v4)
    if constexpr (sizeof(T) == 4) return (V)_mm512_set1_ps(s);
    if constexpr (sizeof(T) == 8 && !integral) return (V)_mm512_set1_pd(s);
    if constexpr (integral) return (V)_mm512_set1_epi64(s);
#elif defined(TYCHO_LEVEL_v3)
    if constexpr (sizeof(T) == 4) return (V)_mm256_set1_ps(s);
    if constexpr (sizeof(T) == 8 && !integral) return (V)_mm256_set1_pd(s);
    if constexpr (integral) return (V)_mm256_set1_epi64x(s);
#else
    if constexpr (sizeof(T) == 4) return (V)_mm_set1_ps(s);
    if constexpr (sizeof(T) == 8 && !integral) return (V)_mm_set1_pd(s);
    if constexpr (integral) return (V)_mm_set1_epi64x(s);
#endif
  }
  TYCHO_INLINE static Lane divide(Lane a, Lane b) {
    if constexpr (integral) {
      return trunc_divide(a, b);  // in math_int.h
    } else {
      return Lane((V)(a.v / b.v));
    }
  }
  TYCHO_INLINE static Lane shift_left(Lane a, Lane b) {
#if defined(TYCHO_LEVEL_v4)
    return Lane((V)_mm512_maskz_sllv_epi64(-1, (__m512i)a.v, (__m512i)b.v));
#elif defined(TYCHO_LEVEL_v3)
    return Lane((V)_mm256_sllv_epi64((__m256i)a.v, (__m256i)b.v));
#else
    Bits r;
    for (int i = 0; i < size; i++) {
      r[i] = static_cast<uint64_t>(b.v[i]) > 63 ? 0 : static_cast<uint64_t>(a.v[i]) << b.v[i];
    }
    return Lane((V)r);
#endif
  }
  TYCHO_INLINE static Lane shift_right(Lane a, Lane b) {
#if defined(TYCHO_LEVEL_v4)
    return Lane((V)_mm512_maskz_srav_epi64(-1, (__m512i)a.v, (__m512i)b.v));
#elif defined(TYCHO_LEVEL_v3)
    __m256i sign = _mm256_cmpgt_epi64(_mm256_setzero_si256(), (__m256i)a.v);
    __m256i r = _mm256_srlv_epi64(_mm256_xor_si256((__m256i)a.v, sign), (__m256i)b.v);
    return Lane((V)_mm256_xor_si256(r, sign));
#else
    V r;
    for (int i = 0; i < size; i++) {
      r[i] = a.v[i] >> (static_cast<uint64_t>(b.v[i]) > 63 ? 63 : b.v[i]);
    }
    return Lane(r);
#endif
  }
};

using F32 = Lane<float>;
using F64 = Lane<double>;
using I64 = Lane<int64_t>;

// The same elements as unsigned or signed integers, and back.
template <class T>
TYCHO_INLINE typename Raw<T>::Bits bits_of(Lane<T> x) {
  return (typename Raw<T>::Bits)x.v;
}
template <class T>
TYCHO_INLINE Lane<T> from_bits(typename Raw<T>::Bits b) {
  return Lane<T>((typename Raw<T>::V)b);
}
// A mask for lanes of another type with elements of the same width.
template <class To, class From>
TYCHO_INLINE Mask<To> mask_as(Mask<From> m) {
  static_assert(sizeof(To) == sizeof(From));
  return {(typename Mask<To>::M)m.m};
}

// a * b + c, rounded once where the instruction set can; twice on the baseline.
TYCHO_INLINE F32 fma(F32 a, F32 b, F32 c) {
#if defined(TYCHO_LEVEL_v4)
  return F32((F32::V)_mm512_fmadd_ps((__m512)a.v, (__m512)b.v, (__m512)c.v));
#elif defined(TYCHO_LEVEL_v3)
  return F32((F32::V)_mm256_fmadd_ps((__m256)a.v, (__m256)b.v, (__m256)c.v));
#else
  return a * b + c;
#endif
}
TYCHO_INLINE F64 fma(F64 a, F64 b, F64 c) {
#if defined(TYCHO_LEVEL_v4)
  return F64((F64::V)_mm512_fmadd_pd((__m512d)a.v, (__m512d)b.v, (__m512d)c.v));
#elif defined(TYCHO_LEVEL_v3)
  return F64((F64::V)_mm256_fmadd_pd((__m256d)a.v, (__m256d)b.v, (__m256d)c.v));
#else
  return a * b + c;
#endif
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
#endif

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Applies a scalar function to every element: for what is rare or has no vector form.
template <class T, class F>
TYCHO_INLINE Lane<T> each(Lane<T> x, F f) {
  T a[Lane<T>::size];
  x.store(a);
  for (int i = 0; i < Lane<T>::size; i++) a[i] = f(a[i]);
  return Lane<T>::load(a);
}
template <class T, class F>
TYCHO_INLINE Lane<T> each(Lane<T> x, Lane<T> y, F f) {
  T a[Lane<T>::size], b[Lane<T>::size];
  x.store(a);
  y.store(b);
  for (int i = 0; i < Lane<T>::size; i++) a[i] = f(a[i], b[i]);
  return Lane<T>::load(a);
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
