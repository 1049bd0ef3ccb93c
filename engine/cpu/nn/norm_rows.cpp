// layer_norm, rms_norm and group_norm on the CPU (ops/nn says what they compute): row-major, and in
// float32 or float64.
#include <cmath>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/nn/norm_level.h"
#include "engine/cpu/nn/norm_short.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

// How many rows and how long, when the last `dims` dimensions are normalised.
struct Rows {
  int64_t rows = 1, n = 1;
  Rows(const Tensor& x, int dims) {
    for (int d = 0; d < x.rank(); ++d) (d < x.rank() - dims ? rows : n) *= x.size(d);
  }
};

template <class T>
void layer_norm_typed(Call& c) {
  const Tensor& self = c.tensor(0);
  const Rows r(self, c.count(1));
  const bool centred = c.flag(5);
  const double eps = c.number(4);
  const Sizes stride = row_major(self.shape());
  const Tensor x = arranged(self, type_of<T>, stride);
  const Tensor y = target(c.out[0], type_of<T>, stride);
  const Numbers<T> w(c.tensor(2), c.tensor(2) ? r.n : 0, 1),
      b(c.tensor(3), c.tensor(3) ? r.n : 0, 0);
  const T* const wp = c.tensor(2) ? w.data() : nullptr;
  const T* const bp = c.tensor(3) ? b.data() : nullptr;
  T *const mean = c.out[1].data<T>(), *const rstd = c.out[2].data<T>();
  const T* const from = x.data<T>();
  T* const to = y.data<T>();
  if (are_short(r.rows, r.n)) {
    ShortRows<T>{r.rows, r.n, centred, wp}.forward(from, to, bp, mean, rstd, eps);
    return finish(c.out[0], y);
  }
  const double n = static_cast<double>(r.n);
  parallel_for(r.rows, grain(r.n), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* const p = from + i * r.n;
      double m = 0, m2 = 0;
      if (centred)
        NORM_LEVEL(T, norm_moments, p, r.n, &m, &m2);
      else if constexpr (sizeof(T) == 4)
        m2 = level_of::norm_squares_f32(p, r.n);
      else
        m2 = level_of::norm_squares_f64(p, r.n);
      mean[i] = static_cast<T>(m);
      rstd[i] = static_cast<T>(1 / std::sqrt(m2 / n + eps));
      NORM_LEVEL(T, norm_row, p, to + i * r.n, r.n, mean[i], rstd[i], wp, bp);
    }
  });
  finish(c.out[0], y);
}

template <class T>
void layer_norm_backward_typed(Call& c) {
  const Tensor& self = c.tensor(1);
  const Rows r(self, c.count(2));
  const bool centred = c.flag(6);
  const Sizes stride = row_major(self.shape());
  const Tensor g = arranged(c.tensor(0), type_of<T>, stride);
  const Tensor x = arranged(self, type_of<T>, stride);
  const Tensor y = target(c.out[0], type_of<T>, stride);
  const Numbers<T> w(c.tensor(3), c.tensor(3) ? r.n : 0, 1);
  const T* const wp = c.tensor(3) ? w.data() : nullptr;
  const Tensor means = packed(c.tensor(4)), rstds = packed(c.tensor(5));
  const T *const mean = means.data<T>(), *const rstd = rstds.data<T>();
  const T *const gp = g.data<T>(), *const xp = x.data<T>();
  T* const to = y.data<T>();
  // Gradients of weight and bias are summed per block of rows, then over blocks in order.
  const int64_t block = std::clamp<int64_t>(32768 / std::max<int64_t>(1, r.n), 1, 128);
  const int64_t blocks = (r.rows + block - 1) / block;
  T *const weight = c.out[1].data<T>(), *const bias = c.out[2].data<T>();
  if (are_short(r.rows, r.n)) {
    std::vector<double> sum(static_cast<size_t>(2 * r.n));
    ShortRows<T>{r.rows, r.n, centred, wp}.backward(gp, xp, to, mean, rstd, sum);
    for (int64_t j = 0; j < r.n; ++j) {
      weight[j] = static_cast<T>(sum[static_cast<size_t>(j)]);
      bias[j] = static_cast<T>(sum[static_cast<size_t>(r.n + j)]);
    }
    return finish(c.out[0], y);
  }
  const Tensor parts = empty({blocks, 2 * r.n}, type_of<T>);
  parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      T *const dw = parts.data<T>() + 2 * k * r.n, *const db = dw + r.n;
      std::fill_n(dw, 2 * r.n, T(0));
      for (int64_t i = k * block; i < std::min(r.rows, (k + 1) * block); ++i)
        NORM_LEVEL(T, norm_row_grad, gp + i * r.n, xp + i * r.n, wp, to + i * r.n, r.n, mean[i],
                   rstd[i], dw, db, centred);
    }
  });
  const Tensor sums = op<"sum">(parts, Sizes{0}, false, type_of<T>);
  std::copy_n(sums.data<T>(), r.n, weight);
  std::copy_n(sums.data<T>() + r.n, r.n, bias);
  finish(c.out[0], y);
}

// --- Groups of channels ---

struct Groups {
  int64_t samples, groups, inside, places;  // inside: channels of a group
  Groups(const Tensor& x, int64_t g)
      : samples(x.size(0)), groups(g), inside(x.size(1) / g), places(1) {
    for (int d = 2; d < x.rank(); ++d) places *= x.size(d);
  }
};

// Channels of so few places lie in lanes together: a group is one row, with each channel's number of
// weight and bias as often as it has places.
constexpr int64_t kFewPlaces = 16;
template <class T>
std::vector<T> for_places(const Numbers<T>& numbers, const Groups& k) {
  std::vector<T> all(static_cast<size_t>(k.groups * k.inside * k.places));
  for (size_t i = 0; i < all.size(); ++i) all[i] = numbers[static_cast<int64_t>(i) / k.places];
  return all;
}

template <class T>
void group_norm_typed(Call& c) {
  const Tensor& self = c.tensor(0);
  const Groups k(self, c.integer(1));
  const Sizes stride = row_major(self.shape());
  const Tensor x = arranged(self, type_of<T>, stride);
  const Tensor y = target(c.out[0], type_of<T>, stride);
  const int64_t channels = k.groups * k.inside, run = k.inside * k.places;
  const Numbers<T> w(c.tensor(2), channels, 1), b(c.tensor(3), channels, 0);
  const double eps = c.number(4);
  T *const mean = c.out[1].data<T>(), *const rstd = c.out[2].data<T>();
  const T* const from = x.data<T>();
  T* const to = y.data<T>();
  const bool few = k.places <= kFewPlaces;
  const std::vector<T> wide_w = few ? for_places(w, k) : std::vector<T>(),
                       wide_b = few ? for_places(b, k) : std::vector<T>();
  if (few && are_short(k.samples * k.groups, run)) {
    ShortRows<T>{k.samples * k.groups, run, true, nullptr}.forward(from, to, nullptr, mean, rstd,
                                                                   eps);
    const int64_t all = k.groups * run;
    parallel_for(k.samples, grain(all), [&](int64_t begin, int64_t end) {
      for (T* t = to + begin * all; t < to + end * all; t += all)
        for (int64_t i = 0; i < all; ++i) t[i] = t[i] * wide_w[i] + wide_b[i];
    });
    return finish(c.out[0], y);
  }
  parallel_for(k.samples * k.groups, grain(run), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double m, m2;
      NORM_LEVEL(T, norm_moments, from + i * run, run, &m, &m2);
      mean[i] = static_cast<T>(m);
      rstd[i] = static_cast<T>(1 / std::sqrt(m2 / static_cast<double>(run) + eps));
      const int64_t first = i % k.groups * run;
      if (few)
        NORM_LEVEL(T, norm_row, from + i * run, to + i * run, run, mean[i], rstd[i],
                   wide_w.data() + first, wide_b.data() + first);
      for (int64_t j = 0; !few && j < k.inside; ++j) {
        const int64_t at = i * run + j * k.places, ch = i % k.groups * k.inside + j;
        NORM_LEVEL(T, norm_apply, from + at, to + at, k.places, mean[i], w[ch] * rstd[i], b[ch]);
      }
    }
  });
  finish(c.out[0], y);
}

// The sums of weight and bias are taken per block of samples, then over blocks in order.
template <class T>
void few_places_backward(const Groups& k, const T* g, const T* x, T* to, const Numbers<T>& w,
                         const T* mean, const T* rstd, T* dw, T* db) {
  const std::vector<T> wide = for_places(w, k);
  const int64_t run = k.inside * k.places, all = k.groups * run;
  const int64_t block = std::clamp<int64_t>(32768 / std::max<int64_t>(1, all), 1, 128);
  const int64_t blocks = (k.samples + block - 1) / block;
  const Tensor parts = empty({blocks, 2 * all}, type_of<T>);
  const bool small = are_short(k.samples * k.groups, run);
  if (small) {
    const Tensor scaled = empty({k.samples * all}, type_of<T>);
    for (int64_t n = 0; n < k.samples; ++n)
      for (int64_t i = 0; i < all; ++i) scaled.data<T>()[n * all + i] = g[n * all + i] * wide[i];
    std::vector<double> unused(static_cast<size_t>(2 * run));
    ShortRows<T>{k.samples * k.groups, run, true, nullptr}.backward(scaled.data<T>(), x, to, mean,
                                                                    rstd, unused);
  }
  parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      T* const sum = parts.data<T>() + 2 * b * all;
      std::fill_n(sum, 2 * all, T(0));
      const int64_t last = std::min(k.samples, (b + 1) * block) * k.groups;
      for (int64_t i = b * block * k.groups; small && i < last; ++i) {
        T* const to_w = sum + i % k.groups * run;
        for (int64_t j = 0; j < run; ++j) {
          to_w[j] += g[i * run + j] * (x[i * run + j] - mean[i]) * rstd[i];
          to_w[all + j] += g[i * run + j];
        }
      }
      for (int64_t i = b * block * k.groups; !small && i < last; ++i) {
        const int64_t first = i % k.groups * run;
        NORM_LEVEL(T, norm_row_grad, g + i * run, x + i * run, wide.data() + first, to + i * run,
                   run, mean[i], rstd[i], sum + first, sum + all + first, true);
      }
    }
  });
  const Tensor sums = op<"sum">(parts, Sizes{0}, false, type_of<T>);
  for (int64_t ch = 0; ch < k.groups * k.inside; ++ch) {
    const T* const from = sums.data<T>() + ch * k.places;
    double a = 0, b = 0;
    for (int64_t j = 0; j < k.places; ++j) {
      a += static_cast<double>(from[j]);
      b += static_cast<double>(from[all + j]);
    }
    dw[ch] = static_cast<T>(a);
    db[ch] = static_cast<T>(b);
  }
}

template <class T>
void group_norm_backward_typed(Call& c) {
  const Tensor& self = c.tensor(1);
  const Groups k(self, c.integer(2));
  const Sizes stride = row_major(self.shape());
  const Tensor g = arranged(c.tensor(0), type_of<T>, stride);
  const Tensor x = arranged(self, type_of<T>, stride);
  const Tensor y = target(c.out[0], type_of<T>, stride);
  const int64_t channels = k.groups * k.inside, run = k.inside * k.places;
  const Numbers<T> w(c.tensor(3), channels, 1);
  const Tensor means = packed(c.tensor(4)), rstds = packed(c.tensor(5));
  const T *const mean = means.data<T>(), *const rstd = rstds.data<T>();
  const T *const gp = g.data<T>(), *const xp = x.data<T>();
  T* const to = y.data<T>();
  if (k.places <= kFewPlaces) {
    few_places_backward(k, gp, xp, to, w, mean, rstd, c.out[1].data<T>(), c.out[2].data<T>());
    return finish(c.out[0], y);
  }
  // Sums of every sample's channels: of g, and of g (x - mean).
  std::vector<double> sum(static_cast<size_t>(k.samples * channels)), dot(sum.size());
  parallel_for(k.samples * k.groups, grain(run), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double s = 0, d = 0;
      for (int64_t j = 0; j < k.inside; ++j) {
        const int64_t at = i * k.inside + j, ch = at % channels;
        NORM_LEVEL(T, norm_sums, gp + at * k.places, xp + at * k.places, k.places, mean[i],
                   sum.data() + at, dot.data() + at);
        s += static_cast<double>(w[ch]) * sum[at];
        d += static_cast<double>(w[ch]) * dot[at];
      }
      const double r = static_cast<double>(rstd[i]), count = static_cast<double>(run);
      const T b = static_cast<T>(-d * r * r * r / count), shift = static_cast<T>(-s * r / count);
      for (int64_t j = 0; j < k.inside; ++j) {
        const int64_t at = i * k.inside + j, ch = at % channels;
        NORM_LEVEL(T, norm_grad, gp + at * k.places, xp + at * k.places, to + at * k.places,
                   k.places, mean[i], w[ch] * rstd[i], b, shift);
      }
    }
  });
  for (int64_t ch = 0; ch < channels; ++ch) {
    double dw = 0, db = 0;
    for (int64_t n = 0; n < k.samples; ++n) {
      const int64_t at = n * channels + ch;
      dw += dot[at] * static_cast<double>(rstd[at / k.inside]);
      db += sum[at];
    }
    c.out[1].data<T>()[ch] = static_cast<T>(dw);
    c.out[2].data<T>()[ch] = static_cast<T>(db);
  }
  finish(c.out[0], y);
}

}  // namespace

#define TYCHO_TYPED(name, arg)                                                               \
  void name(Call& c) {                                                                       \
    typed(wide(c.tensor(arg).dtype()), [&](auto zero) { name##_typed<decltype(zero)>(c); }); \
  }
TYCHO_TYPED(layer_norm, 0)
TYCHO_TYPED(layer_norm_backward, 1)
TYCHO_TYPED(group_norm, 0)
TYCHO_TYPED(group_norm_backward, 1)

BIND_KERNEL(Cpu, "row_norm", layer_norm);
BIND_KERNEL(Cpu, "row_norm_backward", layer_norm_backward);
BIND_KERNEL(Cpu, "group_norm_forward", group_norm);
BIND_KERNEL(Cpu, "group_norm_backward", group_norm_backward);

}  // namespace tycho::cpu
