// Steps, places and transpositions. A tile is transposed in registers; where one row of it fills a
// cache line, the line can be written around the caches.
#include "engine/cpu/elementwise/move.h"

#include "engine/cpu/lanes/steps.h"
#include "engine/cpu/lanes/transpose.h"
#include "engine/cpu/lanes/vec.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// The compiler leaves loops with steps as they are, which take twice as long as four elements at a time.
template <class T>
TYCHO_INLINE void strided(char* to, int64_t ts, const char* from, int64_t fs, int64_t n) {
  T* t = reinterpret_cast<T*>(to);
  const T* f = reinterpret_cast<const T*>(from);
  if (fs == 0) {
    const T x = *f;
#pragma GCC unroll 4
    for (int64_t i = 0; i < n; i++) t[i * ts] = x;
  } else if (ts == 1) {
#pragma GCC unroll 4
    for (int64_t i = 0; i < n; i++) t[i] = f[i * fs];
  } else {
    int64_t i = fs == 1 ? spread(t, ts, f, n) : 0;
#pragma GCC unroll 4
    for (; i < n; i++) t[i * ts] = f[i * fs];
  }
}

template <class T>
TYCHO_INLINE void plain_plane(T* to, int64_t ts, const T* from, int64_t fs, int64_t rows,
                              int64_t cols) {
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < cols; c++) to[r * ts + c] = from[c * fs + r];
}

#if defined(TYCHO_LEVEL_v3) || defined(TYCHO_LEVEL_v4)
// 8 x 8 in registers of 256 bits.
TYCHO_INLINE void half_tile4(uint32_t* to, int64_t ts, const uint32_t* from, int64_t fs, bool) {
  __m256i a[8], b[8];
  for (int i = 0; i < 8; i++)
    a[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i * fs));
  for (int i = 0; i < 8; i += 2) {
    b[i] = _mm256_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm256_unpackhi_epi32(a[i], a[i + 1]);
  }
  for (int i = 0; i < 8; i += 4) {
    a[i] = _mm256_unpacklo_epi64(b[i], b[i + 2]);
    a[i + 1] = _mm256_unpackhi_epi64(b[i], b[i + 2]);
    a[i + 2] = _mm256_unpacklo_epi64(b[i + 1], b[i + 3]);
    a[i + 3] = _mm256_unpackhi_epi64(b[i + 1], b[i + 3]);
  }
  for (int k = 0; k < 4; k++) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + k * ts),
                        _mm256_permute2x128_si256(a[k], a[4 + k], 0x20));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (4 + k) * ts),
                        _mm256_permute2x128_si256(a[k], a[4 + k], 0x31));
  }
}
#endif

#if defined(TYCHO_LEVEL_v4)
constexpr int kTile4 = 16, kTile8 = 8;
constexpr bool kFullLines = true;

TYCHO_INLINE void put(void* p, __m512i v, bool stream) {
  if (stream) {
    _mm512_stream_si512(static_cast<__m512i*>(p), v);
  } else {
    _mm512_storeu_si512(p, v);
  }
}
TYCHO_INLINE void tile4(uint32_t* to, int64_t ts, const uint32_t* from, int64_t fs, bool stream) {
  __m512i a[16], b[16];
  for (int i = 0; i < 16; i++) a[i] = _mm512_loadu_si512(from + i * fs);
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
    a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
    a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
    a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
  }
  // a[4 g + k] holds, per 128-bit lane l, column 4 l + k of rows 4 g .. 4 g + 3.
  for (int k = 0; k < 4; k++) {
    const __m512i lo01 = _mm512_shuffle_i32x4(a[k], a[4 + k], 0x88),
                  hi01 = _mm512_shuffle_i32x4(a[k], a[4 + k], 0xdd),
                  lo23 = _mm512_shuffle_i32x4(a[8 + k], a[12 + k], 0x88),
                  hi23 = _mm512_shuffle_i32x4(a[8 + k], a[12 + k], 0xdd);
    b[k] = _mm512_shuffle_i32x4(lo01, lo23, 0x88);
    b[8 + k] = _mm512_shuffle_i32x4(lo01, lo23, 0xdd);
    b[4 + k] = _mm512_shuffle_i32x4(hi01, hi23, 0x88);
    b[12 + k] = _mm512_shuffle_i32x4(hi01, hi23, 0xdd);
  }
  for (int i = 0; i < 16; i++) put(to + i * ts, b[i], stream);
}
TYCHO_INLINE void tile8(uint64_t* to, int64_t ts, const uint64_t* from, int64_t fs, bool stream) {
  __m512i a[8], b[8];
  for (int i = 0; i < 8; i++) a[i] = _mm512_loadu_si512(from + i * fs);
  for (int i = 0; i < 8; i += 2) {
    b[i] = _mm512_unpacklo_epi64(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 1]);
  }
  // b[2 g + k] holds, per 128-bit lane l, column 2 l + k of rows 2 g and 2 g + 1.
  for (int k = 0; k < 2; k++) {
    const __m512i lo01 = _mm512_shuffle_i64x2(b[k], b[2 + k], 0x88),
                  hi01 = _mm512_shuffle_i64x2(b[k], b[2 + k], 0xdd),
                  lo23 = _mm512_shuffle_i64x2(b[4 + k], b[6 + k], 0x88),
                  hi23 = _mm512_shuffle_i64x2(b[4 + k], b[6 + k], 0xdd);
    a[k] = _mm512_shuffle_i64x2(lo01, lo23, 0x88);
    a[4 + k] = _mm512_shuffle_i64x2(lo01, lo23, 0xdd);
    a[2 + k] = _mm512_shuffle_i64x2(hi01, hi23, 0x88);
    a[6 + k] = _mm512_shuffle_i64x2(hi01, hi23, 0xdd);
  }
  for (int i = 0; i < 8; i++) put(to + i * ts, a[i], stream);
}
#elif defined(TYCHO_LEVEL_v3)
constexpr int kTile4 = 8, kTile8 = 4;
constexpr bool kFullLines = false;

TYCHO_INLINE void tile4(uint32_t* to, int64_t ts, const uint32_t* from, int64_t fs, bool) {
  half_tile4(to, ts, from, fs, false);
}
TYCHO_INLINE void tile8(uint64_t* to, int64_t ts, const uint64_t* from, int64_t fs, bool) {
  __m256i a[4], b[4];
  for (int i = 0; i < 4; i++)
    a[i] = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i * fs));
  for (int i = 0; i < 4; i += 2) {
    b[i] = _mm256_unpacklo_epi64(a[i], a[i + 1]);
    b[i + 1] = _mm256_unpackhi_epi64(a[i], a[i + 1]);
  }
  for (int k = 0; k < 2; k++) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + k * ts),
                        _mm256_permute2x128_si256(b[k], b[2 + k], 0x20));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + (2 + k) * ts),
                        _mm256_permute2x128_si256(b[k], b[2 + k], 0x31));
  }
}
#else
constexpr int kTile4 = 4, kTile8 = 2;
constexpr bool kFullLines = false;

TYCHO_INLINE void tile4(uint32_t* to, int64_t ts, const uint32_t* from, int64_t fs, bool) {
  __m128i a[4], b[4];
  for (int i = 0; i < 4; i++)
    a[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * fs));
  for (int i = 0; i < 4; i += 2) {
    b[i] = _mm_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm_unpackhi_epi32(a[i], a[i + 1]);
  }
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_unpacklo_epi64(b[0], b[2]));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to + ts), _mm_unpackhi_epi64(b[0], b[2]));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 2 * ts), _mm_unpacklo_epi64(b[1], b[3]));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 3 * ts), _mm_unpackhi_epi64(b[1], b[3]));
}
TYCHO_INLINE void tile8(uint64_t* to, int64_t ts, const uint64_t* from, int64_t fs, bool) {
  const __m128i a = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)),
                b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + fs));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_unpacklo_epi64(a, b));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to + ts), _mm_unpackhi_epi64(a, b));
}
#endif

constexpr int kTile1 = 8, kTile2 = 8;

TYCHO_INLINE void tile2(uint16_t* to, int64_t ts, const uint16_t* from, int64_t fs, bool) {
  __m128i a[8], b[8];
  for (int i = 0; i < 8; i++)
    a[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * fs));
  for (int i = 0; i < 8; i += 2) {
    b[i] = _mm_unpacklo_epi16(a[i], a[i + 1]);
    b[i + 1] = _mm_unpackhi_epi16(a[i], a[i + 1]);
  }
  for (int i = 0; i < 8; i += 4)
    for (int k = 0; k < 2; k++) {
      a[i + 2 * k] = _mm_unpacklo_epi32(b[i + k], b[i + 2 + k]);
      a[i + 2 * k + 1] = _mm_unpackhi_epi32(b[i + k], b[i + 2 + k]);
    }
  for (int k = 0; k < 4; k++) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 2 * k * ts),
                     _mm_unpacklo_epi64(a[k], a[4 + k]));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + (2 * k + 1) * ts),
                     _mm_unpackhi_epi64(a[k], a[4 + k]));
  }
}

TYCHO_INLINE void tile1(uint8_t* to, int64_t ts, const uint8_t* from, int64_t fs, bool) {
  __m128i a[8], b[4];
  for (int i = 0; i < 8; i++)
    a[i] = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from + i * fs));
  for (int i = 0; i < 4; i++) b[i] = _mm_unpacklo_epi8(a[2 * i], a[2 * i + 1]);
  const __m128i lo0 = _mm_unpacklo_epi16(b[0], b[1]), hi0 = _mm_unpackhi_epi16(b[0], b[1]),
                lo1 = _mm_unpacklo_epi16(b[2], b[3]), hi1 = _mm_unpackhi_epi16(b[2], b[3]);
  // Two rows of the result each.
  const __m128i rows[] = {_mm_unpacklo_epi32(lo0, lo1), _mm_unpackhi_epi32(lo0, lo1),
                          _mm_unpacklo_epi32(hi0, hi1), _mm_unpackhi_epi32(hi0, hi1)};
  for (int i = 0; i < 4; i++) {
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + 2 * i * ts), rows[i]);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to + (2 * i + 1) * ts),
                     _mm_unpackhi_epi64(rows[i], rows[i]));
  }
}

constexpr int kFew = 4;

// Cache lines of both sides at a time, for rows that share the sets of caches: tiles of small elements
// write each line in pieces, between which it would be lost.
constexpr int64_t kShared = 2048;  // bytes apart, or a multiple
template <class T, int N, class Tile>
TYCHO_INLINE void lined_plane(T* to, int64_t ts, const T* from, int64_t fs, int64_t rows,
                              int64_t cols, Tile tile) {
  constexpr int64_t line = 64 / static_cast<int64_t>(sizeof(T));
  alignas(64) T turned[line * line];
  for (int64_t c = 0; c < cols; c += line) {
    const int64_t at = c + line <= cols ? c : cols - line;
    for (int64_t r = 0; r < rows; r += line) {
      const int64_t row = r + line <= rows ? r : rows - line;
      for (int64_t i = 0; i < line; i += N)
        for (int64_t j = 0; j < line; j += N)
          tile(turned + j * line + i, line, from + (at + i) * fs + row + j, fs, false);
      for (int64_t j = 0; j < line; ++j)
        memcpy(to + (row + j) * ts + at, turned + j * line, sizeof(T) * line);
    }
  }
}

// Whole tiles; the last ones overlap those before them. What is too narrow for tiles is made of
// smaller ones.
template <class T, int N, class Tile>
TYCHO_INLINE void tiled_plane(T* to, int64_t ts, const T* from, int64_t fs, int64_t rows,
                              int64_t cols, bool stream, Tile tile) {
  if (rows < N || cols < N) {
#if defined(TYCHO_LEVEL_v4)
    if constexpr (sizeof(T) == 4 && N == kTile4)
      if (rows >= N / 2 && cols >= N / 2)
        return tiled_plane<T, N / 2>(to, ts, from, fs, rows, cols, false, half_tile4);
#endif
    if constexpr (sizeof(T) >= 4 && N > kFew)
      if (rows >= kFew && cols >= kFew)
        return tiled_plane<T, kFew>(
            to, ts, from, fs, rows, cols, false,
            [](T * t, int64_t tstep, const T* f, int64_t fstep, bool)
                __attribute__((always_inline)) { turn4(f, fstep, t, tstep); });
    return plain_plane(to, ts, from, fs, rows, cols);
  }
  if constexpr (sizeof(T) < 4)
    if (rows * sizeof(T) >= 64 && cols * sizeof(T) >= 64 && ts * sizeof(T) % kShared == 0)
      return lined_plane<T, N>(to, ts, from, fs, rows, cols, tile);
  const bool lines =
      kFullLines && stream && reinterpret_cast<uintptr_t>(to) % 64 == 0 && ts * sizeof(T) % 64 == 0;
  for (int64_t c = 0; c < cols; c += N) {
    const int64_t at = c + N <= cols ? c : cols - N;
    for (int64_t r = 0; r < rows; r += N) {
      const int64_t row = r + N <= rows ? r : rows - N;
      tile(to + row * ts + at, ts, from + at * fs + row, fs, lines && at == c);
    }
  }
}

template <class T>
TYCHO_INLINE void gather_values(char* to, const char* from, const int32_t* at, int64_t n) {
  T* t = reinterpret_cast<T*>(to);
  const T* f = reinterpret_cast<const T*>(from);
  int64_t i = 0;
#if defined(TYCHO_LEVEL_v4)
  if constexpr (sizeof(T) == 4) {
    for (; i + 16 <= n; i += 16)
      _mm512_storeu_si512(t + i, _mm512_i32gather_epi32(_mm512_loadu_si512(at + i), f, 4));
  } else if constexpr (sizeof(T) == 8) {
    for (; i + 8 <= n; i += 8)
      _mm512_storeu_si512(t + i,
                          _mm512_i32gather_epi64(
                              _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at + i)), f, 8));
  }
#endif
#pragma GCC unroll 4
  for (; i < n; i++) t[i] = f[at[i]];
}

template <class T>
TYCHO_INLINE void scatter_values(char* to, const int32_t* at, const char* from, int64_t n) {
  T* t = reinterpret_cast<T*>(to);
  const T* f = reinterpret_cast<const T*>(from);
#pragma GCC unroll 4
  for (int64_t i = 0; i < n; i++) t[at[i]] = f[i];
}

}  // namespace

void copy_strided(int size, char* to, int64_t ts, const char* from, int64_t fs, int64_t n) {
  switch (size) {
    case 1:
      return strided<uint8_t>(to, ts, from, fs, n);
    case 2:
      return strided<uint16_t>(to, ts, from, fs, n);
    case 4:
      return strided<uint32_t>(to, ts, from, fs, n);
    default:
      return strided<uint64_t>(to, ts, from, fs, n);
  }
}

void gather(int size, char* to, const char* from, const int32_t* at, int64_t n) {
  switch (size) {
    case 1:
      return gather_values<uint8_t>(to, from, at, n);
    case 2:
      return gather_values<uint16_t>(to, from, at, n);
    case 4:
      return gather_values<uint32_t>(to, from, at, n);
    default:
      return gather_values<uint64_t>(to, from, at, n);
  }
}

void scatter(int size, char* to, const int32_t* at, const char* from, int64_t n) {
  switch (size) {
    case 1:
      return scatter_values<uint8_t>(to, at, from, n);
    case 2:
      return scatter_values<uint16_t>(to, at, from, n);
    case 4:
      return scatter_values<uint32_t>(to, at, from, n);
    default:
      return scatter_values<uint64_t>(to, at, from, n);
  }
}

void transpose_plane(int size, char* to, int64_t ts, const char* from, int64_t fs, int64_t rows,
                     int64_t cols, bool stream) {
  switch (size) {
    case 1:
      return tiled_plane<uint8_t, kTile1>(reinterpret_cast<uint8_t*>(to), ts,
                                          reinterpret_cast<const uint8_t*>(from), fs, rows, cols,
                                          false, tile1);
    case 2:
      return tiled_plane<uint16_t, kTile2>(reinterpret_cast<uint16_t*>(to), ts,
                                           reinterpret_cast<const uint16_t*>(from), fs, rows, cols,
                                           false, tile2);
    case 4:
      return tiled_plane<uint32_t, kTile4>(reinterpret_cast<uint32_t*>(to), ts,
                                           reinterpret_cast<const uint32_t*>(from), fs, rows, cols,
                                           stream, tile4);
    default:
      return tiled_plane<uint64_t, kTile8>(reinterpret_cast<uint64_t*>(to), ts,
                                           reinterpret_cast<const uint64_t*>(from), fs, rows, cols,
                                           stream, tile8);
  }
}

}  // namespace tycho::cpu::TYCHO_LEVEL
