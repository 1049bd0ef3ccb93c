// What the pooling kernels share: walking windows, parts of lanes, tap numbers.
#pragma once
#include "engine/cpu/matmul/level/gemm.h"
#include "engine/cpu/pool/pool.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// One result pixel: places of its window in each axis.
struct Place {
  int64_t z, y, x;  // result position
};

// Calls f(line, image, z, y) for lines [begin, end).
template <class F>
TYCHO_INLINE void each_line(const Pool& p, int64_t begin, int64_t end, F&& f) {
  if (begin >= end) return;
  const int64_t rows = p.axis[1].out, slices = p.axis[0].out;
  int64_t y = begin % rows, z = begin / rows % slices, n = begin / rows / slices;
  for (int64_t line = begin; line < end; ++line) {
    f(line, n, z, y);
    if (++y < rows) continue;
    y = 0;
    if (++z == slices) z = 0, ++n;
  }
}

// Calls first(k, image, z, y) for some lines, k counted from 0, and then second(k, line, z, y) for the same:
// what `first` stores is read in other pieces by `second`, which would have to wait for stores just before.
template <class F, class G>
TYCHO_INLINE void each_line_twice(const Pool& p, int64_t begin, int64_t end, F&& first,
                                  G&& second) {
  const int64_t at_once = lines_at_once(p);
  for (int64_t some = begin; some < end; some += at_once) {
    const int64_t stop = some + at_once < end ? some + at_once : end;
    each_line(p, some, stop,
              [&](int64_t line, int64_t n, int64_t z, int64_t y) { first(line - some, n, z, y); });
    each_line(p, some, stop, [&](int64_t line, int64_t, int64_t z, int64_t y) {
      second(line - some, line, z, y);
    });
  }
}

// Calls f(pixel offset, tap number, count) for the rows of a window's taps that are inside.
template <class F>
TYCHO_INLINE void each_row(const Pool& p, const Place& o, F&& f) {
  const PoolAxis &az = p.axis[0], &ay = p.axis[1], &ax = p.axis[2];
  const int64_t first = ax.first[o.x];
  for (int64_t tz = az.first[o.z]; tz < az.last[o.z]; ++tz)
    for (int64_t ty = ay.first[o.y]; ty < ay.last[o.y]; ++ty) {
      const int64_t row =
          (az.start[o.z] + tz * az.dilation) * ay.in + ay.start[o.y] + ty * ay.dilation;
      f(row * ax.in + ax.start[o.x] + first * ax.dilation,
        (tz * ay.kernel + ty) * ax.kernel + first, ax.last[o.x] - first);
    }
}
// Calls f(pixel offset, tap number) for the taps of a window that are inside, in scan order.
template <class F>
TYCHO_INLINE void each_tap(const Pool& p, const Place& o, F&& f) {
  const int64_t step = p.axis[2].dilation;
  each_row(
      p, o, [&](int64_t pixel, int64_t tap, int64_t count) __attribute__((always_inline)) {
        for (int64_t t = 0; t < count; ++t) f(pixel + t * step, tap + t);
      });
}

TYCHO_INLINE int64_t pixels_of(const Pool& p) { return p.axis[0].in * p.axis[1].in * p.axis[2].in; }

template <class T>
TYCHO_INLINE T divisor_of(const Pool& p, const Place& o) {
  return static_cast<T>(
      p.divisor ? p.divisor : p.axis[0].count[o.z] * p.axis[1].count[o.y] * p.axis[2].count[o.x]);
}

// Calls f(channel, how many) in lanes; a last partial lane has fewer.
template <class T, class F>
TYCHO_INLINE void each_lane(int64_t n, F&& f) {
  constexpr int size = Lane<T>::size;
#if defined(TYCHO_LEVEL_x86_64)  // one copy of f is enough there
  for (int64_t c = 0; c < n; c += size) f(c, static_cast<int>(n - c < size ? n - c : size));
#else
  int64_t c = 0;
  for (; c + size <= n; c += size) f(c, size);
  if (c < n) f(c, static_cast<int>(n - c));
#endif
}
template <class T>
TYCHO_INLINE Lane<T> load_n(const T* p, int n) {
  return n == Lane<T>::size ? Lane<T>::load(p) : load_part(p, n);
}
template <class T>
TYCHO_INLINE void store_n(T* p, Lane<T> x, int n) {
  if (n == Lane<T>::size)
    x.store(p);
  else
    store_part(x, p, n);
}

// Tap numbers travel in lanes as T, and lie in memory as bytes or int32.
struct TapNumbers {
  void* p;
  bool wide;
  TYCHO_INLINE int64_t at(int64_t i) const {
    return wide ? static_cast<const int32_t*>(p)[i] : static_cast<const uint8_t*>(p)[i];
  }
  TYCHO_INLINE void set(int64_t i, int32_t tap) const {
    if (wide)
      static_cast<int32_t*>(p)[i] = tap;
    else
      static_cast<uint8_t*>(p)[i] = static_cast<uint8_t>(tap);
  }
};
template <class T>
TYCHO_INLINE void store_taps(TapNumbers numbers, int64_t first, Lane<T> taps, int n) {
#if defined(TYCHO_LEVEL_v4)
  if constexpr (T(0.5) != 0 && sizeof(T) == 4)
    if (!numbers.wide) {
      uint8_t* to = static_cast<uint8_t*>(numbers.p) + first;
      const __m512i whole = _mm512_maskz_cvttps_epi32(0xffff, (__m512)taps.v);
      _mm512_mask_cvtepi32_storeu_epi8(to, static_cast<__mmask16>((1u << n) - 1), whole);
      return;
    }
#endif
  T a[Lane<T>::size];
  taps.store(a);
  if (n == Lane<T>::size) {
    if (numbers.wide)
      for (int i = 0; i < Lane<T>::size; ++i)
        static_cast<int32_t*>(numbers.p)[first + i] = static_cast<int32_t>(a[i]);
    else
      for (int i = 0; i < Lane<T>::size; ++i)
        static_cast<uint8_t*>(numbers.p)[first + i] =
            static_cast<uint8_t>(static_cast<int32_t>(a[i]));
    return;
  }
  for (int i = 0; i < n; ++i) numbers.set(first + i, static_cast<int32_t>(a[i]));
}
template <class T>
TYCHO_INLINE Lane<T> load_taps(TapNumbers numbers, int64_t first, int n) {
#if defined(TYCHO_LEVEL_v4)
  if constexpr (T(0.5) != 0 && sizeof(T) == 4)
    if (!numbers.wide) {
      const uint8_t* from = static_cast<const uint8_t*>(numbers.p) + first;
      const __m128i none = _mm_set1_epi8(-1);
      const __m128i bytes = _mm_mask_loadu_epi8(none, static_cast<__mmask16>((1u << n) - 1), from);
      const __m512i whole = _mm512_maskz_cvtepu8_epi32(0xffff, bytes);  // 255 is no tap of 16
      return Lane<T>((typename Raw<T>::V)_mm512_maskz_cvtepi32_ps(0xffff, whole));
    }
#endif
  T a[Lane<T>::size];
  if (n == Lane<T>::size && numbers.wide) {
    for (int i = 0; i < Lane<T>::size; ++i)
      a[i] = static_cast<T>(static_cast<const int32_t*>(numbers.p)[first + i]);
  } else if (n == Lane<T>::size) {
    for (int i = 0; i < Lane<T>::size; ++i)
      a[i] =
          static_cast<T>(static_cast<int32_t>(static_cast<const uint8_t*>(numbers.p)[first + i]));
  } else {
    for (int i = 0; i < Lane<T>::size; ++i)
      a[i] = i < n ? static_cast<T>(static_cast<int32_t>(numbers.at(first + i))) : T(-1);
  }
  return Lane<T>::load(a);
}

// Every second element of 2 * size elements at p.
template <class T>
TYCHO_INLINE Lane<T> evens(const T* p) {
  using V = typename Raw<T>::V;
  if constexpr (sizeof(T) == 4) {
#if defined(TYCHO_LEVEL_v4)
    const __m512i at = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    return Lane<T>((V)_mm512_permutex2var_ps(_mm512_loadu_ps(p), at, _mm512_loadu_ps(p + 16)));
#elif defined(TYCHO_LEVEL_v3)
    const __m256 s = _mm256_shuffle_ps(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8), 0x88);
    return Lane<T>((V)_mm256_permute4x64_pd((__m256d)s, 0xd8));
#else
    return Lane<T>((V)_mm_shuffle_ps(_mm_loadu_ps(p), _mm_loadu_ps(p + 4), 0x88));
#endif
  } else {
    T a[Lane<T>::size];
    for (int i = 0; i < Lane<T>::size; ++i) a[i] = p[2 * i];
    return Lane<T>::load(a);
  }
}

// Steps of more than two. Not inlined: it would cost the loops over short steps their registers.
template <class T>
[[gnu::noinline]] Lane<T> far_apart(const T* p, int64_t step) {
#if defined(TYCHO_LEVEL_v4) || defined(TYCHO_LEVEL_v3)
  constexpr int64_t kShort = Lane<T>::size == 16 ? 8 : 4;
  if constexpr (sizeof(T) == 4)
    if (step <= kShort) {
      using V = typename Raw<T>::V;
#if defined(TYCHO_LEVEL_v4)
      const __m512i at = _mm512_mullo_epi32(
          _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
          _mm512_set1_epi32(static_cast<int>(step)));
      const __m512i source = _mm512_maskz_srli_epi32(0xffff, at, 4);
      __m512 r = _mm512_maskz_permutexvar_ps(0xffff, at, _mm512_loadu_ps(p));
      for (int v = 1; v < step; ++v)
        r = _mm512_mask_permutexvar_ps(r, _mm512_cmpeq_epi32_mask(source, _mm512_set1_epi32(v)), at,
                                       _mm512_loadu_ps(p + 16 * v));
      return Lane<T>((V)r);
#else
      const __m256i at = _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
                                            _mm256_set1_epi32(static_cast<int>(step)));
      const __m256i source = _mm256_srli_epi32(at, 3);
      __m256 r = _mm256_permutevar8x32_ps(_mm256_loadu_ps(p), at);
      for (int v = 1; v < step; ++v) {
        const __m256i here = _mm256_cmpeq_epi32(source, _mm256_set1_epi32(v));
        r = _mm256_blendv_ps(r, _mm256_permutevar8x32_ps(_mm256_loadu_ps(p + 8 * v), at),
                             _mm256_castsi256_ps(here));
      }
      return Lane<T>((V)r);
#endif
    }
#endif
  T a[Lane<T>::size];
  for (int i = 0; i < Lane<T>::size; ++i) a[i] = p[i * step];
  return Lane<T>::load(a);
}
// Every `step`th element from p on. Where steps are short, as many are read as lie below
// p + step * size: a few permutations are faster than a gather.
template <class T>
TYCHO_INLINE Lane<T> spaced(const T* p, int64_t step) {
  if (step == 1) return Lane<T>::load(p);
  if (step == 2) return evens(p);
  return far_apart(p, step);
}

// The results along a line whose windows lie inside, all of whose taps count, and a stride apart.
struct Inside {
  int64_t begin = 0, end;
  explicit Inside(const PoolAxis& a) : end(a.stride ? a.out : 0) {
    const auto whole = [&](int64_t o) { return a.first[o] == 0 && a.last[o] == a.kernel; };
    while (begin < end && !whole(begin)) ++begin;
    while (begin < end && !whole(end - 1)) --end;
  }
};

// Whether the windows of results from o on may be read as a part of a lane.
template <class T>
TYCHO_INLINE bool part_fits(const PoolAxis& a, int64_t o) {
  return a.start[o] + (a.kernel - 1) * a.dilation + Lane<T>::size * a.stride <= a.in + 64;
}

// Whether each_result takes lanes at all.
template <class T>
TYCHO_INLINE bool any_lanes(const PoolAxis& a, const Inside& inside) {
  const int64_t n = inside.end - inside.begin;
  return n >= Lane<T>::size || (n > 0 && part_fits<T>(a, inside.begin));
}

// Calls lanes(first result, how many) for the results inside of a line and single(result) for the
// others. A part of a lane is read whole where its windows end within the 64 elements behind a scratch line.
template <class T, class F, class G>
TYCHO_INLINE void each_result(const PoolAxis& a, const Inside& inside, F&& lanes, G&& single) {
  constexpr int size = Lane<T>::size;
  int64_t o = 0;
  for (; o < inside.begin; ++o) single(o);
  for (; o + size <= inside.end; o += size) lanes(o, size);
  if (o < inside.end && part_fits<T>(a, o)) {
    lanes(o, static_cast<int>(inside.end - o));
    o = inside.end;
  }
  for (; o < a.out; ++o) single(o);
}

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
