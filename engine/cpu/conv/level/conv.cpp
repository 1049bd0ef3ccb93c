// Windows of an image as rows of a matrix, and back. Taps of one row of the kernel lie side by side
// in memory (channels last), so an inner window is copied in a few vectors per kernel row.
#include "engine/cpu/conv/conv.h"

#include "engine/cpu/matmul/level/gemm.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Where a window's tap row lies in the image: `from` may point before the first pixel of the line.
template <class T, class Visit>
TYCHO_INLINE void each_band(const Window& w, int64_t row_begin, int64_t row_end, int64_t band_begin,
                            int64_t band_end, Visit&& visit) {
  int64_t row = row_begin;
  while (row < row_end) {
    // A run of windows along one line of the result.
    int64_t rest = row;
    const int64_t x0 = rest % w.out[2];
    rest /= w.out[2];
    const int64_t y0 = rest % w.out[1];
    rest /= w.out[1];
    const int64_t z0 = rest % w.out[0], n = rest / w.out[0];
    int64_t run = w.out[2] - x0;
    if (run > row_end - row) run = row_end - row;
    int64_t kz = band_begin / w.kernel[1], ky = band_begin % w.kernel[1];
    for (int64_t band = band_begin; band < band_end; ++band) {
      const int64_t z = z0 * w.stride[0] - w.pad[0] + kz * w.dilation[0];
      const int64_t y = y0 * w.stride[1] - w.pad[1] + ky * w.dilation[1];
      const bool inside = z >= 0 && z < w.in[0] && y >= 0 && y < w.in[1];
      const int64_t line = (((n * w.in[0] + z) * w.in[1] + y) * w.in[2]) * w.channels + w.first;
      visit(row - row_begin, x0, run, band - band_begin, inside, line);
      if (++ky == w.kernel[1]) ky = 0, ++kz;
    }
    row += run;
  }
}

TYCHO_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
TYCHO_INLINE int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

// Numbers of any type as they are moved: a vector of them, or its elements [a, b) with zeros around.
template <class T>
constexpr int64_t kMoved = TYCHO_LANE_BYTES / static_cast<int64_t>(sizeof(T));
template <class T>
TYCHO_INLINE void move(T* to, const T* from) {
  memcpy(to, from, TYCHO_LANE_BYTES);
}
template <class T>
TYCHO_INLINE void move_between(T* to, const T* from, int64_t a, int64_t b) {
  if constexpr (sizeof(T) > 2) {
    load_between(from, a, b).store(to);
  } else {
    a = most(a, 0), b = least(b, kMoved<T>);
#if defined(TYCHO_LEVEL_v4)
    const uint64_t below_b = (uint64_t{1} << most(b, 0)) - 1;
    const uint64_t below_a = (uint64_t{1} << least(a, kMoved<T>)) - 1;
    _mm512_storeu_si512(to,
                        _mm512_maskz_loadu_epi16(static_cast<__mmask32>(below_b & ~below_a), from));
#else
    for (int64_t i = 0; i < kMoved<T>; ++i) to[i] = i >= a && i < b ? from[i] : T(0);
#endif
  }
}

// Copies `count` windows of n elements in vectors that may read and write up to 127 bytes too far.
template <class T, int bytes>
TYCHO_INLINE void copy_some(T* to, int64_t ld, const T* from, int64_t step, int64_t count) {
  for (int64_t i = 0; i < count; ++i, to += ld, from += step) memcpy(to, from, bytes);
}
template <class T>
TYCHO_INLINE void copy_windows(T* to, int64_t ld, const T* from, int64_t step, int64_t n,
                               int64_t count) {
  const int64_t bytes = n * static_cast<int64_t>(sizeof(T));
  if (bytes <= 16) return copy_some<T, 16>(to, ld, from, step, count);
  if (bytes <= 32) return copy_some<T, 32>(to, ld, from, step, count);
  if (bytes <= 64) return copy_some<T, 64>(to, ld, from, step, count);
  if (bytes <= 128) return copy_some<T, 128>(to, ld, from, step, count);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < n; j += kMoved<T>) move(to + i * ld + j, from + i * step + j);
}
template <class T>
TYCHO_INLINE void copy_exact(T* to, const T* from, int64_t n) {
  int64_t i = 0;
  for (; i + kMoved<T> <= n; i += kMoved<T>) move(to + i, from + i);
  for (; i < n; ++i) to[i] = from[i];
}
template <class T>
TYCHO_INLINE void clear(T* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = T(0);
}

// A line's windows take their taps in pieces that lie side by side in memory: all at once, or tap by tap
// where the kernel is dilated or channels are left out. Windows [lo, hi) have the whole piece inside.
template <class T>
void rows_of(const Window& w, const T* x, const T* x_end, int64_t row_begin, int64_t row_end,
             int64_t band_begin, int64_t band_end, T* to, int64_t ld) {
  const int64_t width = w.band_width(), pixel = w.channels, k = w.kernel[2], step = w.stride[2];
  const bool joined = w.dilation[2] == 1 && w.count == w.channels;
  const int64_t pieces = joined ? 1 : k, length = joined ? k : 1, n = width / pieces;
  constexpr int64_t slack = 128 / static_cast<int64_t>(sizeof(T));
  // Loose copies spill into the next piece of the same row, which is written later, or into the
  // room that ld leaves behind the last band.
  each_band<T>(w, row_begin, row_end, band_begin, band_end,
               [&](int64_t row, int64_t x0, int64_t run, int64_t band, bool inside, int64_t line) {
                 T* out = to + row * ld + band * width;
                 if (!inside) {
                   for (int64_t i = 0; i < run; ++i) clear(out + i * ld, width);
                   return;
                 }
                 for (int64_t piece = 0; piece < pieces; ++piece, out += n) {
                   const int64_t at = x0 * step - w.pad[2] + piece * w.dilation[2];
                   const int64_t room = w.in[2] - length - at;
                   const int64_t lo = least(at < 0 ? (-at + step - 1) / step : 0, run);
                   int64_t hi = room < 0 ? lo : most(least(room / step + 1, run), lo);
                   const T* const first = x + line + at * pixel;
                   while (hi > lo && x_end - (first + (hi - 1) * step * pixel) < n + slack) --hi;
                   copy_windows(out + lo * ld, ld, first + lo * step * pixel, step * pixel, n,
                                hi - lo);
                   for (int64_t i = lo > 0 ? 0 : hi; i < run; i = i + 1 == lo ? hi : i + 1) {
                     const int64_t p = at + i * step, a = p < 0 ? -p * pixel : 0;
                     const int64_t b = p + length > w.in[2] ? (w.in[2] - p) * pixel : n;
                     const T* const from = first + i * step * pixel;
                     if (a == 0 && b == n)
                       copy_exact(out + i * ld, from, n);
                     else if (a >= n || b <= 0)
                       clear(out + i * ld, n);
                     else
                       for (int64_t v = 0; v < n; v += kMoved<T>)
                         move_between(out + i * ld + v, from + v, a - v, b - v);
                   }
                 }
               });
}

template <class T>
TYCHO_INLINE void add_to(T* to, const T* from, int64_t n) {
  constexpr int size = Lane<T>::size;
  int64_t i = 0;
  for (; i + size <= n; i += size) (Lane<T>::load(to + i) + Lane<T>::load(from + i)).store(to + i);
  for (; i < n; ++i) to[i] = (Lane<T>(to[i]) + Lane<T>(from[i])).v[0];
}

template <class T>
void add_rows_of(const Window& w, const T* rows, int64_t ld, int64_t row_begin, int64_t row_end,
                 int64_t band_begin, int64_t band_end, T* x) {
  const int64_t width = w.band_width(), pixel = w.channels, k = w.kernel[2];
  const bool joined = w.dilation[2] == 1 && w.count == w.channels;
  each_band<T>(w, row_begin, row_end, band_begin, band_end,
               [&](int64_t row, int64_t x0, int64_t run, int64_t band, bool inside, int64_t line) {
                 if (!inside) return;
                 const T* from = rows + row * ld + band * width;
                 for (int64_t i = 0; i < run; ++i, from += ld) {
                   const int64_t at = (x0 + i) * w.stride[2] - w.pad[2];
                   T* to = x + line + at * pixel;
                   if (joined) {
                     const int64_t lo = at < 0 ? -at : 0;
                     const int64_t hi = at + k > w.in[2] ? w.in[2] - at : k;
                     if (hi > lo) add_to(to + lo * pixel, from + lo * pixel, (hi - lo) * pixel);
                     continue;
                   }
                   for (int64_t t = 0; t < k; ++t) {
                     const int64_t p = at + t * w.dilation[2];
                     if (p >= 0 && p < w.in[2])
                       add_to(to + t * w.dilation[2] * pixel, from + t * w.count, w.count);
                   }
                 }
               });
}

}  // namespace

void window_rows(int type, const Window* w, const void* x, const void* x_end, int64_t row_begin,
                 int64_t row_end, int64_t band_begin, int64_t band_end, void* to, int64_t ld) {
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    rows_of<T>(*w, static_cast<const T*>(x), static_cast<const T*>(x_end), row_begin, row_end,
               band_begin, band_end, static_cast<T*>(to), ld);
  };
  type == 0 ? run(0.f) : type == 1 ? run(0.0) : type == 2 ? run(int64_t{0}) : run(uint16_t{0});
}

void add_window_rows(int type, const Window* w, const void* from, int64_t ld, int64_t row_begin,
                     int64_t row_end, int64_t band_begin, int64_t band_end, void* x) {
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    add_rows_of<T>(*w, static_cast<const T*>(from), ld, row_begin, row_end, band_begin, band_end,
                   static_cast<T*>(x));
  };
  type == 0 ? run(0.f) : type == 1 ? run(0.0) : run(int64_t{0});
}

}  // namespace tycho::cpu::TYCHO_LEVEL
