// Planes copied whose rows may be short, lie at steps, backwards, or across: what a loop of calls for
// each row would spend its time on is decided once for all of them.
#include "engine/cpu/elementwise/move.h"
#include "engine/cpu/lanes/steps.h"
#include "engine/cpu/lanes/vec.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

constexpr int64_t kLong = 256;  // bytes from which on a row is worth a call

template <int N>
struct Bytes {
  char b[N];
};
template <int N>
TYCHO_INLINE void copy_ends(char* to, const char* from, int64_t bytes) {
  Bytes<N> head, tail;
  memcpy(&head, from, N);
  memcpy(&tail, from + bytes - N, N);
  memcpy(to, &head, N);
  memcpy(to + bytes - N, &tail, N);
}
// Rows of N to 2 N bytes, or of whole blocks of N and a last one that may overlap. Strides are in
// bytes here.
template <int N>
void rows_of(char* to, int64_t tr, const char* from, int64_t fr, int64_t rows, int64_t bytes) {
  if (bytes == N) {
    for (int64_t r = 0; r < rows; r++) memcpy(to + r * tr, from + r * fr, N);
  } else if (bytes <= 2 * N) {
    for (int64_t r = 0; r < rows; r++) copy_ends<N>(to + r * tr, from + r * fr, bytes);
  } else {
    for (int64_t r = 0; r < rows; r++) {
      char* t = to + r * tr;
      const char* f = from + r * fr;
      for (int64_t i = 0; i < bytes - N; i += N) memcpy(t + i, f + i, N);
      memcpy(t + bytes - N, f + bytes - N, N);
    }
  }
}

void row_copies(char* to, int64_t tr, const char* from, int64_t fr, int64_t rows, int64_t bytes) {
  if (bytes >= kLong)
    for (int64_t r = 0; r < rows; r++) copy_bytes(to + r * tr, from + r * fr, bytes);
  else if (bytes >= 32)
    rows_of<32>(to, tr, from, fr, rows, bytes);
  else if (bytes >= 16)
    rows_of<16>(to, tr, from, fr, rows, bytes);
  else if (bytes >= 8)
    rows_of<8>(to, tr, from, fr, rows, bytes);
  else if (bytes >= 4)
    rows_of<4>(to, tr, from, fr, rows, bytes);
  else if (bytes >= 2)
    rows_of<2>(to, tr, from, fr, rows, bytes);
  else
    rows_of<1>(to, tr, from, fr, rows, bytes);
}

// One value for each row.
template <int N, class T>
void rows_filled(T* to, int64_t tr, const T* from, int64_t fr, int64_t rows, int64_t cols) {
  constexpr int64_t kPer = N / static_cast<int64_t>(sizeof(T));
  for (int64_t r = 0; r < rows; r++) {
    typedef T Block __attribute__((vector_size(N)));
    T* t = to + r * tr;
    const Block block = Block{} + from[r * fr];
    for (int64_t c = 0; c < cols - kPer; c += kPer) memcpy(t + c, &block, N);
    memcpy(t + cols - kPer, &block, N);
  }
}
template <class T>
void row_fills(T* to, int64_t tr, const T* from, int64_t fr, int64_t rows, int64_t cols) {
  const int64_t bytes = cols * static_cast<int64_t>(sizeof(T));
  if (bytes >= 32)
    rows_filled<32>(to, tr, from, fr, rows, cols);
  else if (sizeof(T) <= 4 && bytes >= 8)
    rows_filled<8>(to, tr, from, fr, rows, cols);
  else
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = 0; c < cols; c++) to[r * tr + c] = from[r * fr];
}

#if defined(TYCHO_LEVEL_v3) || defined(TYCHO_LEVEL_v4)
// A vector of elements in the opposite order.
template <class T>
TYCHO_INLINE __m256i turned(__m256i x) {
  if constexpr (sizeof(T) == 8) {
    return _mm256_permute4x64_epi64(x, 0x1b);
  } else if constexpr (sizeof(T) == 4) {
    return _mm256_permutevar8x32_epi32(x, _mm256_setr_epi32(7, 6, 5, 4, 3, 2, 1, 0));
  } else {
    const __m128i half = sizeof(T) == 2
                             ? _mm_setr_epi8(14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1)
                             : _mm_setr_epi8(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
    x = _mm256_shuffle_epi8(x, _mm256_broadcastsi128_si256(half));
    return _mm256_permute2x128_si256(x, x, 1);
  }
}
#endif

// to[i] = from[-i]
template <class T>
TYCHO_INLINE void copy_turned(T* to, const T* from, int64_t n) {
  int64_t i = 0;
#if defined(TYCHO_LEVEL_v3) || defined(TYCHO_LEVEL_v4)
  constexpr int64_t kPer = 32 / static_cast<int64_t>(sizeof(T));
  for (; i + kPer <= n; i += kPer) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from - i - (kPer - 1)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), turned<T>(x));
  }
#endif
  for (; i < n; i++) to[i] = from[-i];
}

#if defined(TYCHO_LEVEL_v3) || defined(TYCHO_LEVEL_v4)
// Bytes that are put in another order at once: any within 16, or any four within 32.
template <int size>
struct Turned {
  static constexpr int64_t bytes = size >= 4 ? 32 : 16;
  alignas(32) char at[32];
  void operator()(char* to, const char* from) const {
    if constexpr (size >= 4) {
      const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)),
                    order = _mm256_load_si256(reinterpret_cast<const __m256i*>(at));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permutevar8x32_epi32(x, order));
    } else {
      const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)),
                    order = _mm_load_si128(reinterpret_cast<const __m128i*>(at));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm_shuffle_epi8(x, order));
    }
  }
  // Rows of that many elements, as many as there is room for, each from its last element to its first.
  explicit Turned(int64_t cols) {
    constexpr int64_t unit = size >= 4 ? 4 : 1, parts = size / unit;
    for (int64_t i = 0; i < bytes / unit; i++) {
      const int64_t row = i / parts / cols, from = row * cols + cols - 1 - i / parts % cols;
      const int64_t place = (row + 1) * cols * size <= bytes ? from * parts + i % parts : i;
      if constexpr (size >= 4) {
        const int32_t p = static_cast<int32_t>(place);
        memcpy(at + 4 * i, &p, 4);
      } else {
        at[i] = static_cast<char>(place);
      }
    }
  }
};
#endif

// Rows of a few elements that lie one after the other, `from` at the last one of the first. What is
// stored beyond whole rows is overwritten by the next ones.
template <class T>
void turn_rows(T* to, const T* from, int64_t rows, int64_t cols) {
  const int64_t n = rows * cols;
  int64_t i = 0;
  from -= cols - 1;
#if defined(TYCHO_LEVEL_v3) || defined(TYCHO_LEVEL_v4)
  using Turn = Turned<sizeof(T)>;
  constexpr int64_t kPer = Turn::bytes / static_cast<int64_t>(sizeof(T));
  const Turn turn(cols);
  const int64_t step = kPer / cols * cols;
  for (; i + kPer <= n; i += step)
    turn(reinterpret_cast<char*>(to + i), reinterpret_cast<const char*>(from + i));
#endif
  for (; i < n; i += cols)
    for (int64_t c = 0; c < cols; c++) to[i + c] = from[i + cols - 1 - c];
}

// to[i] = from[2 i]
template <class T>
TYCHO_INLINE void copy_seconds(T* to, const T* from, int64_t n) {
  int64_t i = 0;
#if defined(TYCHO_LEVEL_v3) || defined(TYCHO_LEVEL_v4)
  constexpr int64_t kPer = 32 / static_cast<int64_t>(sizeof(T));
  for (; i + kPer < n; i += kPer) {  // what is read ends before the next element
    const __m256i* p = reinterpret_cast<const __m256i*>(from + 2 * i);
    __m256i a = _mm256_loadu_si256(p), b = _mm256_loadu_si256(p + 1);
    if constexpr (sizeof(T) == 8) {
      a = _mm256_unpacklo_epi64(a, b);
    } else if constexpr (sizeof(T) == 4) {
      a = _mm256_castps_si256(
          _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), 0x88));
    } else if constexpr (sizeof(T) == 2) {
      const __m256i low = _mm256_set1_epi32(0xffff);
      a = _mm256_packus_epi32(_mm256_and_si256(a, low), _mm256_and_si256(b, low));
    } else {
      const __m256i low = _mm256_set1_epi16(0xff);
      a = _mm256_packus_epi16(_mm256_and_si256(a, low), _mm256_and_si256(b, low));
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_permute4x64_epi64(a, 0xd8));
  }
#endif
  for (; i < n; i++) to[i] = from[2 * i];
}

#if defined(TYCHO_LEVEL_v4)
// Rows of C elements from, or to, C rows: how C vectors of one side make those of the other.
template <class T, int C>
struct Braid {
  static constexpr int kPer = 64 / static_cast<int>(sizeof(T));
  __m512i index[C][C];  // of vector j of the result, in vector c of the source
  uint16_t mask[C][C];  // what it takes from there
  explicit Braid(bool together) {
    for (int j = 0; j < C; j++)
      for (int c = 0; c < C; c++) {
        alignas(64) T at[kPer] = {};
        uint16_t from = 0;
        for (int lane = 0; lane < kPer; lane++) {
          // Element (row, column) of the braid is number row * C + column.
          const int i = together ? j * kPer + lane : lane * C + j,
                    vector = together ? i % C : i / kPer, place = together ? i / C : i % kPer;
          if (vector != c) continue;
          at[lane] = static_cast<T>(place);
          from = static_cast<uint16_t>(from | 1u << lane);
        }
        index[j][c] = _mm512_load_si512(at);
        mask[j][c] = from;
      }
  }
  TYCHO_INLINE __m512i operator()(int j, const __m512i* from) const {
    __m512i x = _mm512_setzero_si512();
    for (int c = 0; c < C; c++)
      if constexpr (sizeof(T) == 4)
        x = _mm512_mask_permutexvar_epi32(x, mask[j][c], index[j][c], from[c]);
      else
        x = _mm512_mask_permutexvar_epi64(x, static_cast<__mmask8>(mask[j][c]), index[j][c],
                                          from[c]);
    return x;
  }
};

template <class T, int C>
void braid(T* to, int64_t ts, const T* from, int64_t fs, int64_t n, bool together) {
  using B = Braid<T, C>;
  int64_t i = 0;
  if (n >= B::kPer) {
    const B b(together);
    for (; i + B::kPer <= n; i += B::kPer) {
      __m512i x[C];
      for (int c = 0; c < C; c++)
        x[c] = _mm512_loadu_si512(together ? from + c * fs + i : from + i * C + c * B::kPer);
      for (int j = 0; j < C; j++)
        _mm512_storeu_si512(together ? to + i * C + j * B::kPer : to + j * ts + i, b(j, x));
    }
  }
  for (; i < n; i++)
    for (int c = 0; c < C; c++)
      if (together)
        to[i * C + c] = from[c * fs + i];
      else
        to[c * ts + i] = from[i * C + c];
}
#else
template <class T, int C>
void braid(T* to, int64_t ts, const T* from, int64_t fs, int64_t n, bool together) {
  if (together)
    for (int64_t i = 0; i < n; i++)
      for (int c = 0; c < C; c++) to[i * C + c] = from[c * fs + i];
  else
    for (int c = 0; c < C; c++)
      for (int64_t i = 0; i < n; i++) to[c * ts + i] = from[i * C + c];
}
#endif

// to[i * count + c] = from[c * fs + i] (together), or to[c * ts + i] = from[i * count + c].
template <class T>
bool braided(int64_t count, T* to, int64_t ts, const T* from, int64_t fs, int64_t n,
             bool together) {
  if constexpr (sizeof(T) >= 4) {
    if (count == 2) return braid<T, 2>(to, ts, from, fs, n, together), true;
    if (count == 3) return braid<T, 3>(to, ts, from, fs, n, together), true;
    if (count == 4) return braid<T, 4>(to, ts, from, fs, n, together), true;
  }
  return false;
}

template <class T>
void plane(char* to_bytes, int64_t tr, int64_t tc, const char* from_bytes, int64_t fr, int64_t fc,
           int64_t rows, int64_t cols) {
  T* to = reinterpret_cast<T*>(to_bytes);
  const T* from = reinterpret_cast<const T*>(from_bytes);
  constexpr int64_t kSize = sizeof(T);
  if (tc == 1) {
    if (fc == 1)
      return row_copies(to_bytes, tr * kSize, from_bytes, fr * kSize, rows, cols * kSize);
    if (fc == 0 && fr == 1 && tr == cols && braided(cols, to, tr, from, fc, rows, true)) return;
    if (fc == 0) return row_fills(to, tr, from, fr, rows, cols);
    if (fc == -1) {
      if (tr == cols && fr == cols && cols * kSize <= (kSize >= 4 ? 32 : 16))
        return turn_rows(to, from, rows, cols);
      for (int64_t r = 0; r < rows; r++) copy_turned(to + r * tr, from + r * fr, cols);
      return;
    }
    if (fr == 1 && tr == cols && braided(cols, to, tr, from, fc, rows, true)) return;
    if (fc == 2 && cols >= 8 && !(fr == 1 && rows >= 4)) {
      for (int64_t r = 0; r < rows; r++) copy_seconds(to + r * tr, from + r * fr, cols);
      return;
    }
    if (fr == 1 && fc == rows && braided(rows, to, tr, from, fc, cols, false)) return;
    if (fr == 1 && rows >= 4 && cols >= 4)
      return transpose_plane(static_cast<int>(kSize), to_bytes, tr, from_bytes, fc, rows, cols,
                             false);
    if (cols < 8 && rows > cols) {
      for (int64_t c = 0; c < cols; c++)
#pragma GCC unroll 4
        for (int64_t r = 0; r < rows; r++) to[r * tr + c] = from[r * fr + c * fc];
      return;
    }
    for (int64_t r = 0; r < rows; r++)
#pragma GCC unroll 4
      for (int64_t c = 0; c < cols; c++) to[r * tr + c] = from[r * fr + c * fc];
    return;
  }
  if (cols < 8 && rows > cols) {
    for (int64_t c = 0; c < cols; c++)
#pragma GCC unroll 4
      for (int64_t r = 0; r < rows; r++) to[r * tr + c * tc] = from[r * fr + c * fc];
    return;
  }
  for (int64_t r = 0; r < rows; r++) {
    int64_t c = fc == 1 ? spread(to + r * tr, tc, from + r * fr, cols) : 0;
#pragma GCC unroll 4
    for (; c < cols; c++) to[r * tr + c * tc] = from[r * fr + c * fc];
  }
}

}  // namespace

void copy_plane(int size, char* to, int64_t tr, int64_t tc, const char* from, int64_t fr,
                int64_t fc, int64_t rows, int64_t cols) {
  if (rows <= 0 || cols <= 0) return;
  switch (size) {
    case 1:
      return plane<uint8_t>(to, tr, tc, from, fr, fc, rows, cols);
    case 2:
      return plane<uint16_t>(to, tr, tc, from, fr, fc, rows, cols);
    case 4:
      return plane<uint32_t>(to, tr, tc, from, fr, fc, rows, cols);
    default:
      return plane<uint64_t>(to, tr, tc, from, fr, fc, rows, cols);
  }
}

}  // namespace tycho::cpu::TYCHO_LEVEL
