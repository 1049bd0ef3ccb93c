// Convolutions with few windows: the windows as a small matrix whose columns have the weight's order.
#include "engine/cpu/conv/conv_thin.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/conv/conv_reach.h"
#include "engine/cpu/matmul/gemm.h"
#include "engine/cpu/scratch.h"

namespace tycho::cpu {
namespace {

struct Thin {
  const Convolution& c;
  const Window& w;
  int64_t in, out, taps, k, rows;  // channels of a group; k: numbers in one of its windows
  size_t size;

  explicit Thin(const Convolution& conv)
      : c(conv),
        w(conv.window),
        in(w.channels / c.groups),
        out(c.out_channels / c.groups),
        taps(w.bands() * w.kernel[2]),
        k(in * taps),
        rows(w.rows()),
        size(static_cast<size_t>(dtype_size(c.dtype))) {}

  const char* at(const void* p, int64_t i) const {
    return static_cast<const char*>(p) + i * static_cast<int64_t>(size);
  }
  char* at(void* p, int64_t i) const {
    return static_cast<char*>(p) + i * static_cast<int64_t>(size);
  }
  void multiply(int64_t m, int64_t n, int64_t depth, const void* a, int64_t a_row, int64_t a_col,
                const void* b, int64_t b_row, int64_t b_col, void* to, int64_t to_row,
                const void* bias = nullptr) const {
    Product p{};
    p.dtype = c.dtype;
    p.m = m, p.n = n, p.k = depth;
    p.a = a, p.a_row = a_row, p.a_col = a_col;
    p.b = b, p.b_row = b_row, p.b_col = b_col;
    p.c = to, p.c_row = to_row;
    p.bias = bias;
    gemm(p);
  }

  // Calls f(number of the window, tap, pixel under it) for windows [begin, end), as far as there
  // are pixels.
  template <class F>
  void each_tap(int64_t begin, int64_t end, F&& f) const {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t x = row % w.out[2], y = row / w.out[2] % w.out[1];
      const int64_t z = row / w.out[2] / w.out[1] % w.out[0];
      const int64_t n = row / w.out[2] / w.out[1] / w.out[0];
      for (int64_t t = 0; t < taps; ++t) {
        const int64_t iz =
            z * w.stride[0] - w.pad[0] + t / w.kernel[2] / w.kernel[1] * w.dilation[0];
        const int64_t iy =
            y * w.stride[1] - w.pad[1] + t / w.kernel[2] % w.kernel[1] * w.dilation[1];
        const int64_t ix = x * w.stride[2] - w.pad[2] + t % w.kernel[2] * w.dilation[2];
        if (iz >= 0 && iz < w.in[0] && iy >= 0 && iy < w.in[1] && ix >= 0 && ix < w.in[2])
          f(row, t, n, (iz * w.in[1] + iy) * w.in[2] + ix);
      }
    }
  }

  // The windows of group g, [rows, channels, taps].
  template <class T>
  void gather(const Pixels& x, int64_t g, T* to) const {
    std::memset(to, 0, static_cast<size_t>(rows * k) * sizeof(T));
    const T* const from = static_cast<const T*>(x.data) + g * in * x.channel;
    parallel_for(rows, 1 + (1 << 14) / k, [&](int64_t begin, int64_t end) {
      std::vector<std::pair<int64_t, int64_t>> seen;  // taps of a window, and what lies under them
      for (int64_t row = begin; row < end; ++row) {
        seen.clear();
        each_tap(row, row + 1, [&](int64_t, int64_t t, int64_t n, int64_t pixel) {
          seen.emplace_back(t, n * x.image + pixel * x.pixel);
        });
        const T* p = from;
        T* q = to + row * k;
        for (int64_t i = 0; i < in; ++i, p += x.channel, q += taps)
          for (const auto& [tap, at] : seen) q[tap] = p[at];
      }
    });
  }
  // Adds them onto the images, channels last.
  template <class T>
  void spread(const T* windows, int64_t g, T* x) const {
    const int64_t image = w.in[0] * w.in[1] * w.in[2];
    each_tap(0, rows, [&](int64_t row, int64_t t, int64_t n, int64_t pixel) {
      const T* p = windows + row * k + t;
      T* q = x + (n * image + pixel) * w.channels + g * in;
      for (int64_t i = 0; i < in; ++i, p += taps) q[i] += *p;
    });
  }

  // Calls f(group, its windows); `read` fills them before.
  template <class F>
  void each_group(const Pixels* x, F&& f) const {
    const Scratch windows(static_cast<size_t>(rows * k) * size);
    for (int64_t g = 0; g < c.groups; ++g) {
      if (x && c.dtype == DType::Float32)
        gather(*x, g, reinterpret_cast<float*>(windows.data()));
      else if (x)
        gather(*x, g, reinterpret_cast<double*>(windows.data()));
      f(g, windows.data());
    }
  }
};

}  // namespace

bool few_windows(const Convolution& c) {
  // The work grows with the rows, what packing costs does not; from 64 rows on it is made up for.
  constexpr int64_t kMostRows = 100, kEnoughWeights = 1 << 14, kWeightsOfRows = 64, kOutputs = 16;
  if (c.dtype != DType::Float32 && c.dtype != DType::Float64) return false;
  const Window& w = c.window;
  const int64_t taps = w.bands() * w.kernel[2], rows = w.rows();
  const int64_t out = c.out_channels / c.groups, weights = w.channels / c.groups * taps * out;
  // Of many rows, taps that see padding are work that others leave out.
  constexpr int64_t kFewRows = 24;
  constexpr double kSeen = 0.7;
  return rows > 0 && rows <= kMostRows && out >= kOutputs && taps > 1 &&
         (rows <= kFewRows || BandsSeen(w).share() >= kSeen) &&
         weights >= std::max(kEnoughWeights, kWeightsOfRows * rows * rows);
}

void conv_thin_forward(const Convolution& c, const Pixels& x, const void* w, const void* bias,
                       void* y) {
  const Thin t(c);
  t.each_group(&x, [&](int64_t g, const void* windows) {
    t.multiply(t.rows, t.out, t.k, windows, t.k, 1, t.at(w, g * t.out * t.k), 1, t.k,
               t.at(y, g * t.out), c.out_channels, bias ? t.at(bias, g * t.out) : nullptr);
  });
}

void conv_thin_input(const Convolution& c, const void* y, const void* w, void* x) {
  const Thin t(c);
  const Window& win = c.window;
  std::memset(
      x, 0,
      static_cast<size_t>(win.images * win.in[0] * win.in[1] * win.in[2] * win.channels) * t.size);
  t.each_group(nullptr, [&](int64_t g, void* windows) {
    t.multiply(t.rows, t.k, t.out, t.at(y, g * t.out), c.out_channels, 1, t.at(w, g * t.out * t.k),
               t.k, 1, windows, t.k);
    if (c.dtype == DType::Float32)
      t.spread(static_cast<const float*>(windows), g, static_cast<float*>(x));
    else
      t.spread(static_cast<const double*>(windows), g, static_cast<double*>(x));
  });
}

void conv_thin_weight(const Convolution& c, const void* y, const Pixels& x, void* w) {
  const Thin t(c);
  t.each_group(&x, [&](int64_t g, const void* windows) {
    t.multiply(t.out, t.k, t.rows, t.at(y, g * t.out), 1, c.out_channels, windows, t.k, 1,
               t.at(w, g * t.out * t.k), t.k);
  });
}

}  // namespace tycho::cpu
