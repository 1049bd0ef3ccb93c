// group_norm on the CPU (ops/nn says what it computes): row-major, and in
// float32 or float64; bfloat16 is read as it lies where channels have many places.
#include <cmath>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/nn/norm_level.h"
#include "engine/cpu/nn/norm_short.h"
#include "engine/cpu/row_parts.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

struct Groups {
  int64_t samples, groups, inside, places;  // inside: channels of a group
  Groups(const Tensor& x, int64_t g)
      : samples(x.size(0)), groups(g), inside(x.size(1) / g), places(1) {
    for (int d = 2; d < x.rank(); ++d) places *= x.size(d);
  }
};

// Channels of so few places lie in lanes together: a group is one row, with each channel's number of
// weight and bias as often as it has places.
constexpr int64_t kFewPlaces = 16, kSomePlaces = 64, kManySamples = 8;
bool few_places(const Groups& k) {
  return k.places <= (k.samples < kManySamples ? kFewPlaces : kSomePlaces);
}
template <class T>
std::vector<T> for_places(const Numbers<T>& numbers, const Groups& k) {
  std::vector<T> all(static_cast<size_t>(k.groups * k.inside * k.places));
  auto to = all.begin();
  for (int64_t ch = 0; ch < k.groups * k.inside; ++ch, to += k.places)
    std::fill_n(to, k.places, numbers[ch]);
  return all;
}

// S is how images lie in memory, T what is computed in.
template <class S, class T>
void group_norm_typed(Call& c) {
  const Tensor& self = c.tensor(0);
  const Groups k(self, c.integer(1));
  const Sizes stride = row_major(self.shape());
  const Tensor x = arranged(self, type_of<S>, stride);
  const Tensor y = target(c.out[0], type_of<S>, stride);
  const int64_t channels = k.groups * k.inside, run = k.inside * k.places;
  const Numbers<T> w(c.tensor(2), channels, 1), b(c.tensor(3), channels, 0);
  const double eps = c.number(4);
  T *const mean = c.out[1].data<T>(), *const rstd = c.out[2].data<T>();
  const S* const from = x.data<S>();
  S* const to = y.data<S>();
  const bool few = few_places(k);
  const std::vector<T> wide_w = few ? for_places(w, k) : std::vector<T>(),
                       wide_b = few ? for_places(b, k) : std::vector<T>();
  if constexpr (std::is_same_v<S, T>)
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
  const auto moments = [&](const S* at, int64_t n) {
    Moments m;
    m.count = static_cast<double>(n);
    NORM_LEVEL_16(S, norm_moments, at, n, &m.mean, &m.m2);
    return m;
  };
  const auto keep = [&](int64_t i, const Moments& m) {
    mean[i] = static_cast<T>(m.mean);
    rstd[i] = static_cast<T>(1 / std::sqrt(m.m2 / static_cast<double>(run) + eps));
  };
  // Channel j of group i, from place `first` on.
  const auto apply = [&](int64_t i, int64_t j, int64_t first, int64_t n) {
    const int64_t at = i * run + j * k.places + first, ch = i % k.groups * k.inside + j;
    NORM_LEVEL_16(S, norm_apply, from + at, to + at, n, mean[i], w[ch] * rstd[i], b[ch]);
  };
  if (const RowParts p(k.samples * k.groups, run); !few && !p.whole()) {
    p.each_row([&](int64_t i) {
      keep(i, p.joined(
                  Moments(), [&](int64_t at, int64_t n) { return moments(from + i * run + at, n); },
                  joins<Moments>));
      const int64_t size = std::min(k.places, kWork), parts = (k.places + size - 1) / size;
      parallel_for(k.inside * parts, grain(size), [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) {
          const int64_t first = t % parts * size;
          apply(i, t / parts, first, std::min(size, k.places - first));
        }
      });
    });
    return finish(c.out[0], y);
  }
  parallel_for(k.samples * k.groups, grain(run), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      keep(i, moments(from + i * run, run));
      const int64_t first = i % k.groups * run;
      if (few)
        NORM_LEVEL_16(S, norm_row, from + i * run, to + i * run, run, mean[i], rstd[i],
                      wide_w.data() + first, wide_b.data() + first);
      for (int64_t j = 0; !few && j < k.inside; ++j) apply(i, j, 0, k.places);
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
        const T* const w_here = wide.data() + first;
        double s, d;
        NORM_LEVEL(T, norm_row_sums, g + i * run, x + i * run, w_here, run, mean[i], &s, &d);
        const double r = static_cast<double>(rstd[i]), count = static_cast<double>(run);
        NORM_LEVEL(T, norm_row_grad, g + i * run, x + i * run, w_here, to + i * run, run, mean[i],
                   rstd[i], static_cast<T>(-d * r * r * r / count), static_cast<T>(-s * r / count),
                   sum + first, sum + all + first);
        if (run == 1) to[i] = 0;  // one number less its mean is always 0
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

template <class S, class T>
void group_norm_backward_typed(Call& c) {
  const Tensor& self = c.tensor(1);
  const Groups k(self, c.integer(2));
  const Sizes stride = row_major(self.shape());
  const Tensor g = arranged(c.tensor(0), type_of<S>, stride);
  const Tensor x = arranged(self, type_of<S>, stride);
  const Tensor y = target(c.out[0], type_of<S>, stride);
  const int64_t channels = k.groups * k.inside, run = k.inside * k.places;
  const Numbers<T> w(c.tensor(3), channels, 1);
  const Tensor means = packed(c.tensor(4)), rstds = packed(c.tensor(5));
  const T *const mean = means.data<T>(), *const rstd = rstds.data<T>();
  const S *const gp = g.data<S>(), *const xp = x.data<S>();
  S* const to = y.data<S>();
  if constexpr (std::is_same_v<S, T>)
    if (few_places(k)) {
      few_places_backward(k, gp, xp, to, w, mean, rstd, c.out[1].data<T>(), c.out[2].data<T>());
      return finish(c.out[0], y);
    }
  // Sums of every sample's channels: of g, and of g (x - mean).
  std::vector<double> sum(static_cast<size_t>(k.samples * channels)), dot(sum.size());
  const int64_t groups = k.samples * k.groups;
  std::vector<Sums> of(static_cast<size_t>(groups));
  const auto plane_sums = [&](int64_t at) {
    NORM_LEVEL_16(S, norm_sums, gp + at * k.places, xp + at * k.places, k.places,
                  mean[at / k.inside], sum.data() + at, dot.data() + at);
  };
  const auto group_sums = [&](int64_t i) {
    for (int64_t at = i * k.inside; at < (i + 1) * k.inside; ++at) {
      of[i].sum += static_cast<double>(w[at % channels]) * sum[at];
      of[i].dot += static_cast<double>(w[at % channels]) * dot[at];
    }
  };
  const auto plane_grad = [&](int64_t at) {
    const int64_t i = at / k.inside;
    const double r = static_cast<double>(rstd[i]), count = static_cast<double>(run);
    NORM_LEVEL_16(S, norm_grad, gp + at * k.places, xp + at * k.places, to + at * k.places,
                  k.places, mean[i], w[at % channels] * rstd[i],
                  static_cast<T>(-of[i].dot * r * r * r / count),
                  static_cast<T>(-of[i].sum * r / count));
  };
  if (!RowParts(groups, run).whole()) {  // channels are shared out, not groups
    const auto planes = [&](auto each) {
      parallel_for(groups * k.inside, grain(k.places), [&](int64_t begin, int64_t end) {
        for (int64_t at = begin; at < end; ++at) each(at);
      });
    };
    planes(plane_sums);
    for (int64_t i = 0; i < groups; ++i) group_sums(i);
    planes(plane_grad);
  } else {
    parallel_for(groups, grain(run), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t at = i * k.inside; at < (i + 1) * k.inside; ++at) plane_sums(at);
        group_sums(i);
        for (int64_t at = i * k.inside; at < (i + 1) * k.inside; ++at) plane_grad(at);
      }
    });
  }
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

// bfloat16 is read and written as it lies, unless channels are turned or widened.
bool as_it_lies(const Tensor& x, int64_t groups) {
  return x.dtype() == DType::BFloat16 && !few_places(Groups(x, groups));
}

}  // namespace

void group_norm(Call& c) {
  if (as_it_lies(c.tensor(0), c.integer(1))) return group_norm_typed<uint16_t, float>(c);
  typed(wide(c.tensor(0).dtype()),
        [&](auto zero) { group_norm_typed<decltype(zero), decltype(zero)>(c); });
}
void group_norm_backward(Call& c) {
  if (as_it_lies(c.tensor(1), c.integer(2))) return group_norm_backward_typed<uint16_t, float>(c);
  typed(wide(c.tensor(1).dtype()),
        [&](auto zero) { group_norm_backward_typed<decltype(zero), decltype(zero)>(c); });
}

BIND_KERNEL(Cpu, "group_norm_forward", group_norm);
BIND_KERNEL(Cpu, "group_norm_backward", group_norm_backward);

}  // namespace tycho::cpu
