// Runs of elements that lie together: copied, filled, and told from 0.
#include "engine/cpu/cache.h"
#include "engine/cpu/elementwise/move.h"
#include "engine/cpu/lanes/stream.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Whole lines of the result, past the caches or not, and what is around them by memcpy.
template <bool past>
TYCHO_INLINE void copy_lines(char* to, const char* from, int64_t bytes) {
  constexpr int kLane = TYCHO_LANE_BYTES, kLanes = 128 / kLane;
  int64_t i = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(to) & 63);
  memcpy(to, from, static_cast<size_t>(i));
  for (; i + 128 <= bytes; i += 128) {
    Bytes v[kLanes];
    for (int k = 0; k < kLanes; k++) v[k] = take(from + i + k * kLane);
    for (int k = 0; k < kLanes; k++) {
      if constexpr (past)
        pass(to + i + k * kLane, v[k]);
      else
        put(to + i + k * kLane, v[k]);
    }
  }
  memcpy(to + i, from + i, static_cast<size_t>(bytes - i));
}

template <class T>
TYCHO_INLINE void fill_values(char* to, const char* value, int64_t n, bool stream) {
  T x;
  memcpy(&x, value, sizeof(T));
  T* t = reinterpret_cast<T*>(to);
  int64_t i = 0;
#if defined(TYCHO_LEVEL_v3) || defined(TYCHO_LEVEL_v4)
  if (stream && n * static_cast<int64_t>(sizeof(T)) >= 256) {
    for (; reinterpret_cast<uintptr_t>(t + i) % 32; i++) t[i] = x;
    alignas(32) T pattern[32 / sizeof(T)];
    for (T& p : pattern) p = x;
    const __m256i v = _mm256_load_si256(reinterpret_cast<const __m256i*>(pattern));
    constexpr int64_t per = 32 / sizeof(T);
    for (; i + per <= n; i += per) _mm256_stream_si256(reinterpret_cast<__m256i*>(t + i), v);
  }
#else
  (void)stream;
#endif
  for (; i < n; i++) t[i] = x;
}

// The first bit of a real number is its sign.
template <class T>
TYCHO_INLINE void truths_of(bool real, char* to, int64_t tr, const char* from, int64_t fr,
                            int64_t rows, int64_t n) {
  const T* f = reinterpret_cast<const T*>(from);
  const T counts = static_cast<T>(real ? static_cast<T>(~T{0}) >> 1 : ~T{0});
  for (int64_t r = 0; r < rows; r++, to += tr, f += fr)
    for (int64_t i = 0; i < n; i++) to[i] = static_cast<char>((f[i] & counts) != 0);
}

}  // namespace

void copy_stream(char* to, const char* from, int64_t bytes) {
  if (bytes < 256) return static_cast<void>(memcpy(to, from, static_cast<size_t>(bytes)));
  copy_lines<true>(to, from, bytes);
}

#if defined(TYCHO_LEVEL_v3) || defined(TYCHO_LEVEL_v4)
// Some lanes as they lie; the last ones may be copied twice.
TYCHO_INLINE void copy_few(char* to, const char* from, int64_t bytes) {
  constexpr int64_t kLane = TYCHO_LANE_BYTES;
  const int64_t last = bytes - kLane;
  const Bytes end = take(from + last);
  int64_t i = 0;
  for (; i + kLane <= last; i += 2 * kLane) {
    const Bytes a = take(from + i), b = take(from + i + kLane);
    put_anywhere(to + i, a);
    put_anywhere(to + i + kLane, b);
  }
  if (i < last) put_anywhere(to + i, take(from + i));
  put_anywhere(to + last, end);
}

constexpr int64_t kString = 48 << 10;  // both sides fill the first cache
void copy_bytes(char* to, const char* from, int64_t bytes) {
  const uintptr_t apart = reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from);
  const uintptr_t size = static_cast<uintptr_t>(bytes);
  if (bytes < 2 * TYCHO_LANE_BYTES || apart < size || -apart < size)  // what overlaps, too
    memmove(to, from, size);
  else if (bytes < 2048)
    copy_few(to, from, bytes);
  else if (bytes >= kString && copies_strings_quickly())
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
  else
    copy_lines<false>(to, from, bytes);
}
#else
void copy_bytes(char* to, const char* from, int64_t bytes) {
  memmove(to, from, static_cast<size_t>(bytes));
}
#endif

void truths(int size, bool real, char* to, int64_t tr, const char* from, int64_t fr, int64_t rows,
            int64_t n) {
  switch (size) {
    case 1:
      return truths_of<uint8_t>(real, to, tr, from, fr, rows, n);
    case 2:
      return truths_of<uint16_t>(real, to, tr, from, fr, rows, n);
    case 4:
      return truths_of<uint32_t>(real, to, tr, from, fr, rows, n);
    default:
      return truths_of<uint64_t>(real, to, tr, from, fr, rows, n);
  }
}

void fill_run(int size, char* to, const char* value, int64_t n, bool stream) {
  // What the second cache does not hold, if all bytes are alike, libc fills by the instruction for it.
  constexpr int64_t kLong = 1 << 20;
  if (!stream && n * size >= kLong && memcmp(value, value + 1, static_cast<size_t>(size - 1)) == 0)
    return static_cast<void>(memset(to, *value, static_cast<size_t>(n * size)));
  switch (size) {
    case 1:
      return fill_values<uint8_t>(to, value, n, stream);
    case 2:
      return fill_values<uint16_t>(to, value, n, stream);
    case 4:
      return fill_values<uint32_t>(to, value, n, stream);
    default:
      return fill_values<uint64_t>(to, value, n, stream);
  }
}

}  // namespace tycho::cpu::TYCHO_LEVEL
