// Loops over positions, rows and masks.
#include "engine/cpu/index/index.h"

#include "engine/cpu/lanes/vec.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

template <class T>
TYCHO_INLINE void add_rows(void* to, const void* from, int64_t n, double alpha) {
  T* __restrict t = static_cast<T*>(to);
  const T* f = static_cast<const T*>(from);
  if (alpha == 1) {
    for (int64_t i = 0; i < n; i++) t[i] += f[i];
  } else {
    const T a = static_cast<T>(alpha);
    for (int64_t i = 0; i < n; i++) t[i] += a * f[i];
  }
}

template <class T>
TYCHO_INLINE void sum_named(void* to, const void* table, int64_t step, const int64_t* p, int64_t n,
                            int64_t width) {
  constexpr int w = Lane<T>::size, kLanes = 4;
  T* t = static_cast<T*>(to);
  const T* f = static_cast<const T*>(table);
  int64_t j = 0;
  for (; j + kLanes * w <= width; j += kLanes * w) {
    Lane<T> sum[kLanes] = {Lane<T>(0), Lane<T>(0), Lane<T>(0), Lane<T>(0)};
    for (int64_t i = 0; i < n; i++)
      for (int k = 0; k < kLanes; k++) sum[k] += Lane<T>::load(f + (p[i] - 1) * step + j + k * w);
    for (int k = 0; k < kLanes; k++) sum[k].store(t + j + k * w);
  }
  for (; j + w <= width; j += w) {
    Lane<T> sum(0);
    for (int64_t i = 0; i < n; i++) sum += Lane<T>::load(f + (p[i] - 1) * step + j);
    sum.store(t + j);
  }
  for (; j < width; j++) {
    T sum = 0;
    for (int64_t i = 0; i < n; i++) sum += f[(p[i] - 1) * step + j];
    t[j] = sum;
  }
}

template <class T>
TYCHO_INLINE void bins_of(const T* x, int64_t n, T low, T high, T first, T range, int64_t bins,
                          int64_t* to) {
  constexpr int64_t size = Lane<T>::size;
  for (int64_t i = 0; i < n; i += size) {
    const int64_t m = n - i < size ? n - i : size;
    T at[size] = {};
    memcpy(at, x + i, static_cast<size_t>(m) * sizeof(T));
    const Lane<T> v = Lane<T>::load(at);
    const Lane<T> place = (v - Lane<T>(first)) * Lane<T>(static_cast<T>(bins)) / Lane<T>(range);
    select((v >= Lane<T>(low)) & (v <= Lane<T>(high)), place, Lane<T>(-1)).store(at);
    for (int64_t k = 0; k < m; ++k)  // a range of 0 gives nan
      to[i + k] = !(at[k] >= 0)                   ? bins
                  : at[k] >= static_cast<T>(bins) ? bins - 1
                                                  : static_cast<int64_t>(at[k]);
  }
}

template <class T>
TYCHO_INLINE int64_t compress_plain(T* to, const T* from, const uint8_t* mask, int64_t n,
                                    int64_t room) {
  int64_t k = 0, i = 0;
  // Without branches while there is room for one element too many.
  for (; i < n && k < room; i++) {
    to[k] = from[i];
    k += mask[i] != 0;
  }
  return k;
}

template <class T>
TYCHO_INLINE void expand_plain(T* to, const T* from, int64_t count, const T* kept,
                               const uint8_t* mask, int64_t n) {
  int64_t k = 0, i = 0;
  for (; i < n && k < count; i++) {  // without branches on the mask
    const bool is = mask[i] != 0;
    const T all = static_cast<T>(-static_cast<int64_t>(is));
    to[i] = static_cast<T>((from[k] & all) | (kept[i] & static_cast<T>(~all)));
    k += is;
  }
  if (kept != to) memcpy(to + i, kept + i, static_cast<size_t>(n - i) * sizeof(T));
}

// Whole registers while the source holds one.
#if defined(TYCHO_LEVEL_v4)
TYCHO_INLINE uint16_t mask16(const uint8_t* m) {
  const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(m));
  return _mm_test_epi8_mask(b, b);
}
// Writes whole registers while there is room for one, which on some CPUs is far faster than a
// compressing store.
TYCHO_INLINE int64_t compress4(uint32_t* to, const uint32_t* from, const uint8_t* mask, int64_t n,
                               int64_t room) {
  int64_t k = 0, i = 0;
  for (; i + 16 <= n && k + 16 <= room; i += 16) {
    const uint16_t m = mask16(mask + i);
    const __m512i v = _mm512_loadu_si512(from + i);
    _mm512_storeu_si512(to + k, _mm512_maskz_compress_epi32(m, v));
    k += __builtin_popcount(m);
  }
  return k + compress_plain(to + k, from + i, mask + i, n - i, room - k);
}
TYCHO_INLINE int64_t compress8(uint64_t* to, const uint64_t* from, const uint8_t* mask, int64_t n,
                               int64_t room) {
  int64_t k = 0, i = 0;
  for (; i + 16 <= n && k + 16 <= room; i += 16) {
    const uint32_t m = mask16(mask + i);
    const __mmask8 low = m & 255, high = m >> 8;
    const __m512i a = _mm512_loadu_si512(from + i), b = _mm512_loadu_si512(from + i + 8);
    _mm512_storeu_si512(to + k, _mm512_maskz_compress_epi64(low, a));
    k += __builtin_popcount(low);
    _mm512_storeu_si512(to + k, _mm512_maskz_compress_epi64(high, b));
    k += __builtin_popcount(high);
  }
  return k + compress_plain(to + k, from + i, mask + i, n - i, room - k);
}
TYCHO_INLINE void expand4(uint32_t* to, const uint32_t* from, int64_t count, const uint32_t* kept,
                          const uint8_t* mask, int64_t n) {
  int64_t k = 0, i = 0;
  for (; i + 16 <= n && k + 16 <= count; i += 16) {
    const uint16_t m = mask16(mask + i);
    const __m512i v = _mm512_loadu_si512(from + k), old = _mm512_loadu_si512(kept + i);
    _mm512_storeu_si512(to + i, _mm512_mask_expand_epi32(old, m, v));
    k += __builtin_popcount(m);
  }
  expand_plain(to + i, from + k, count - k, kept + i, mask + i, n - i);
}
TYCHO_INLINE void expand8(uint64_t* to, const uint64_t* from, int64_t count, const uint64_t* kept,
                          const uint8_t* mask, int64_t n) {
  int64_t k = 0, i = 0;
  for (; i + 16 <= n && k + 16 <= count; i += 16) {
    const uint32_t m = mask16(mask + i);
    for (int half = 0; half < 2; half++) {
      const __mmask8 of = static_cast<__mmask8>(m >> 8 * half);
      const __m512i v = _mm512_loadu_si512(from + k), old = _mm512_loadu_si512(kept + i + 8 * half);
      _mm512_storeu_si512(to + i + 8 * half, _mm512_mask_expand_epi64(old, of, v));
      k += __builtin_popcount(of);
    }
  }
  expand_plain(to + i, from + k, count - k, kept + i, mask + i, n - i);
}
#else
TYCHO_INLINE int64_t compress4(uint32_t* to, const uint32_t* from, const uint8_t* mask, int64_t n,
                               int64_t room) {
  return compress_plain(to, from, mask, n, room);
}
TYCHO_INLINE int64_t compress8(uint64_t* to, const uint64_t* from, const uint8_t* mask, int64_t n,
                               int64_t room) {
  return compress_plain(to, from, mask, n, room);
}
#if defined(TYCHO_LEVEL_v3)
// For each eight bits, how many of those below each are set.
struct SetBelow {
  uint8_t of[256][8];
  constexpr SetBelow() : of() {
    for (int m = 0; m < 256; m++)
      for (int j = 0, k = 0; j < 8; k += m >> j & 1, j++) of[m][j] = static_cast<uint8_t>(k);
  }
};
constexpr SetBelow kSetBelow;
TYCHO_INLINE void expand4(uint32_t* to, const uint32_t* from, int64_t count, const uint32_t* kept,
                          const uint8_t* mask, int64_t n) {
  int64_t k = 0, i = 0;
  for (; i + 8 <= n && k + 8 <= count; i += 8) {
    const __m128i b = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(mask + i));
    const __m128i off = _mm_cmpeq_epi8(b, _mm_setzero_si128());
    const unsigned m = ~static_cast<unsigned>(_mm_movemask_epi8(off)) & 255u;
    const __m256i at = _mm256_cvtepu8_epi32(
                      _mm_loadl_epi64(reinterpret_cast<const __m128i*>(kSetBelow.of[m]))),
                  v = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(from + k)),
                  old = _mm256_loadu_si256(reinterpret_cast<const __m256i_u*>(kept + i));
    _mm256_storeu_si256(
        reinterpret_cast<__m256i_u*>(to + i),
        _mm256_blendv_epi8(_mm256_permutevar8x32_epi32(v, at), old, _mm256_cvtepi8_epi32(off)));
    k += __builtin_popcount(m);
  }
  expand_plain(to + i, from + k, count - k, kept + i, mask + i, n - i);
}
#else
TYCHO_INLINE void expand4(uint32_t* to, const uint32_t* from, int64_t count, const uint32_t* kept,
                          const uint8_t* mask, int64_t n) {
  expand_plain(to, from, count, kept, mask, n);
}
#endif
TYCHO_INLINE void expand8(uint64_t* to, const uint64_t* from, int64_t count, const uint64_t* kept,
                          const uint8_t* mask, int64_t n) {
  expand_plain(to, from, count, kept, mask, n);
}
#endif

}  // namespace

bool any_outside(const int64_t* p, int64_t n, int64_t size) {
  const uint64_t limit = static_cast<uint64_t>(size);
  uint64_t bad = 0;
  for (int64_t i = 0; i < n; i++) bad |= static_cast<uint64_t>(p[i] - 1) >= limit;
  return bad != 0;
}

void add_row(int dtype, void* to, const void* from, int64_t n, double alpha) {
  switch (dtype) {
    case 4:
      return add_rows<int32_t>(to, from, n, alpha);
    case 5:
      return add_rows<int64_t>(to, from, n, alpha);
    case 8:
      return add_rows<float>(to, from, n, alpha);
    default:
      return add_rows<double>(to, from, n, alpha);
  }
}

void sum_rows(int dtype, void* to, const void* table, int64_t step, const int64_t* p, int64_t n,
              int64_t width) {
  if (dtype == 8)
    sum_named<float>(to, table, step, p, n, width);
  else
    sum_named<double>(to, table, step, p, n, width);
}

void bins_f32(const float* x, int64_t n, float low, float high, float first, float range,
              int64_t bins, int64_t* to) {
  bins_of(x, n, low, high, first, range, bins, to);
}
void bins_f64(const double* x, int64_t n, double low, double high, double first, double range,
              int64_t bins, int64_t* to) {
  bins_of(x, n, low, high, first, range, bins, to);
}

int64_t compress(int bytes, void* to, const void* from, const uint8_t* mask, int64_t n,
                 int64_t room) {
  switch (bytes) {
    case 1:
      return compress_plain(static_cast<uint8_t*>(to), static_cast<const uint8_t*>(from), mask, n,
                            room);
    case 2:
      return compress_plain(static_cast<uint16_t*>(to), static_cast<const uint16_t*>(from), mask, n,
                            room);
    case 4:
      return compress4(static_cast<uint32_t*>(to), static_cast<const uint32_t*>(from), mask, n,
                       room);
    default:
      return compress8(static_cast<uint64_t*>(to), static_cast<const uint64_t*>(from), mask, n,
                       room);
  }
}

void expand(int bytes, void* to, const void* from, int64_t count, const void* kept,
            const uint8_t* mask, int64_t n) {
  const auto plain = [&](auto kind) {
    using T = decltype(kind);
    expand_plain(static_cast<T*>(to), static_cast<const T*>(from), count,
                 static_cast<const T*>(kept), mask, n);
  };
  switch (bytes) {
    case 1:
      return plain(uint8_t());
    case 2:
      return plain(uint16_t());
    case 4:
      return expand4(static_cast<uint32_t*>(to), static_cast<const uint32_t*>(from), count,
                     static_cast<const uint32_t*>(kept), mask, n);
    default:
      return expand8(static_cast<uint64_t*>(to), static_cast<const uint64_t*>(from), count,
                     static_cast<const uint64_t*>(kept), mask, n);
  }
}

int64_t count_bytes(const uint8_t* mask, int64_t n) {
  int64_t total = 0;
  for (int64_t i = 0; i < n;) {
    // Bytes are summed in bytes for a while, then widened.
    const int64_t end = i + 4096 < n ? i + 4096 : n;
    int32_t part = 0;
    for (; i < end; i++) part += mask[i] != 0;
    total += part;
  }
  return total;
}

}  // namespace tycho::cpu::TYCHO_LEVEL
