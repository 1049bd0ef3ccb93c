// grid_sample's inner loops (see grid_sample.h). The taps of some positions are found once and serve all channels.
#include "engine/cpu/nn/grid_sample.h"

#include "engine/cpu/lanes/transpose.h"
#include "engine/cpu/nn/level/grid_taps.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// plane[place[i]] for a lane of places, zero outside.
template <class T>
TYCHO_INLINE Lane<T> gather(const T* plane, const int32_t* place) {
  using V [[maybe_unused]] = typename Raw<T>::V;
#if defined(TYCHO_LEVEL_v4)
  if constexpr (sizeof(T) == 4) {
    const __m512i at = _mm512_loadu_si512(place);
    const __mmask16 in = _mm512_cmpge_epi32_mask(at, _mm512_setzero_si512());
    return Lane<T>((V)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), in, at, plane, 4));
  } else {
    const __m256i at = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(place));
    const __mmask8 in = _mm256_cmpge_epi32_mask(at, _mm256_setzero_si256());
    return Lane<T>((V)_mm512_mask_i32gather_pd(_mm512_setzero_pd(), in, at, plane, 8));
  }
#elif defined(TYCHO_LEVEL_v3)
  // Single reads: on AMD's processors before Zen 4 a gather takes twice as long. What is outside is masked, not
  // multiplied by 0, for the first element may be nan.
  const auto get = [&](int i) __attribute__((always_inline)) {
    return plane[place[i] < 0 ? 0 : place[i]];
  };
  if constexpr (sizeof(T) == 4) {
    const __m256i at = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(place));
    const __m256 v = _mm256_setr_ps(get(0), get(1), get(2), get(3), get(4), get(5), get(6), get(7));
    return Lane<T>((V)_mm256_andnot_ps((__m256)_mm256_srai_epi32(at, 31), v));
  } else {
    const __m256i at = _mm256_cvtepi32_epi64(
        _mm_srai_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(place)), 31));
    return Lane<T>(
        (V)_mm256_andnot_pd((__m256d)at, _mm256_setr_pd(get(0), get(1), get(2), get(3))));
  }
#else
  T v[Lane<T>::size];
  for (int i = 0; i < Lane<T>::size; ++i) v[i] = place[i] < 0 ? T(0) : plane[place[i]];
  return Lane<T>::load(v);
#endif
}

int64_t places_of(const GridSampler& s) {
  int64_t n = 1;
  for (int d = 0; d < s.dims; ++d) n *= s.size[d];
  return n;
}

template <class T>
void read(const GridSampler& s, const T* g, int m, const T* x, int64_t channels, T* y,
          int64_t points) {
  using L = Lane<T>;
  Taps<T> taps;
  const int count = s.taps();
  find_taps<false>(s, g, m, taps);
  const int64_t places = places_of(s);
  for (int64_t c = 0; c < channels; ++c, x += places, y += points)
    for (int i = 0; i < m; i += L::size) {
      L sum = gather(x, taps.place[0] + i) * L::load(taps.weight[0] + i);
      for (int k = 1; k < count; ++k)
        sum += gather(x, taps.place[k] + i) * L::load(taps.weight[k] + i);
      if (i + L::size <= m) {
        sum.store(y + i);
      } else {
        T last[L::size];
        sum.store(last);
        memcpy(y + i, last, static_cast<size_t>(m - i) * sizeof(T));
      }
    }
}

template <class T>
void spread(const GridSampler& s, const T* g, int m, const T* dy, int64_t channels, T* dx,
            int64_t points) {
  Taps<T> taps;
  int inside[kGridTaps];  // of each tap, whose points are moved together unless all are
  bool all[kGridTaps];
  uint8_t point[kGridTaps][kGridPoints];
  const int count = s.taps();
  find_taps<false>(s, g, m, taps);
  for (int k = 0; k < count; ++k) {
    int32_t least = 0;
    for (int i = 0; i < m; ++i) least |= taps.place[k][i];
    inside[k] = least >= 0 ? m : 0;
    for (int i = 0, n = 0; i < m && least < 0; ++i) {
      const int32_t place = taps.place[k][i];
      taps.place[k][n] = place;
      taps.weight[k][n] = taps.weight[k][i];
      point[k][n] = static_cast<uint8_t>(i);
      inside[k] = n += place >= 0;
    }
    all[k] = least >= 0;
  }
  const int64_t places = places_of(s);
  for (int64_t c = 0; c < channels; ++c, dx += places, dy += points)
    for (int k = 0; k < count; ++k)
      if (all[k])
        for (int i = 0; i < m; ++i) dx[taps.place[k][i]] += dy[i] * taps.weight[k][i];
      else
        for (int i = 0; i < inside[k]; ++i)
          dx[taps.place[k][i]] += dy[point[k][i]] * taps.weight[k][i];
}

template <class T>
void slope(const GridSampler& s, const T* g, int m, const T* x, const T* dy, int64_t channels,
           int64_t points, T* dg) {
  using L = Lane<T>;
  Taps<T> taps;
  const int count = s.taps();
  find_taps<true>(s, g, m, taps);
  const int64_t places = places_of(s);
  for (int i = 0; i < m; i += L::size) {
    const int here = m - i < L::size ? m - i : L::size;
    L sum[kGridTaps];
    for (int k = 0; k < count; ++k) sum[k] = L(0);
    for (int64_t c = 0; c < channels; ++c) {
      T v[L::size] = {};
      memcpy(v, dy + c * points + i, static_cast<size_t>(here) * sizeof(T));
      const L one = L::load(v);
      for (int k = 0; k < count; ++k) sum[k] += one * gather(x + c * places, taps.place[k] + i);
    }
    for (int d = 0; d < s.dims; ++d) {
      L all(0);
      for (int k = 0; k < count; ++k) all += sum[k] * L::load(taps.slope[d][k] + i);
      T v[L::size];
      all.store(v);
      for (int j = 0; j < here; ++j) dg[(i + j) * s.dims + s.dims - 1 - d] = v[j];
    }
  }
}

// --- places as rows of channels, which are read with full registers instead of number by number ---

// Four columns of `rows` (at most 4) rows become four rows of 4, zeros behind what there is; and the reverse.
template <class T>
TYCHO_INLINE void join4(const T* from, int64_t rows, int64_t from_step, T* to) {
  alignas(64) static constexpr T zeros[4] = {};
  const T* const at[4] = {from, rows > 1 ? from + from_step : zeros,
                          rows > 2 ? from + 2 * from_step : zeros,
                          rows > 3 ? from + 3 * from_step : zeros};
  if constexpr (sizeof(T) == 4) {
    __m128 r0 = _mm_loadu_ps(at[0]), r1 = _mm_loadu_ps(at[1]), r2 = _mm_loadu_ps(at[2]),
           r3 = _mm_loadu_ps(at[3]);
    _MM_TRANSPOSE4_PS(r0, r1, r2, r3);
    _mm_storeu_ps(to, r0);
    _mm_storeu_ps(to + 4, r1);
    _mm_storeu_ps(to + 8, r2);
    _mm_storeu_ps(to + 12, r3);
  } else {
    for (int k = 0; k < 4; ++k)
      for (int c = 0; c < 4; ++c) to[c * 4 + k] = at[k][c];
  }
}
template <class T>
TYCHO_INLINE void part4(const T* from, int64_t columns, T* to, int64_t to_step) {
  T block[16];
  turn4(from, 4, static_cast<T*>(block), 4);
  for (int64_t c = 0; c < columns; ++c) memcpy(to + c * to_step, block + 4 * c, sizeof(T) * 4);
}

// A [rows, columns] block copied transposed; a row is `from_step` and `to_step` apart from the next. Rows of four
// are whole, however few of their numbers are asked for.
template <class T>
void turn(const T* from, int64_t rows, int64_t columns, int64_t from_step, T* to, int64_t to_step) {
  int64_t r = 0, first = 0;  // columns before `first` are done in all rows behind r
  if (to_step == 4 && rows < 4)
    for (; first + 4 <= columns; first += 4) join4(from + first, rows, from_step, to + first * 4);
  if (from_step == 4 && columns < 4)
    for (; r + 4 <= rows; r += 4) part4(from + r * 4, columns, to + r, to_step);
  for (; r + 4 <= rows; r += 4) {
    int64_t c = 0;
    for (; c + 4 <= columns; c += 4)
      turn4(from + r * from_step + c, from_step, to + c * to_step + r, to_step);
    for (; c < columns; ++c)
      for (int64_t k = r; k < r + 4; ++k) to[c * to_step + k] = from[k * from_step + c];
  }
  for (; r < rows; ++r)
    for (int64_t c = first; c < columns; ++c) to[c * to_step + r] = from[r * from_step + c];
}

// Where the taps' rows are: the one of zeros stands for all places outside.
template <class T>
TYCHO_INLINE void to_rows(Taps<T>& taps, int count, int m, int64_t places) {
  const int32_t outside = static_cast<int32_t>(places);
  for (int k = 0; k < count; ++k)
    for (int i = 0; i < m; ++i)
      taps.place[k][i] = taps.place[k][i] < 0 ? outside : taps.place[k][i];
}
// Calls f with the number of taps as a constant, if it is a usual one.
template <class F>
TYCHO_INLINE void with_taps(int count, F&& f) {
  if (count == 4)
    f(Count<4>());
  else if (count == 16)
    f(Count<16>());
  else if (count == 8)
    f(Count<8>());
  else
    f(Count<1>());
}

template <class T, int width>
struct RowsOf {
  static constexpr int bytes =
      width * sizeof(T) < TYCHO_LANE_BYTES ? width * sizeof(T) : TYCHO_LANE_BYTES;
  static constexpr int each = bytes / sizeof(T), parts = width / each;  // a row is some registers
  typedef T V __attribute__((vector_size(bytes)));
  static TYCHO_INLINE V load(const T* p) {
    V v;
    memcpy(&v, p, sizeof(v));
    return v;
  }
  static TYCHO_INLINE void store(T* p, V v) { memcpy(p, &v, sizeof(v)); }

  // y of m points, group by group of channels.
  static void read(const GridSampler& s, const T* g, int m, const T* rows, int64_t channels, T* y,
                   int64_t points) {
    Taps<T> taps;
    find_taps<false>(s, g, m, taps);
    const int64_t places = places_of(s);
    to_rows(taps, s.taps(), m, places);
    T found[kGridPoints * width];
    for (int64_t c = 0; c < channels; c += width, rows += (places + 1) * width) {
      with_taps(
          s.taps(), [&](auto count) __attribute__((always_inline)) {
            for (int i = 0; i < m; ++i) {
              V sum[parts] = {};
              for (int k = 0; k < decltype(count)::value; ++k) {
                const T* const row = rows + int64_t{taps.place[k][i]} * width;
                for (int q = 0; q < parts; ++q) sum[q] += load(row + q * each) * taps.weight[k][i];
              }
              for (int q = 0; q < parts; ++q) store(found + i * width + q * each, sum[q]);
            }
          });
      turn(found, m, channels - c < width ? channels - c : width, width, y + c * points, points);
    }
  }

  // Of one group of channels: adds the gradient of its rows.
  static void spread(const GridSampler& s, const T* g, int m, const T* dy, int64_t channels,
                     T* rows, int64_t points) {
    Taps<T> taps;
    find_taps<false>(s, g, m, taps);
    to_rows(taps, s.taps(), m, places_of(s));
    T given[kGridPoints * width] = {};
    turn(dy, channels, m, points, given, width);
    with_taps(
        s.taps(), [&](auto count) __attribute__((always_inline)) {
          for (int i = 0; i < m; ++i) {
            const T* const one = given + i * width;
            for (int k = 0; k < decltype(count)::value; ++k) {
              T* const row = rows + int64_t{taps.place[k][i]} * width;
              for (int q = 0; q < width; q += each)
                store(row + q, load(row + q) + load(one + q) * taps.weight[k][i]);
            }
          }
        });
  }

  static void slope(const GridSampler& s, const T* g, int m, const T* rows, const T* dy,
                    int64_t channels, int64_t points, T* dg) {
    Taps<T> taps;
    find_taps<true>(s, g, m, taps);
    const int count = s.taps();
    const int64_t places = places_of(s);
    to_rows(taps, count, m, places);
    T given[kGridPoints * width] = {};
    memset(dg, 0, static_cast<size_t>(m * s.dims) * sizeof(T));
    for (int64_t c = 0; c < channels; c += width, rows += (places + 1) * width) {
      const int64_t here = channels - c < width ? channels - c : width;
      if (here < width) memset(given, 0, sizeof(given));
      turn(dy + c * points, here, m, points, given, width);
      for (int i = 0; i < m; ++i) {
        // With the gradient of each channel, the parts of a row are added up before the dimensions are told apart.
        const T* const one = given + i * width;
        T total[3] = {};
        V sum[3] = {};
        for (int k = 0; k < count; ++k) {
          const T* const row = rows + int64_t{taps.place[k][i]} * width;
          V v = load(row) * load(one);
          for (int q = each; q < width; q += each) v += load(row + q) * load(one + q);
          for (int d = 0; d < 3; ++d)
            if (d < s.dims) sum[d] += v * taps.slope[d][k][i];
        }
        for (int d = 0; d < s.dims; ++d) {
          for (int j = 0; j < each; ++j) total[d] += sum[d][j];
          dg[i * s.dims + s.dims - 1 - d] += total[d];
        }
      }
    }
  }
};

// Rows of 4 channels, or of as many as fill the widest register.
template <class T, class F>
TYCHO_INLINE void with_width(int width, F&& f) {
  if (width == 4)
    f(RowsOf<T, 4>());
  else
    f(RowsOf<T, 64 / sizeof(T)>());
}

}  // namespace

void grid_read_f32(const GridSampler* s, const float* g, int m, const float* x, int64_t channels,
                   float* y, int64_t points, int width) {
  if (width == 0) return read(*s, g, m, x, channels, y, points);
  with_width<float>(width, [&](auto by) { by.read(*s, g, m, x, channels, y, points); });
}
void grid_spread_f32(const GridSampler* s, const float* g, int m, const float* dy, int64_t channels,
                     float* dx, int64_t points, int width) {
  if (width == 0) return spread(*s, g, m, dy, channels, dx, points);
  with_width<float>(width, [&](auto by) { by.spread(*s, g, m, dy, channels, dx, points); });
}
void grid_slope_f32(const GridSampler* s, const float* g, int m, const float* x, const float* dy,
                    int64_t channels, int64_t points, float* dg, int width) {
  if (width == 0) return slope(*s, g, m, x, dy, channels, points, dg);
  with_width<float>(width, [&](auto by) { by.slope(*s, g, m, x, dy, channels, points, dg); });
}
void grid_turn_f32(const float* from, int64_t rows, int64_t columns, int64_t from_step, float* to,
                   int64_t to_step) {
  turn(from, rows, columns, from_step, to, to_step);
}
void grid_read_f64(const GridSampler* s, const double* g, int m, const double* x, int64_t channels,
                   double* y, int64_t points, int width) {
  if (width == 0) return read(*s, g, m, x, channels, y, points);
  with_width<double>(width, [&](auto by) { by.read(*s, g, m, x, channels, y, points); });
}
void grid_spread_f64(const GridSampler* s, const double* g, int m, const double* dy,
                     int64_t channels, double* dx, int64_t points, int width) {
  if (width == 0) return spread(*s, g, m, dy, channels, dx, points);
  with_width<double>(width, [&](auto by) { by.spread(*s, g, m, dy, channels, dx, points); });
}
void grid_slope_f64(const GridSampler* s, const double* g, int m, const double* x, const double* dy,
                    int64_t channels, int64_t points, double* dg, int width) {
  if (width == 0) return slope(*s, g, m, x, dy, channels, points, dg);
  with_width<double>(width, [&](auto by) { by.slope(*s, g, m, x, dy, channels, points, dg); });
}
void grid_turn_f64(const double* from, int64_t rows, int64_t columns, int64_t from_step, double* to,
                   int64_t to_step) {
  turn(from, rows, columns, from_step, to, to_step);
}

}  // namespace tycho::cpu::TYCHO_LEVEL
