// Inner loops of resizing; see engine/cpu/nn/resample.h.
#include "engine/cpu/nn/resample.h"

#include "engine/cpu/lanes/parts.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

template <class T>
[[gnu::always_inline]] inline void mix_rows(const T* x, int64_t stride, T* y, const T* w,
                                            int64_t taps, int64_t n) {
  constexpr int64_t kBlock = 128 / sizeof(T);
  int64_t j = 0;
  for (; j + kBlock <= n; j += kBlock) {
    T sum[kBlock] = {};
    for (int64_t k = 0; k < taps; ++k) {
      const T weight = w[k];
      const T* const row = x + k * stride + j;
      for (int64_t l = 0; l < kBlock; ++l) sum[l] += weight * row[l];
    }
    for (int64_t l = 0; l < kBlock; ++l) y[j + l] = sum[l];
  }
  for (; j < n; j += Lane<T>::size) {
    const int rest = static_cast<int>(n - j < Lane<T>::size ? n - j : Lane<T>::size);
    Lane<T> sum(T(0));
    for (int64_t k = 0; k < taps; ++k) {
      const T* const row = x + k * stride + j;
      sum = sum + Lane<T>(w[k]) *
                      (rest == Lane<T>::size ? Lane<T>::load(row) : load_part<T>(row, rest, T(0)));
    }
    if (rest == Lane<T>::size)
      sum.store(y + j);
    else
      store_part<T>(sum, y + j, rest);
  }
}

// A line of pixels of C channels side by side. Four lanes are loaded for 2 to 4 of them, but never
// beyond `end`.
template <int C, class T>
[[gnu::always_inline]] inline void mix_pixels(const T* x, const T* end, T* y, int64_t out,
                                              const int64_t* first, const T* w, int64_t taps) {
  typedef T Pixel __attribute__((vector_size(4 * sizeof(T))));
  const int64_t fit = outputs_that_fit(end - x - 4, out, first, taps, C);
  int64_t i = 0;
  for (; i < fit; ++i, w += taps) {
    const T* const p = x + first[i] * C;
    Pixel sum = {};
    for (int64_t k = 0; k < taps; ++k) {
      Pixel pixel;
      __builtin_memcpy(&pixel, p + k * C, sizeof(pixel));
      sum += w[k] * pixel;
    }
    __builtin_memcpy(y + i * C, &sum, C * sizeof(T));
  }
  for (; i < out; ++i, w += taps) mix_rows(x + first[i] * C, C, y + i * C, w, taps, C);
}

template <class T>
[[gnu::always_inline]] inline void mix_pixels(const T* x, const T* end, T* y, int64_t out,
                                              const int64_t* first, const T* w, int64_t taps,
                                              int64_t channels) {
  switch (channels) {
    case 2:
      return mix_pixels<2>(x, end, y, out, first, w, taps);
    case 3:
      return mix_pixels<3>(x, end, y, out, first, w, taps);
    case 4:
      return mix_pixels<4>(x, end, y, out, first, w, taps);
    default:
      for (int64_t i = 0; i < out; ++i)
        mix_rows(x + first[i] * channels, channels, y + i * channels, w + i * taps, taps, channels);
  }
}

// Outputs of a register that read no more inputs than two registers hold (one, on v3) have them put in
// place by permutations, of which all lines take the same. Returns how many outputs it has made.
template <class T>
[[gnu::always_inline]] inline int64_t mix_near(
    [[maybe_unused]] const T* x, [[maybe_unused]] int64_t in, [[maybe_unused]] T* y,
    [[maybe_unused]] int64_t out, [[maybe_unused]] const int64_t* first,
    [[maybe_unused]] const T* w, [[maybe_unused]] int64_t taps, [[maybe_unused]] int64_t lines) {
  int64_t i = 0;
#if defined(TYCHO_LEVEL_v4) || defined(TYCHO_LEVEL_v3)
#if defined(TYCHO_LEVEL_v4)
  constexpr int64_t kLanes = 64 / sizeof(T), kInputs = 2 * kLanes;
#else
  constexpr int64_t kLanes = 32 / sizeof(T), kInputs = kLanes;
  if (sizeof(T) == 8) return 0;
#endif
  constexpr int64_t kTaps = 8;
  if (taps > kTaps || lines < 4) return 0;
  for (; i < out; i += kLanes) {
    const int64_t base = first[i], some = out - i < kLanes ? out - i : kLanes;
    if (first[i + some - 1] + taps - base > kInputs) return i;
    T weight[kTaps][kLanes] = {};
    alignas(64) int32_t place[kLanes] = {};
    for (int64_t j = 0; j < some; ++j) {
      place[j] = static_cast<int32_t>(first[i + j] - base);
      for (int64_t k = 0; k < taps; ++k) weight[k][j] = w[(i + j) * taps + k];
    }
    [[maybe_unused]] const uint32_t made = (1u << some) - 1;
    const int64_t there = in - base < kInputs ? in - base : kInputs;
    for (int64_t line = 0; line < lines; ++line) {
      const T* const p = x + line * in + base;
      T* const to = y + line * out + i;
#if defined(TYCHO_LEVEL_v4)
      if constexpr (sizeof(T) == 4) {
        const uint32_t mask = there == 32 ? ~0u : (1u << there) - 1;
        const __m512 a = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), p),
                     b = _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask >> 16), p + 16);
        __m512i at = _mm512_load_si512(place);
        __m512 sum = _mm512_setzero_ps();
        for (int64_t k = 0; k < taps; ++k, at = _mm512_add_epi32(at, _mm512_set1_epi32(1)))
          sum = _mm512_fmadd_ps(_mm512_loadu_ps(weight[k]), _mm512_permutex2var_ps(a, at, b), sum);
        _mm512_mask_storeu_ps(to, static_cast<__mmask16>(made), sum);
      } else {
        const uint32_t mask = (1u << there) - 1;
        const __m512d a = _mm512_maskz_loadu_pd(static_cast<__mmask8>(mask), p),
                      b = _mm512_maskz_loadu_pd(static_cast<__mmask8>(mask >> 8), p + 8);
        __m512i at = _mm512_maskz_cvtepi32_epi64(
            0xff, _mm256_load_si256(reinterpret_cast<const __m256i*>(place)));
        __m512d sum = _mm512_setzero_pd();
        for (int64_t k = 0; k < taps; ++k, at = _mm512_add_epi64(at, _mm512_set1_epi64(1)))
          sum = _mm512_fmadd_pd(_mm512_loadu_pd(weight[k]), _mm512_permutex2var_pd(a, at, b), sum);
        _mm512_mask_storeu_pd(to, static_cast<__mmask8>(made), sum);
      }
#else
      alignas(32) static constexpr int32_t kCount[8] = {0, 1, 2, 3, 4, 5, 6, 7};
      const __m256i mask =
          _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(there)),
                             _mm256_load_si256(reinterpret_cast<const __m256i*>(kCount)));
      const __m256 a = _mm256_maskload_ps(reinterpret_cast<const float*>(p), mask);
      __m256i at = _mm256_load_si256(reinterpret_cast<const __m256i*>(place));
      __m256 sum = _mm256_setzero_ps();
      for (int64_t k = 0; k < taps; ++k, at = _mm256_add_epi32(at, _mm256_set1_epi32(1)))
        sum = _mm256_fmadd_ps(_mm256_loadu_ps(reinterpret_cast<const float*>(weight[k])),
                              _mm256_permutevar8x32_ps(a, at), sum);
      if (some == kLanes)
        _mm256_storeu_ps(reinterpret_cast<float*>(to), sum);
      else
        _mm256_maskstore_ps(
            reinterpret_cast<float*>(to),
            _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(some)),
                               _mm256_load_si256(reinterpret_cast<const __m256i*>(kCount))),
            sum);
#endif
    }
  }
#endif
  return i < out ? i : out;
}

// Four lines at once keep the multipliers busy.
template <class T>
[[gnu::always_inline]] inline void mix_lines(const T* x, int64_t in, T* y, int64_t out,
                                             const int64_t* first, const T* w, int64_t taps,
                                             int64_t lines) {
  const int64_t made = mix_near(x, in, y, out, first, w, taps, lines);
  int64_t line = 0;
  for (; line + 4 <= lines; line += 4, x += 4 * in, y += 4 * out)
    for (int64_t i = made; i < out; ++i) {
      const T *const weight = w + i * taps, *const p = x + first[i];
      T a = 0, b = 0, c = 0, d = 0;
      for (int64_t k = 0; k < taps; ++k) {
        a += weight[k] * p[k];
        b += weight[k] * p[in + k];
        c += weight[k] * p[2 * in + k];
        d += weight[k] * p[3 * in + k];
      }
      y[i] = a;
      y[out + i] = b;
      y[2 * out + i] = c;
      y[3 * out + i] = d;
    }
  for (; line < lines; ++line, x += in, y += out)
    for (int64_t i = made; i < out; ++i) {
      T sum = 0;
      for (int64_t k = 0; k < taps; ++k) sum += w[i * taps + k] * x[first[i] + k];
      y[i] = sum;
    }
}

template <class T>
[[gnu::always_inline]] inline bool finite(const T* x, int64_t n) {
  constexpr int64_t kBlock = 128 / sizeof(T);
  T sum[kBlock] = {};  // stays 0 unless one is inf or nan
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock)
    for (int64_t l = 0; l < kBlock; ++l) sum[l] += x[i + l] * 0;
  for (; i < n; ++i) sum[0] += x[i] * 0;
  T all = 0;
  for (const T one : sum) all += one;
  return all == 0;
}

}  // namespace

void mix_rows_f32(const float* x, int64_t stride, float* y, const float* w, int64_t taps,
                  int64_t n) {
  mix_rows(x, stride, y, w, taps, n);
}
void mix_rows_f64(const double* x, int64_t stride, double* y, const double* w, int64_t taps,
                  int64_t n) {
  mix_rows(x, stride, y, w, taps, n);
}
void mix_pixels_f32(const float* x, const float* end, float* y, int64_t out, const int64_t* first,
                    const float* w, int64_t taps, int64_t channels) {
  mix_pixels(x, end, y, out, first, w, taps, channels);
}
void mix_pixels_f64(const double* x, const double* end, double* y, int64_t out,
                    const int64_t* first, const double* w, int64_t taps, int64_t channels) {
  mix_pixels(x, end, y, out, first, w, taps, channels);
}
void mix_lines_f32(const float* x, int64_t in, float* y, int64_t out, const int64_t* first,
                   const float* w, int64_t taps, int64_t lines) {
  mix_lines(x, in, y, out, first, w, taps, lines);
}
void mix_lines_f64(const double* x, int64_t in, double* y, int64_t out, const int64_t* first,
                   const double* w, int64_t taps, int64_t lines) {
  mix_lines(x, in, y, out, first, w, taps, lines);
}

bool finite_f32(const float* x, int64_t n) { return finite(x, n); }
bool finite_f64(const double* x, int64_t n) { return finite(x, n); }

}  // namespace tycho::cpu::TYCHO_LEVEL
