// Between memory and tiles: every storage type becomes float, double or int64 on load and is
// rounded once, to nearest even, on store. Tables indexed by the dtype's code give the functions
// that run on n elements `stride` apart (in elements; 1 is fast, 0 repeats one element).
#pragma once
#include "engine/cpu/level/vec.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// How the two half formats and bool lie in memory.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};
struct Bool {
  uint8_t byte;
};

TYCHO_INLINE uint32_t bits1(float x) { return __builtin_bit_cast(uint32_t, x); }
TYCHO_INLINE float float1(uint32_t b) { return __builtin_bit_cast(float, b); }

TYCHO_INLINE float widen(Half h) {
  uint32_t m = (h.bits & 0x7fffu) << 13, sign = (h.bits & 0x8000u) << 16;
  uint32_t special = m | 0x7f800000u;
  special |= special > 0x7f800000u ? 0x400000u : 0;
  uint32_t finite = bits1(float1(m) * 0x1p112f);
  return float1(sign | (m >= 0x7c00u << 13 ? special : finite));
}
TYCHO_INLINE float widen(BFloat16 h) { return float1(static_cast<uint32_t>(h.bits) << 16); }

TYCHO_INLINE Half narrow_half(float x) {
  uint32_t a = bits1(x) & 0x7fffffffu, sign = (bits1(x) >> 16) & 0x8000u;
  uint32_t nan = 0x7e00u | ((a >> 13) & 0x3ffu);
  uint32_t tiny = bits1(float1(a) + 0.5f) - 0x3f000000u;
  uint32_t c = a < 0x47800000u ? a : 0x47800000u;
  uint32_t normal = (c - 0x38000000u + 0xfffu + ((c >> 13) & 1)) >> 13;
  normal = a >= 0x47800000u ? 0x7c00u : normal;
  uint32_t r = a < 0x38800000u ? tiny : normal;
  return {static_cast<uint16_t>(sign | (a > 0x7f800000u ? nan : r))};
}
TYCHO_INLINE BFloat16 narrow_bfloat16(float x) {
  uint32_t b = bits1(x);
  uint32_t r = (b + 0x7fffu + ((b >> 16) & 1)) >> 16;
  return {static_cast<uint16_t>((b & 0x7fffffffu) > 0x7f800000u ? (b >> 16) | 0x40u : r)};
}
// Rounded to odd, so that rounding the result again to a shorter format rounds as if once.
TYCHO_INLINE float to_odd(double x) {
  float f = static_cast<float>(x);
  uint32_t b = bits1(f);
  double d = static_cast<double>(f);
  b -= __builtin_fabs(d) > __builtin_fabs(x) ? 1 : 0;
  return float1(d != x ? b | 1 : b);
}
TYCHO_INLINE Half narrow_half(double x) { return narrow_half(to_odd(x)); }
TYCHO_INLINE BFloat16 narrow_bfloat16(double x) { return narrow_bfloat16(to_odd(x)); }

// C's cast without its undefined cases: what does not fit is INT64_MIN, as the instruction says.
TYCHO_INLINE int64_t integer1(float x) { return _mm_cvttss_si64(_mm_set_ss(x)); }
TYCHO_INLINE int64_t integer1(double x) { return _mm_cvttsd_si64(_mm_set_sd(x)); }

// One element of memory type S to and from tile type T.
template <class T, class S>
struct Convert {
  TYCHO_INLINE static T in(S s) {
    if constexpr (T(0.5) == 0 && S(0.5) != 0) {
      return integer1(s);
    } else {
      return static_cast<T>(s);
    }
  }
  TYCHO_INLINE static S out(T t) {
    if constexpr (S(0.5) == 0 && T(0.5) != 0) {
      return static_cast<S>(static_cast<uint64_t>(integer1(t)));
    } else if constexpr (S(0.5) == 0) {
      return static_cast<S>(static_cast<uint64_t>(t));
    } else {
      return static_cast<S>(t);
    }
  }
};
template <class T>
struct Convert<T, Bool> {
  TYCHO_INLINE static T in(Bool s) { return static_cast<T>(s.byte != 0); }
  TYCHO_INLINE static Bool out(T t) { return {t != 0}; }
};
template <class T>
struct Convert<T, Half> {
  TYCHO_INLINE static T in(Half s) { return Convert<T, float>::in(widen(s)); }
  TYCHO_INLINE static Half out(T t) {
    if constexpr (T(0.5) == 0) {
      return narrow_half(static_cast<float>(t));
    } else {
      return narrow_half(t);
    }
  }
};
template <class T>
struct Convert<T, BFloat16> {
  TYCHO_INLINE static T in(BFloat16 s) { return Convert<T, float>::in(widen(s)); }
  TYCHO_INLINE static BFloat16 out(T t) {
    if constexpr (T(0.5) == 0) {
      return narrow_bfloat16(static_cast<float>(t));
    } else {
      return narrow_bfloat16(t);
    }
  }
};

template <class T, class S>
inline void load_contiguous(T* __restrict tile, const void* src, int64_t n) {
  const char* p = static_cast<const char*>(src);
  for (int64_t i = 0; i < n; i++) {
    S s;
    memcpy(&s, p + i * static_cast<int64_t>(sizeof(S)), sizeof(S));
    tile[i] = Convert<T, S>::in(s);
  }
}
template <class T, class S>
inline void store_contiguous(void* dst, const T* __restrict tile, int64_t n) {
  char* p = static_cast<char*>(dst);
  for (int64_t i = 0; i < n; i++) {
    S s = Convert<T, S>::out(tile[i]);
    memcpy(p + i * static_cast<int64_t>(sizeof(S)), &s, sizeof(S));
  }
}
template <class T, class S>
inline void load_strided(T* __restrict tile, const void* src, int64_t stride, int64_t n) {
  if (stride == 1) return load_contiguous<T, S>(tile, src, n);
  const char* p = static_cast<const char*>(src);
  if (stride == 0 && n > 0) {
    S s;
    memcpy(&s, p, sizeof(S));
    T t = Convert<T, S>::in(s);
    for (int64_t i = 0; i < n; i++) tile[i] = t;
    return;
  }
  for (int64_t i = 0; i < n; i++) {
    S s;
    memcpy(&s, p + i * stride * static_cast<int64_t>(sizeof(S)), sizeof(S));
    tile[i] = Convert<T, S>::in(s);
  }
}
template <class T, class S>
inline void store_strided(void* dst, const T* __restrict tile, int64_t stride, int64_t n) {
  if (stride == 1) return store_contiguous<T, S>(dst, tile, n);
  char* p = static_cast<char*>(dst);
  for (int64_t i = 0; i < n; i++) {
    S s = Convert<T, S>::out(tile[i]);
    memcpy(p + i * stride * static_cast<int64_t>(sizeof(S)), &s, sizeof(S));
  }
}

// By dtype code: Bool, UInt8, Int8, Int16, Int32, Int64, Float16, BFloat16, Float32, Float64.
template <class T>
using Load = void (*)(T* tile, const void* src, int64_t stride, int64_t n);
template <class T>
using Store = void (*)(void* dst, const T* tile, int64_t stride, int64_t n);
constexpr int dtype_count = 10;

template <class T>
struct Conversions {
  static constexpr Load<T> load[dtype_count] = {load_strided<T, Bool>,    load_strided<T, uint8_t>,
                                                load_strided<T, int8_t>,  load_strided<T, int16_t>,
                                                load_strided<T, int32_t>, load_strided<T, int64_t>,
                                                load_strided<T, Half>,    load_strided<T, BFloat16>,
                                                load_strided<T, float>,   load_strided<T, double>};
  static constexpr Store<T> store[dtype_count] = {
      store_strided<T, Bool>,    store_strided<T, uint8_t>,  store_strided<T, int8_t>,
      store_strided<T, int16_t>, store_strided<T, int32_t>,  store_strided<T, int64_t>,
      store_strided<T, Half>,    store_strided<T, BFloat16>, store_strided<T, float>,
      store_strided<T, double>};
};
constexpr const auto& load_f32 = Conversions<float>::load;
constexpr const auto& load_f64 = Conversions<double>::load;
constexpr const auto& load_i64 = Conversions<int64_t>::load;
constexpr const auto& store_f32 = Conversions<float>::store;
constexpr const auto& store_f64 = Conversions<double>::store;
constexpr const auto& store_i64 = Conversions<int64_t>::store;

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
