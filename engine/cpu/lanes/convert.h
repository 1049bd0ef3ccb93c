// Between memory and tiles: every storage type becomes float, double or int64 on load and is
// rounded once, to nearest even, on store. Tables indexed by the dtype's code give the functions
// that run on n elements `stride` apart (in elements; 1 is fast, 0 repeats one element).
#pragma once
#include "engine/cpu/lanes/half.h"
#include "engine/cpu/lanes/steps.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// How bool lies in memory.
struct Bool {
  uint8_t byte;
};

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

// ---- whole arrays

// A number of elements small enough for the stack, between two passes.
constexpr int64_t chunk = 256;

// float or double to int64, as integer1 does.
inline void to_integers(int64_t* __restrict out, const float* __restrict x, int64_t n) {
  int64_t i = 0;
#if defined(TYCHO_LEVEL_v4)
  for (; i + 8 <= n; i += 8) {
    _mm512_storeu_si512(out + i, _mm512_maskz_cvttps_epi64(-1, _mm256_loadu_ps(x + i)));
  }
#else
#if defined(TYCHO_LEVEL_v3)
  for (; i + 8 <= n; i += 8) {
    const __m256i k = _mm256_cvttps_epi32(_mm256_loadu_ps(x + i));
    const auto put = [&](int64_t at, __m128i half) __attribute__((always_inline)) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i + at), _mm256_cvtepi32_epi64(half));
    };
    put(0, _mm256_castsi256_si128(k)), put(4, _mm256_extracti128_si256(k, 1));
    if (_mm256_movemask_epi8(_mm256_cmpeq_epi32(k, _mm256_set1_epi32(INT32_MIN))))
      for (int64_t j = i; j < i + 8; j++) out[j] = integer1(x[j]);
  }
#endif
  for (; i + 4 <= n; i += 4) {
    __m128i k = _mm_cvttps_epi32(_mm_loadu_ps(x + i)), sign = _mm_srai_epi32(k, 31);
    // What does not fit 32 bits comes out as INT32_MIN.
    if (_mm_movemask_epi8(_mm_cmpeq_epi32(k, _mm_set1_epi32(INT32_MIN)))) {
      for (int64_t j = i; j < i + 4; j++) out[j] = integer1(x[j]);
    } else {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm_unpacklo_epi32(k, sign));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i + 2), _mm_unpackhi_epi32(k, sign));
    }
  }
#endif
  for (; i < n; i++) out[i] = integer1(x[i]);
}
inline void to_integers(int64_t* __restrict out, const double* __restrict x, int64_t n) {
  int64_t i = 0;
#if defined(TYCHO_LEVEL_v4)
  for (; i + 8 <= n; i += 8) {
    _mm512_storeu_si512(out + i, _mm512_maskz_cvttpd_epi64(-1, _mm512_loadu_pd(x + i)));
  }
#elif defined(TYCHO_LEVEL_v3)
  // Whole numbers below 2^51 are the low bits of their sum with this one.
  const __m256d shifter = _mm256_set1_pd(0x1.8p52), most = _mm256_set1_pd(0x1p51),
                size = _mm256_castsi256_pd(_mm256_set1_epi64x(INT64_MAX));
  for (; i + 4 <= n; i += 4) {
    const __m256d d = _mm256_loadu_pd(x + i);
    const __m256d whole = _mm256_round_pd(d, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
    const __m256i bits = _mm256_castpd_si256(_mm256_add_pd(whole, shifter));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i),
                        _mm256_sub_epi64(bits, _mm256_castpd_si256(shifter)));
    if (_mm256_movemask_pd(_mm256_cmp_pd(_mm256_and_pd(d, size), most, _CMP_NLT_UQ)))
      for (int64_t j = i; j < i + 4; j++) out[j] = integer1(x[j]);
  }
#endif
  for (; i < n; i++) out[i] = integer1(x[i]);
}

// int64 to double or float, rounded once; returns how many were taken. AVX2 has no instruction for them: the halves
// of a number are the low bits of doubles with these exponents, and the sum of both, less what was put in.
#if defined(TYCHO_LEVEL_v3)
TYCHO_INLINE __m256d doubles_of(__m256i x) {
  const __m256d low_part = _mm256_set1_pd(0x1p52),
                high_part = _mm256_set1_pd(0x1p84 + 0x1p63),  // the number's sign is turned
      both = _mm256_set1_pd(0x1p84 + 0x1p63 + 0x1p52);
  const __m256i low = _mm256_blend_epi32(_mm256_castpd_si256(low_part), x, 0x55),
                high = _mm256_xor_si256(_mm256_srli_epi64(x, 32), _mm256_castpd_si256(high_part));
  return _mm256_add_pd(_mm256_sub_pd(_mm256_castsi256_pd(high), both), _mm256_castsi256_pd(low));
}
template <class T>  // double
inline int64_t from_integers(char* __restrict out, const char* x, int64_t n) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4)
    _mm256_storeu_pd(reinterpret_cast<double*>(out + 8 * i),
                     doubles_of(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + 8 * i))));
  return i;
}
template <>
inline int64_t from_integers<float>(char* __restrict out, const char* x, int64_t n) {
  int64_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + 8 * i));
    // Of larger ones the double would be rounded, too.
    const __m256i above = _mm256_add_epi64(v, _mm256_set1_epi64x(int64_t{1} << 52));
    if (_mm256_testz_si256(above, _mm256_set1_epi64x(-(int64_t{1} << 53)))) {
      _mm_storeu_ps(reinterpret_cast<float*>(out + 4 * i), _mm256_cvtpd_ps(doubles_of(v)));
      continue;
    }
    for (int64_t j = i; j < i + 4; j++) {
      int64_t one;
      memcpy(&one, x + 8 * j, 8);
      const float rounded = static_cast<float>(one);
      memcpy(out + 4 * j, &rounded, 4);
    }
  }
  return i;
}
#else
template <class T>
inline int64_t from_integers(char*, const char*, int64_t) {
  return 0;
}
#endif

// The low halves of these, for memory of 32 bits and less. Where a number does not fit 32 bits,
// the instruction gives INT32_MIN.
template <class T>
TYCHO_INLINE int32_t low_integer1(T x) {
  return static_cast<int32_t>(static_cast<uint32_t>(integer1(x)));
}
inline void to_low_integers(int32_t* __restrict out, const float* __restrict x, int64_t n) {
  int64_t i = 0;
  // The next m; true if all of them fit.
#if defined(TYCHO_LEVEL_v4)
  constexpr int64_t w = 16;
  const auto some = [&](int64_t m) __attribute__((always_inline)) {
    __mmask16 least = 0;
#pragma GCC unroll 4
    for (int64_t j = i; j < i + m; j += w) {
      const __m512i k = _mm512_maskz_cvttps_epi32(-1, _mm512_loadu_ps(x + j));
      _mm512_storeu_si512(out + j, k);
      least |= _mm512_cmpeq_epi32_mask(k, _mm512_set1_epi32(INT32_MIN));
    }
    return !least;
  };
#elif defined(TYCHO_LEVEL_v3)
  constexpr int64_t w = 8;
  const auto some = [&](int64_t m) __attribute__((always_inline)) {
    __m256i least = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int64_t j = i; j < i + m; j += w) {
      const __m256i k = _mm256_cvttps_epi32(_mm256_loadu_ps(x + j));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + j), k);
      least = _mm256_or_si256(least, _mm256_cmpeq_epi32(k, _mm256_set1_epi32(INT32_MIN)));
    }
    return static_cast<bool>(_mm256_testz_si256(least, least));
  };
#else
  constexpr int64_t w = 4;
  const auto some = [&](int64_t m) __attribute__((always_inline)) {
    __m128i least = _mm_setzero_si128();
#pragma GCC unroll 4
    for (int64_t j = i; j < i + m; j += w) {
      const __m128i k = _mm_cvttps_epi32(_mm_loadu_ps(x + j));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + j), k);
      least = _mm_or_si128(least, _mm_cmpeq_epi32(k, _mm_set1_epi32(INT32_MIN)));
    }
    return !_mm_movemask_epi8(least);
  };
#endif
  const auto take = [&](int64_t m) __attribute__((always_inline)) {
    for (; i + m <= n; i += m)
      if (!some(m))
        for (int64_t j = i; j < i + m; j++) out[j] = low_integer1(x[j]);
  };
  take(4 * w), take(w);
  for (; i < n; i++) out[i] = low_integer1(x[i]);
}
inline void to_low_integers(int32_t* __restrict out, const double* __restrict x, int64_t n) {
  int64_t i = 0;
#if defined(TYCHO_LEVEL_v4)
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_si256(
        reinterpret_cast<__m256i*>(out + i),
        _mm512_maskz_cvtepi64_epi32(-1, _mm512_maskz_cvttpd_epi64(-1, _mm512_loadu_pd(x + i))));
#elif defined(TYCHO_LEVEL_v3)
  for (; i + 4 <= n; i += 4) {
    const __m128i k = _mm256_cvttpd_epi32(_mm256_loadu_pd(x + i));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), k);
    if (_mm_movemask_epi8(_mm_cmpeq_epi32(k, _mm_set1_epi32(INT32_MIN))))
      for (int64_t j = i; j < i + 4; j++) out[j] = low_integer1(x[j]);
  }
#endif
  for (; i < n; i++) out[i] = low_integer1(x[i]);
}

// The lowest bits of numbers, one byte or two for each of as many as whole vectors hold; returns how many.
#if defined(TYCHO_LEVEL_v4)
template <int bytes, class T>
inline int64_t to_low_parts(char* out, const T* __restrict x, int64_t n) {
  int64_t i = 0;
  const __m512i least = _mm512_set1_epi32(INT32_MIN);  // where a number does not fit 32 bits
  for (; sizeof(T) == 4 && i + 64 <= n; i += 64) {
    const auto some = [&](int64_t at) __attribute__((always_inline)) {
      return _mm512_maskz_cvttps_epi32(-1,
                                       _mm512_loadu_ps(reinterpret_cast<const float*>(x + i + at)));
    };
    const __m512i a = some(0), b = some(16), c = some(32), d = some(48);
    if (_mm512_cmpeq_epi32_mask(a, least) | _mm512_cmpeq_epi32_mask(b, least) |
        _mm512_cmpeq_epi32_mask(c, least) | _mm512_cmpeq_epi32_mask(d, least)) {
      for (int64_t j = i; j < i + 64; j++) {
        const int32_t k = low_integer1(x[j]);
        memcpy(out + bytes * j, &k, bytes);
      }
      continue;
    }
    const auto put = [&](int64_t at, __m512i v) __attribute__((always_inline)) {
      char* to = out + bytes * (i + at);
      if constexpr (bytes == 1)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm512_maskz_cvtepi32_epi8(-1, v));
      else
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_maskz_cvtepi32_epi16(-1, v));
    };
    put(0, a), put(16, b), put(32, c), put(48, d);
  }
  return i;
}
#elif defined(TYCHO_LEVEL_v3)
TYCHO_INLINE __m256i eight_integers(const float* x) {
  return _mm256_cvttps_epi32(_mm256_loadu_ps(x));
}
TYCHO_INLINE __m256i eight_integers(const double* x) {
  return _mm256_set_m128i(_mm256_cvttpd_epi32(_mm256_loadu_pd(x + 4)),
                          _mm256_cvttpd_epi32(_mm256_loadu_pd(x)));
}
template <int bytes, class T>
inline int64_t to_low_parts(char* out, const T* __restrict x, int64_t n) {
  int64_t i = 0;
  const __m256i least = _mm256_set1_epi32(INT32_MIN),  // where a number does not fit 32 bits
      low = _mm256_set1_epi32(bytes == 1 ? 0xff : 0xffff);
  for (; i + 32 <= n; i += 32) {
    __m256i k[4], beyond = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
      k[j] = eight_integers(x + i + 8 * j);
      beyond = _mm256_or_si256(beyond, _mm256_cmpeq_epi32(k[j], least));
      k[j] = _mm256_and_si256(k[j], low);
    }
    const __m256i a = _mm256_packus_epi32(k[0], k[1]), b = _mm256_packus_epi32(k[2], k[3]);
    __m256i* const to = reinterpret_cast<__m256i*>(out + bytes * i);
    if constexpr (bytes == 1) {
      const __m256i fours = _mm256_packus_epi16(a, b);
      _mm256_storeu_si256(
          to, _mm256_permutevar8x32_epi32(fours, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7)));
    } else {
      _mm256_storeu_si256(to, _mm256_permute4x64_epi64(a, 0xd8));
      _mm256_storeu_si256(to + 1, _mm256_permute4x64_epi64(b, 0xd8));
    }
    if (_mm256_movemask_epi8(beyond))
      for (int64_t j = i; j < i + 32; j++) {
        const int32_t one = low_integer1(x[j]);
        memcpy(out + bytes * j, &one, bytes);
      }
  }
  return i;
}
#else
template <int bytes, class T>
inline int64_t to_low_parts(char*, const T*, int64_t) {
  return 0;
}
#endif

// Which types are which, without the standard library.
template <class A, class B>
constexpr bool same = false;
template <class A>
constexpr bool same<A, A> = true;
template <class S>
constexpr bool short_float = same<S, Half> || same<S, BFloat16>;
template <class S>
constexpr bool integer_memory =
    !same<S, Bool> && !short_float<S> && !same<S, float> && !same<S, double>;

template <int bytes>
constexpr auto shorter_integer() {
  if constexpr (bytes < 8)
    return int32_t();
  else
    return int64_t();
}

template <class T, class S>
inline void load_contiguous(T* __restrict tile, const void* src, int64_t n) {
  const char* p = static_cast<const char*>(src);
  if constexpr (same<T, float> && same<S, Half> && half_instructions) {
    from_half(tile, p, n);
  } else if constexpr (same<T, int64_t> && (same<S, float> || same<S, double>)) {
    if (reinterpret_cast<uintptr_t>(p) % sizeof(S) == 0)
      return to_integers(tile, reinterpret_cast<const S*>(p), n);
    S part[chunk];
    for (int64_t i = 0; i < n; i += chunk) {
      int64_t m = n - i < chunk ? n - i : chunk;
      memcpy(part, p + i * static_cast<int64_t>(sizeof(S)), static_cast<size_t>(m) * sizeof(S));
      to_integers(tile + i, part, m);
    }
  } else if constexpr (short_float<S> && !same<T, float> &&
                       (same<T, int64_t> || half_instructions)) {
    float part[chunk];
    for (int64_t i = 0; i < n; i += chunk) {
      int64_t m = n - i < chunk ? n - i : chunk;
      load_contiguous<float, S>(part, p + i * 2, m);
      load_contiguous<T, float>(tile + i, part, m);
    }
  } else {
    int64_t i = 0;
    if constexpr (same<S, int64_t> && (same<T, float> || same<T, double>))
      i = from_integers<T>(reinterpret_cast<char*>(tile), p, n);
    for (; i < n; i++) {
      S s;
      memcpy(&s, p + i * static_cast<int64_t>(sizeof(S)), sizeof(S));
      tile[i] = Convert<T, S>::in(s);
    }
  }
}
template <class T, class S>
inline void store_contiguous(void* dst, const T* __restrict tile, int64_t n) {
  char* p = static_cast<char*>(dst);
  if constexpr (same<T, float> && same<S, Half> && half_instructions) {
    to_half(p, tile, n);
  } else if constexpr (same<T, float> && same<S, BFloat16> && bfloat16_instructions) {
    to_bfloat16(p, tile, n);
  } else if constexpr ((same<T, float> || same<T, double>)&&integer_memory<S>) {
    if constexpr (same<S, int32_t>)
      if (reinterpret_cast<uintptr_t>(p) % sizeof(S) == 0)
        return to_low_integers(reinterpret_cast<int32_t*>(p), tile, n);
    if constexpr (sizeof(S) < 4) {
      const int64_t done = to_low_parts<sizeof(S)>(p, tile, n);
      p += done * static_cast<int64_t>(sizeof(S)), tile += done, n -= done;
    }
    using Part = decltype(shorter_integer<sizeof(S)>());
    Part part[chunk];
    for (int64_t i = 0; i < n; i += chunk) {
      int64_t m = n - i < chunk ? n - i : chunk;
      if constexpr (sizeof(S) < 8)
        to_low_integers(part, tile + i, m);
      else
        to_integers(part, tile + i, m);
      store_contiguous<Part, S>(p + i * static_cast<int64_t>(sizeof(S)), part, m);
    }
  } else if constexpr (short_float<S> && !same<T, float>) {
    if constexpr (same<T, double>) {
      const int64_t done = doubles_to_short<S>(p, tile, n);
      p += done * 2, tile += done, n -= done;
    }
    float part[chunk];
    for (int64_t i = 0; i < n; i += chunk) {
      int64_t m = n - i < chunk ? n - i : chunk;
      if constexpr (same<T, double>)
        to_odd(part, tile + i, m);
      else
        load_contiguous<float, T>(part, tile + i, m);
      store_contiguous<float, S>(p + i * 2, part, m);
    }
  } else {
    int64_t i = 0;
    if constexpr (same<T, int64_t> && (same<S, float> || same<S, double>))
      i = from_integers<S>(p, reinterpret_cast<const char*>(tile), n);
    for (; i < n; i++) {
      S s = Convert<T, S>::out(tile[i]);
      memcpy(p + i * static_cast<int64_t>(sizeof(S)), &s, sizeof(S));
    }
  }
}

// Elements `stride` apart are gathered first where their conversion is worth vector code.
template <class T, class S>
inline void load_strided(T* __restrict tile, const void* src, int64_t stride, int64_t n) {
  if (stride == 1) return load_contiguous<T, S>(tile, src, n);
  const char* p = static_cast<const char*>(src);
  const int64_t step = stride * static_cast<int64_t>(sizeof(S));
  if (stride == 0) {
    T t;
    load_contiguous<T, S>(&t, src, n > 0);
    for (int64_t i = 0; i < n; i++) tile[i] = t;
  } else if constexpr (sizeof(T) == sizeof(S)) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < n; i++) {
      S s;
      memcpy(&s, p + i * step, sizeof(S));
      tile[i] = Convert<T, S>::in(s);
    }
  } else {
    S part[chunk];
    for (int64_t i = 0; i < n; i += chunk) {
      int64_t m = n - i < chunk ? n - i : chunk;
#pragma GCC unroll 4
      for (int64_t j = 0; j < m; j++) memcpy(part + j, p + (i + j) * step, sizeof(S));
      load_contiguous<T, S>(tile + i, part, m);
    }
  }
}
template <class T, class S>
inline void store_strided(void* dst, const T* __restrict tile, int64_t stride, int64_t n) {
  if (stride == 1) return store_contiguous<T, S>(dst, tile, n);
  char* p = static_cast<char*>(dst);
  const int64_t step = stride * static_cast<int64_t>(sizeof(S));
  if constexpr (same<T, S>) {
    int64_t i = spread(static_cast<T*>(dst), stride, tile, n);
#pragma GCC unroll 4
    for (; i < n; i++) memcpy(p + i * step, tile + i, sizeof(S));
    return;
  }
  S part[chunk];
  for (int64_t i = 0; i < n; i += chunk) {
    int64_t m = n - i < chunk ? n - i : chunk;
    store_contiguous<T, S>(part, tile + i, m);
    int64_t j = spread(reinterpret_cast<S*>(p + i * step), stride, part, m);
#pragma GCC unroll 4
    for (; j < m; j++) memcpy(p + (i + j) * step, part + j, sizeof(S));
  }
}

// By dtype code: Bool, UInt8, Int8, Int16, Int32, Int64, Float16, BFloat16, Float32, Float64.
constexpr int dtype_count = 10;

template <class T>
struct Conversions {
  using Load = void (*)(T* tile, const void* src, int64_t stride, int64_t n);
  using Store = void (*)(void* dst, const T* tile, int64_t stride, int64_t n);
  static constexpr Load load[dtype_count] = {load_strided<T, Bool>,    load_strided<T, uint8_t>,
                                             load_strided<T, int8_t>,  load_strided<T, int16_t>,
                                             load_strided<T, int32_t>, load_strided<T, int64_t>,
                                             load_strided<T, Half>,    load_strided<T, BFloat16>,
                                             load_strided<T, float>,   load_strided<T, double>};
  static constexpr Store store[dtype_count] = {
      store_strided<T, Bool>,    store_strided<T, uint8_t>,  store_strided<T, int8_t>,
      store_strided<T, int16_t>, store_strided<T, int32_t>,  store_strided<T, int64_t>,
      store_strided<T, Half>,    store_strided<T, BFloat16>, store_strided<T, float>,
      store_strided<T, double>};
};
constexpr const auto& load_f32 = Conversions<float>::load;
constexpr const auto& load_f64 = Conversions<double>::load;
constexpr const auto& load_i64 = Conversions<int64_t>::load;
constexpr const auto& store_i32 = Conversions<int32_t>::store;
constexpr const auto& store_f32 = Conversions<float>::store;
constexpr const auto& store_f64 = Conversions<double>::store;
constexpr const auto& store_i64 = Conversions<int64_t>::store;

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
