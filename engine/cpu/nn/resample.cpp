// The kernels of resizing (ops/nn/resize.cpp): which inputs an output takes and with which weights,
// the weighted sums along one dimension, and their transpose.
#include "engine/cpu/nn/resample.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

constexpr int64_t kWork = 16384;  // multiplications in one chunk

struct Loops {
  int64_t outer, in, out, inner, taps;
  const int64_t* first;
  int64_t weights = taps;  // numbers that hold the weights of an output
};

int64_t grain(int64_t work_each) {
  return std::max<int64_t>(1, kWork / std::max<int64_t>(1, work_each));
}

// The weighted sums of inputs along a dimension behind which others lie: as rows, or as pixels where
// few numbers lie side by side.
template <class T, class W, class Rows, class Pixels>
void mix(const Loops& s, const T* x, T* y, const W* w, Rows rows, Pixels pixels) {
  constexpr int64_t kFewest = 8;
  if (s.inner < kFewest) {
    const T* const x_end = x + s.outer * s.in * s.inner;
    parallel_for(s.outer, grain(s.out * s.inner * s.taps), [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o)
        pixels(x + o * s.in * s.inner, x_end, y + o * s.out * s.inner, s.out, s.first, w, s.taps,
               s.inner);
    });
    return;
  }
  parallel_for(s.outer * s.out, grain(s.inner * s.taps), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const int64_t o = r / s.out, i = r % s.out;
      rows(x + (o * s.in + s.first[i]) * s.inner, s.inner, y + r * s.inner, w + i * s.weights,
           s.taps, s.inner);
    }
  });
}

// The same where numbers are not finite: weights of 0 fill up what has fewer neighbours than others, and then an inf
// would be nan beside it.
template <class T>
void mix_strange(const Loops& s, const T* x, T* y, const T* w) {
  for (int64_t r = 0; r < s.outer * s.out; ++r)
    for (int64_t j = 0; j < s.inner; ++j) {
      const int64_t i = r % s.out;
      const T* const from = x + (r / s.out * s.in + s.first[i]) * s.inner + j;
      T sum = 0;
      for (int64_t k = 0; k < s.taps; ++k)
        if (w[i * s.taps + k] != 0) sum += w[i * s.taps + k] * from[k * s.inner];
      y[r * s.inner + j] = sum;
    }
}

template <class T, class Lines>
void mix_lines(const Loops& s, const T* x, T* y, const T* w, Lines lines) {
  parallel_for(s.outer, (grain(s.out * s.taps) + 3) / 4 * 4, [&](int64_t begin, int64_t end) {
    lines(x + begin * s.in, s.in, y + begin * s.out, s.out, s.first, w, s.taps, end - begin);
  });
}

// Weights as whole numbers of 2^-shift that fit 16 bits, as Pillow and PyTorch have them for bytes,
// in pairs.
struct ByteWeights {
  ByteWeights(const double* w, int64_t out, int64_t taps) {
    const double most = *std::max_element(w, w + out * taps);
    while (shift < 22 && 0.5 + most * (1 << (shift + 1)) < (1 << 15)) ++shift;
    for (int64_t i = 0; i < out; ++i, w += taps)
      for (int64_t k = 0; k < taps; k += 2)
        pairs.push_back((whole(w[k]) & 0xffff) + (k + 1 < taps ? whole(w[k + 1]) * (1 << 16) : 0));
  }
  int32_t whole(double w) const { return static_cast<int32_t>(std::round(w * (1 << shift))); }
  int shift = 0;
  std::vector<int32_t> pairs;
};

void mix_bytes(Loops s, const Tensor& x, const Tensor& y, const double* w) {
  const ByteWeights weights(w, s.out, s.taps);
  const int shift = weights.shift;
  s.weights = (s.taps + 1) / 2;
  const auto run = [&](const Loops& l, const uint8_t* from, uint8_t* to) {
    mix(
        l, from, to, weights.pairs.data(),
        [shift](auto... v) { level_of::mix_rows_u8(v..., shift); },
        [shift](auto... v) { level_of::mix_pixels_u8(v..., shift); });
  };
  if (s.inner > 1) return run(s, x.data<uint8_t>(), y.data<uint8_t>());
  // Lines are turned, so that the lanes hold a place of many lines.
  const Tensor turned = packed(alias(x, {s.in, s.outer}, {1, s.in}, x->offset));
  const Tensor result = empty({s.out, s.outer}, DType::UInt8);
  std::swap(s.outer, s.inner);
  run(s, turned.data<uint8_t>(), result.data<uint8_t>());
  copy_raw(alias(y, {s.out, s.inner}, {1, s.out}, y->offset), result);
}

// The transpose: which outputs every input went to, and with which weights. Outputs' first inputs
// never fall, so these follow each other.
template <class T>
struct Turned {
  Turned(const int64_t* first, const T* w, int64_t in, int64_t out, int64_t taps) {
    std::vector<int64_t> end(static_cast<size_t>(in));
    from.resize(static_cast<size_t>(in));
    for (int64_t p = 0, begin = 0, stop = 0; p < in; ++p) {
      while (begin < out && first[begin] + taps <= p) ++begin;
      while (stop < out && first[stop] <= p) ++stop;
      from[p] = begin, end[p] = std::max(begin, stop);
      count = std::max(count, end[p] - begin);
    }
    weight.resize(static_cast<size_t>(in * count));
    for (int64_t p = 0; p < in; ++p) {
      const int64_t begin = from[p];
      from[p] = std::min(begin, out - count);
      for (int64_t i = begin; i < end[p]; ++i)
        weight[p * count + i - from[p]] = w[i * taps + p - first[i]];
    }
  }
  int64_t count = 1;
  std::vector<int64_t> from;  // [in]
  std::vector<T> weight;      // [in, count]
};

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
    const int64_t end =
        std::min({static_cast<int64_t>(center + support + 0.5), in, first + t.count});
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
  Loops s{1, x.size(dim), y.size(dim), 1, w.size(1), first.data<int64_t>()};
  for (int d = 0; d < dim; ++d) s.outer *= x.size(d);
  for (int d = dim + 1; d < x.rank(); ++d) s.inner *= x.size(d);
  if (x.numel() == 0 || y.numel() == 0) return;
  if (x.dtype() == DType::UInt8) return mix_bytes(s, x, y, w.data<double>());
  const auto run = [&](auto zero, auto lines, auto rows, auto pixels, auto finite) {
    using T = decltype(zero);
    const auto forward = [&](const T* weight) {
      if (s.inner == 1)
        mix_lines(s, x.data<T>(), y.data<T>(), weight, lines);
      else
        mix(s, x.data<T>(), y.data<T>(), weight, rows, pixels);
      if (!finite(static_cast<const T*>(y.data<T>()), y.numel()))
        mix_strange(s, x.data<T>(), y.data<T>(), weight);
    };
    if (!back) return forward(w.data<T>());
    const Turned<T> t(s.first, w.data<T>(), s.out, s.in, s.taps);
    s.first = t.from.data();
    s.taps = s.weights = t.count;
    forward(t.weight.data());
  };
  if (x.dtype() == DType::Float64)
    run(
        0.0, [](auto... v) { level_of::mix_lines_f64(v...); },
        [](auto... v) { level_of::mix_rows_f64(v...); },
        [](auto... v) { level_of::mix_pixels_f64(v...); },
        [](auto... v) { return level_of::finite_f64(v...); });
  else
    run(
        0.f, [](auto... v) { level_of::mix_lines_f32(v...); },
        [](auto... v) { level_of::mix_rows_f32(v...); },
        [](auto... v) { level_of::mix_pixels_f32(v...); },
        [](auto... v) { return level_of::finite_f32(v...); });
}

BIND_KERNEL(Cpu, "resample", resample);
BIND_KERNEL(Cpu, "resample_taps", resample_taps);
BIND_KERNEL(Cpu, "nearest_positions", nearest_positions);

}  // namespace tycho::cpu
