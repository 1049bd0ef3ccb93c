// Convolutions of every channel by itself: lanes over channels, the taps of a result pixel that lie
// inside the image listed once for all of them.
#include "engine/cpu/conv/conv.h"
#include "engine/cpu/matmul/level/gemm.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

constexpr int kTaps = kDepthwiseTaps;

// Where the taps of one window lie (in elements, channel 0) and where their weights are.
struct TapList {
  int count = 0;
  int64_t at[kTaps], weight[kTaps];
};

// Calls f(first element of the result pixel, taps) for lines [begin, end).
template <class F>
TYCHO_INLINE void each_pixel(const Window& w, int64_t begin, int64_t end, F&& f) {
  TapList taps;
  for (int64_t line = begin; line < end; ++line) {
    const int64_t y = line % w.out[1], rest = line / w.out[1];
    const int64_t z = rest % w.out[0], n = rest / w.out[0];
    for (int64_t x = 0; x < w.out[2]; ++x) {
      taps.count = 0;
      for (int64_t kz = 0; kz < w.kernel[0]; ++kz) {
        const int64_t iz = z * w.stride[0] - w.pad[0] + kz * w.dilation[0];
        if (iz < 0 || iz >= w.in[0]) continue;
        for (int64_t ky = 0; ky < w.kernel[1]; ++ky) {
          const int64_t iy = y * w.stride[1] - w.pad[1] + ky * w.dilation[1];
          if (iy < 0 || iy >= w.in[1]) continue;
          const int64_t row = ((n * w.in[0] + iz) * w.in[1] + iy) * w.in[2];
          for (int64_t kx = 0; kx < w.kernel[2]; ++kx) {
            const int64_t ix = x * w.stride[2] - w.pad[2] + kx * w.dilation[2];
            if (ix < 0 || ix >= w.in[2]) continue;
            taps.at[taps.count] = (row + ix) * w.channels;
            taps.weight[taps.count++] = ((kz * w.kernel[1] + ky) * w.kernel[2] + kx) * w.channels;
          }
        }
      }
      f((line * w.out[2] + x) * w.channels, taps);
    }
  }
}

// Calls f(channel, how many) in lanes; the last one may be partial.
template <class T, class F>
TYCHO_INLINE void each_lane(int64_t n, F&& f) {
  constexpr int size = Lane<T>::size;
  int64_t c = 0;
  for (; c + size <= n; c += size) f(c, size);
  if (c < n) f(c, static_cast<int>(n - c));
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

template <class F>
TYCHO_INLINE void by_type(int type, F&& f) {
  type == 0 ? f(0.f) : type == 1 ? f(0.0) : f(int64_t{0});
}

}  // namespace

void depthwise_lines(int type, const Window* w, const void* x, const void* weight, const void* bias,
                     void* y, int64_t begin, int64_t end) {
  by_type(type, [&](auto zero) {
    using T = decltype(zero);
    const T *from = static_cast<const T*>(x), *wt = static_cast<const T*>(weight);
    const T* b = static_cast<const T*>(bias);
    each_pixel(*w, begin, end, [&](int64_t out, const TapList& taps) {
      each_lane<T>(w->channels, [&](int64_t c, int m) {
        Lane<T> sum = b ? load_n(b + c, m) : Lane<T>(0);
        for (int t = 0; t < taps.count; ++t)
          sum = muladd(load_n(from + taps.at[t] + c, m), load_n(wt + taps.weight[t] + c, m), sum);
        store_n(static_cast<T*>(y) + out + c, sum, m);
      });
    });
  });
}

void depthwise_input(int type, const Window* w, const void* g, const void* weight, void* x,
                     int64_t begin, int64_t end) {
  by_type(type, [&](auto zero) {
    using T = decltype(zero);
    const int64_t image = w->in[0] * w->in[1] * w->in[2] * w->channels;
    const int64_t lines = w->out[0] * w->out[1];
    const T *from = static_cast<const T*>(g), *wt = static_cast<const T*>(weight);
    T* to = static_cast<T*>(x);
    memset(to + begin * image, 0, (end - begin) * image * sizeof(T));
    each_pixel(*w, begin * lines, end * lines, [&](int64_t out, const TapList& taps) {
      each_lane<T>(w->channels, [&](int64_t c, int m) {
        const Lane<T> v = load_n(from + out + c, m);
        for (int t = 0; t < taps.count; ++t) {
          T* place = to + taps.at[t] + c;
          store_n(place, muladd(v, load_n(wt + taps.weight[t] + c, m), load_n<T>(place, m)), m);
        }
      });
    });
  });
}

void depthwise_weight(int type, const Window* w, const void* g, const void* x, void* weight,
                      int64_t begin, int64_t end) {
  by_type(type, [&](auto zero) {
    using T = decltype(zero);
    const int64_t lines = w->out[0] * w->out[1];
    const T *gy = static_cast<const T*>(g), *from = static_cast<const T*>(x);
    T* sums = static_cast<T*>(weight);
    each_pixel(*w, begin * lines, end * lines, [&](int64_t out, const TapList& taps) {
      each_lane<T>(w->channels, [&](int64_t c, int m) {
        const Lane<T> v = load_n(gy + out + c, m);
        for (int t = 0; t < taps.count; ++t) {
          T* place = sums + taps.weight[t] + c;
          store_n(place, muladd(v, load_n(from + taps.at[t] + c, m), load_n<T>(place, m)), m);
        }
      });
    });
  });
}

}  // namespace tycho::cpu::TYCHO_LEVEL
