// Inner loops of resizing; see engine/cpu/nn/resample.h.
#include "engine/cpu/nn/resample.h"

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
  for (; j < n; ++j) {
    T sum = 0;
    for (int64_t k = 0; k < taps; ++k) sum += w[k] * x[k * stride + j];
    y[j] = sum;
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

// Four lines at once keep the multipliers busy.
template <class T>
[[gnu::always_inline]] inline void mix_lines(const T* x, int64_t in, T* y, int64_t out,
                                             const int64_t* first, const T* w, int64_t taps,
                                             int64_t lines) {
  int64_t line = 0;
  for (; line + 4 <= lines; line += 4, x += 4 * in, y += 4 * out)
    for (int64_t i = 0; i < out; ++i) {
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
    for (int64_t i = 0; i < out; ++i) {
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
