// The kernels of resizing (ops/nn/resize.cpp): which inputs an output takes and with which weights,
// the weighted sums along one dimension, and their transpose.
#include "engine/cpu/nn/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/base/parallel.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kWork = 16384;  // multiplications in one chunk

struct Loops {
  int64_t outer, in, out, inner, taps;
  const int64_t* first;
};

int64_t grain(int64_t work_each) {
  return std::max<int64_t>(1, kWork / std::max<int64_t>(1, work_each));
}

template <class T, class Rows, class Lines>
void mix(const Loops& s, const T* x, T* y, const T* w, Rows rows, Lines lines) {
  if (s.inner == 1) {
    parallel_for(s.outer, (grain(s.out * s.taps) + 3) / 4 * 4, [&](int64_t begin, int64_t end) {
      lines(x + begin * s.in, s.in, y + begin * s.out, s.out, s.first, w, s.taps, end - begin);
    });
    return;
  }
  parallel_for(s.outer * s.out, grain(s.inner * s.taps), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t o = r / s.out, i = r % s.out;
      rows(x + (o * s.in + s.first[i]) * s.inner, s.inner, y + r * s.inner, w + i * s.taps, s.taps,
           s.inner);
    }
  });
}

// Each chunk owns some columns of one outer index, so that no two add to the same place.
template <class T, class Rows>
void spread(const Loops& s, const T* x, T* y, const T* w, Rows rows) {
  constexpr int64_t kColumns = 512;
  const int64_t blocks = (s.inner + kColumns - 1) / kColumns;
  parallel_for(s.outer * blocks, grain(s.out * s.taps * std::min(s.inner, kColumns)),
               [&](int64_t begin, int64_t end) {
                 for (int64_t r = begin; r < end; ++r) {
                   const int64_t o = r / blocks, j = r % blocks * kColumns;
                   const int64_t n = std::min(kColumns, s.inner - j);
                   T* const to = y + o * s.in * s.inner + j;
                   for (int64_t p = 0; p < s.in; ++p)
                     std::memset(to + p * s.inner, 0, static_cast<size_t>(n) * sizeof(T));
                   for (int64_t i = 0; i < s.out; ++i)
                     rows(x + (o * s.out + i) * s.inner + j, s.inner, to + s.first[i] * s.inner,
                          w + i * s.taps, s.taps, n);
                 }
               });
}

// Output i along a dimension is the sum of weight[i][k] times input first[i] + k (from 0).
struct Taps {
  explicit Taps(const Call& c)
      : count(c.out[1].size(1)),
        first(c.out[0].data<int64_t>()),
        hold(filled(c.out[1].shape(), 0, DType::Float64)),
        weight(hold.data<double>()) {}
  void add(int64_t i, int64_t input, double w) { weight[i * count + input - first[i]] += w; }
  int64_t count;
  int64_t* first;  // [out]
  Tensor hold;
  double* weight;  // [out, count]
};

// Where output i lies among the inputs, which are at 0, 1, 2, ... (as PyTorch, area_pixel rules).
double source(int64_t i, double scale, bool corners, bool cubic) {
  if (corners) return scale * static_cast<double>(i);
  const double x = scale * (static_cast<double>(i) + 0.5) - 0.5;
  return cubic ? x : std::max(x, 0.0);
}

// Keys' cubic convolution with A = -0.75, as PyTorch: the weights of the 4 neighbours.
void cubic_weights(double t, double* w) {
  constexpr double kA = -0.75;
  const auto near = [](double x) { return ((kA + 2) * x - (kA + 3)) * x * x + 1; };
  const auto far = [](double x) { return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA; };
  w[0] = far(t + 1);
  w[1] = near(t);
  w[2] = near(1 - t);
  w[3] = far(2 - t);
}

// With antialiasing, an output is a mean of all inputs under a triangle (or a cubic with A = -0.5)
// that is as wide as the outputs are apart: Pillow's way, which PyTorch follows.
void find_wide_taps(Taps& t, bool cubic, int64_t in, int64_t out, double scale) {
  const double stretch = std::max(scale, 1.0), support = (cubic ? 2 : 1) * stretch;
  const auto weight_at = [&](double x) {
    x = std::abs(x);
    if (!cubic) return std::max(1 - x, 0.0);
    constexpr double kA = -0.5;
    if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * kA : 0;
  };
  for (int64_t i = 0; i < out; ++i) {
    const double center = scale * (static_cast<double>(i) + 0.5);
    const int64_t first = std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const int64_t end = std::min(static_cast<int64_t>(center + support + 0.5), in);
    const auto at = [&](int64_t p) {
      return weight_at((static_cast<double>(p) - center + 0.5) / stretch);
    };
    double total = 0;
    for (int64_t p = first; p < end; ++p) total += at(p);
    t.first[i] = std::min(first, in - t.count);
    for (int64_t p = first; p < end; ++p) t.add(i, p, total != 0 ? at(p) / total : 0);
  }
}

// Two neighbours, or four for a cubic; those beyond the border are the last ones inside.
void find_taps(Taps& t, bool cubic, int64_t in, int64_t out, double scale, bool corners) {
  for (int64_t i = 0; i < out; ++i) {
    const double x = source(i, scale, corners, cubic), floor = std::floor(x);
    const int64_t p = static_cast<int64_t>(floor) - (cubic ? 1 : 0);
    double w[4] = {1 - (x - floor), x - floor};
    if (cubic) cubic_weights(x - floor, w);
    t.first[i] = std::clamp<int64_t>(p, 0, in - t.count);
    for (int k = 0; k < (cubic ? 4 : 2); ++k) t.add(i, std::clamp<int64_t>(p + k, 0, in - 1), w[k]);
  }
}

}  // namespace

void resample_taps(Call& c) {
  const int64_t in = c.integer(0), out = c.integer(1);
  const bool cubic = c.flag(3);
  Taps t(c);
  if (c.flag(5))
    find_wide_taps(t, cubic, in, out, c.number(2));
  else
    find_taps(t, cubic, in, out, c.number(2), c.flag(4));
  copy_raw(c.out[1], t.hold);
}

void nearest_positions(Call& c) {
  const int64_t in = c.integer(0), out = c.integer(1);
  const double scale = c.number(2), shift = c.number(3);
  int64_t* to = c.out[0].data<int64_t>();
  for (int64_t i = 0; i < out; ++i) {
    const int64_t p = static_cast<int64_t>(std::floor((static_cast<double>(i) + shift) * scale));
    to[i] = std::clamp<int64_t>(p, 0, in - 1) + 1;
  }
}

void resample(Call& c) {
  const Tensor x = packed(c.tensor(0)), first = packed(c.tensor(1)), w = packed(c.tensor(2));
  const Tensor& y = c.out[0];
  const int dim = static_cast<int>(c.integer(3));
  const bool back = c.flag(5);
  Loops s{1, back ? y.size(dim) : x.size(dim), w.size(0), 1, w.size(1), first.data<int64_t>()};
  for (int d = 0; d < dim; ++d) s.outer *= x.size(d);
  for (int d = dim + 1; d < x.rank(); ++d) s.inner *= x.size(d);
  if (x.numel() == 0 || y.numel() == 0) return;
  if (x.dtype() == DType::Float64) {
    const double *a = x.data<double>(), *b = w.data<double>();
    if (back)
      spread(s, a, y.data<double>(), b, [](auto... v) { level_of::spread_rows_f64(v...); });
    else
      mix(
          s, a, y.data<double>(), b, [](auto... v) { level_of::mix_rows_f64(v...); },
          [](auto... v) { level_of::mix_lines_f64(v...); });
    return;
  }
  const float *a = x.data<float>(), *b = w.data<float>();
  if (back)
    spread(s, a, y.data<float>(), b, [](auto... v) { level_of::spread_rows_f32(v...); });
  else
    mix(
        s, a, y.data<float>(), b, [](auto... v) { level_of::mix_rows_f32(v...); },
        [](auto... v) { level_of::mix_lines_f32(v...); });
}

BIND_KERNEL(Cpu, "resample", resample);
BIND_KERNEL(Cpu, "resample_taps", resample_taps);
BIND_KERNEL(Cpu, "nearest_positions", nearest_positions);

}  // namespace tycho::cpu
