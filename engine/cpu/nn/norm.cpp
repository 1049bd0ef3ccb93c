// batch_norm and the windows of local_response_norm on the CPU (ops/nn says what they compute). Half
// types are computed in float32: batch norm reads bfloat16 as it is, others are widened first;
// statistics are joined in double. Batch norm works on either dense layout of its input, channels
// outside (nchw) or inside (nhwc), and keeps it.
#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/elementwise/move.h"
#include "engine/cpu/nn/norm_level.h"
#include "engine/cpu/nn/norm_short.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/before_change.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

// An input of batch norm: [N, C, S], or with `columns` [rows, C] where rows = N S.
struct Planes {
  bool columns;
  int64_t samples, channels, places;
  Sizes stride;
  explicit Planes(const Tensor& x) : samples(x.size(0)), channels(x.size(1)), places(1) {
    for (int d = 2; d < x.rank(); ++d) places *= x.size(d);
    const Sizes inside = channels_last_strides(x.shape());
    columns = places == 1 || (!x.contiguous() && lies(x, inside));
    stride = columns ? inside : row_major(x.shape());
  }
  int64_t count() const { return samples * places; }
  // Rows of a block whose channel sums are taken in type T.
  int64_t block() const {
    return std::clamp<int64_t>(32768 / std::max<int64_t>(1, channels), 1, 512);
  }
};

// What find(place, number) says of every channel's images, large ones in parts, joined in their order.
// Of few channels, threads share the parts out.
template <class Part, class F>
std::vector<Part> of_channels(const Planes& p, F find) {
  constexpr int64_t kPart = 8192;
  const int64_t size = p.places >= 4 * kPart ? kPart : std::max<int64_t>(p.places, 1),
                parts = (p.places + size - 1) / size, each = p.samples * parts;
  const auto part_of = [&](int64_t c, int64_t n, int64_t at) {
    return find(c, (n * p.channels + c) * p.places + at, std::min(size, p.places - at));
  };
  std::vector<Part> all(static_cast<size_t>(p.channels));
  if (p.channels >= 16) {
    parallel_for(p.channels, grain(p.count()), [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c)
        for (int64_t n = 0; n < p.samples; ++n)
          for (int64_t at = 0; at < p.places; at += size) all[c].join(part_of(c, n, at));
    });
    return all;
  }
  std::vector<Part> part(static_cast<size_t>(p.channels * each));
  parallel_for(p.channels * each, grain(size), [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k)
      part[k] = part_of(k / each, k % each / parts, k % parts * size);
  });
  for (int64_t k = 0; k < p.channels * each; ++k) all[k / each].join(part[k]);
  return all;
}

// Images of few places are met in the order in which they lie, some channels at a time.
constexpr int64_t kPlacesTogether = 64, kChannelsTogether = 16, kTogether = 32;
bool meets_together(const Planes& p) {
  return !p.columns && p.places <= kPlacesTogether && p.channels >= kChannelsTogether &&
         p.count() > 0;
}
// Calls f(first channel, how many).
template <class F>
void each_channels(const Planes& p, F&& f) {
  parallel_for((p.channels + kTogether - 1) / kTogether, grain(p.count() * kTogether),
               [&](int64_t begin, int64_t end) {
                 for (int64_t k = begin * kTogether; k < end * kTogether; k += kTogether)
                   f(k, std::min(kTogether, p.channels - k));
               });
}
// Calls f(first place, first channel, channels) for the images [begin, end) of channels, counted through.
template <class F>
void each_sample(const Planes& p, int64_t begin, int64_t end, F&& f) {
  for (int64_t n; begin < end; begin += n) {
    const int64_t k = begin % p.channels;
    n = std::min(end - begin, p.channels - k);
    f(begin * p.places, k, n);
  }
}

// Images of fewest places: the channels at hand become columns.
constexpr int64_t kPlacesInColumns = 32;
template <class S>
void as_columns(const S* x, int64_t places, int64_t n, S* tile) {
  level_of::transpose_plane(static_cast<int>(sizeof(S)), reinterpret_cast<char*>(tile), n,
                            reinterpret_cast<const char*>(x), places, places, n, false);
}
template <class S, class T>
void moments_of(const S* x, int64_t places, int64_t n, double* mean, double* m2) {
  if (places > kPlacesInColumns) {
    NORM_LEVEL_16(S, norm_runs_moments, x, places, n, mean, m2);
    return;
  }
  alignas(64) S tile[kPlacesInColumns * kTogether];
  T middle[kTogether], apart[kTogether], squares[kTogether];
  as_columns(x, places, n, tile);
  NORM_LEVEL_16(S, norm_column_moments, static_cast<const S*>(tile), places, n, middle, apart,
                squares);
  const auto count = static_cast<double>(places), part = 1 / count;
  for (int64_t i = 0; i < n; ++i) {
    const double off = static_cast<double>(apart[i]) * part;
    mean[i] = static_cast<double>(middle[i]) + off;
    m2[i] = static_cast<double>(squares[i]) - off * off * count;
  }
}
template <class S, class T>
void sums_of(const S* g, const S* x, int64_t places, int64_t n, const T* mean, double* sum,
             double* dot) {
  if (places > kPlacesInColumns) {
    NORM_LEVEL_16(S, norm_runs_sums, g, x, places, n, mean, sum, dot);
    return;
  }
  alignas(64) S gt[kPlacesInColumns * kTogether], xt[kPlacesInColumns * kTogether];
  T s[kTogether], d[kTogether];
  as_columns(g, places, n, gt);
  as_columns(x, places, n, xt);
  NORM_LEVEL_16(S, norm_column_sums, static_cast<const S*>(gt), static_cast<const S*>(xt), places,
                n, mean, s, d);
  std::copy_n(s, n, sum);
  std::copy_n(d, n, dot);
}

// Means are joined by their distances from the first one, for divisions would take longer than the sums.
template <class S, class T>
std::vector<Moments> moments_together(const S* x, const Planes& p) {
  std::vector<Moments> all(static_cast<size_t>(p.channels));
  const auto samples = static_cast<double>(p.samples), places = static_cast<double>(p.places);
  each_channels(p, [&](int64_t first, int64_t n) {
    double mean[kTogether], m2[kTogether], from[kTogether];
    double sum[kTogether] = {}, squares[kTogether] = {}, inside[kTogether] = {};
    for (int64_t s = 0; s < p.samples; ++s) {
      moments_of<S, T>(x + (s * p.channels + first) * p.places, p.places, n, mean, m2);
      if (s == 0) std::copy_n(mean, n, from);
      for (int64_t i = 0; i < n; ++i) {
        const double apart = mean[i] - from[i];
        sum[i] += apart, squares[i] += apart * apart, inside[i] += m2[i];
      }
    }
    for (int64_t i = 0; i < n; ++i) {
      const double between = squares[i] - sum[i] * sum[i] / samples;
      all[first + i] = {samples * places, from[i] + sum[i] / samples,
                        inside[i] + places * (between < 0 ? 0 : between)};
    }
  });
  return all;
}
template <class S, class T>
std::vector<Sums> sums_together(const S* g, const S* x, const T* mean, const Planes& p) {
  std::vector<Sums> all(static_cast<size_t>(p.channels));
  each_channels(p, [&](int64_t first, int64_t n) {
    double sum[kTogether], dot[kTogether];
    for (int64_t s = 0; s < p.samples; ++s) {
      const int64_t at = (s * p.channels + first) * p.places;
      sums_of(g + at, x + at, p.places, n, mean + first, sum, dot);
      for (int64_t i = 0; i < n; ++i) all[first + i].join({sum[i], dot[i]});
    }
  });
  return all;
}

template <class S, class T>
std::vector<Moments> channel_moments(const S* x, const Planes& p) {
  if (meets_together(p)) return moments_together<S, T>(x, p);
  if (!p.columns)
    return of_channels<Moments>(p, [&](int64_t, int64_t at, int64_t n) {
      Moments m;
      m.count = static_cast<double>(n);
      NORM_LEVEL_16(S, norm_moments, x + at, n, &m.mean, &m.m2);
      return m;
    });
  std::vector<Moments> m(static_cast<size_t>(p.channels));
  const int64_t block = p.block(), rows = p.count(), blocks = (rows + block - 1) / block;
  std::vector<T> part(static_cast<size_t>(3 * blocks * p.channels));
  parallel_for(blocks, grain(block * p.channels), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      T* const to = part.data() + 3 * b * p.channels;
      NORM_LEVEL_16(S, norm_column_moments, x + b * block * p.channels,
                    std::min(block, rows - b * block), p.channels, to, to + p.channels,
                    to + 2 * p.channels);
    }
  });
  for (int64_t b = 0; b < blocks; ++b) {
    const double count = static_cast<double>(std::min(block, rows - b * block));
    const T* const from = part.data() + 3 * b * p.channels;
    for (int64_t c = 0; c < p.channels; ++c) {
      const double off = static_cast<double>(from[p.channels + c]) / count;
      m[c].join(count, static_cast<double>(from[c]) + off,
                static_cast<double>(from[2 * p.channels + c]) - off * off * count);
    }
  }
  return m;
}

// running = (1 - momentum) running + momentum now
void update_running(const Tensor& running, const std::vector<double>& now, double momentum) {
  if (!running) return;
  const int64_t n = static_cast<int64_t>(now.size());
  std::vector<double> old = values<double>(running, n, 0);
  const Tensor next = empty({n}, DType::Float64);
  for (int64_t c = 0; c < n; ++c)
    next.data<double>()[c] = (1 - momentum) * old[c] + momentum * now[c];
  about_to_change(running, "batch_norm");
  copy_raw(running, next);
  ++running->storage->version;
}

template <class S, class T>
void batch_norm_typed(Call& c) {
  const Tensor& self = c.tensor(0);
  const Planes p(self);
  const bool training = c.flag(5);
  const double momentum = c.number(6), eps = c.number(7);
  const Tensor x = arranged(self, type_of<S>, p.stride);
  const Tensor y = target(c.out[0], type_of<S>, p.stride);
  T *const mean = c.out[1].data<T>(), *const rstd = c.out[2].data<T>();
  if constexpr (std::is_same_v<S, T>)
    if (const ShortRows<T> rows{p.channels, p.places, true, nullptr};
        training && p.samples == 1 && !p.columns && are_short(p.channels, p.places) &&
        !c.tensor(1) && !c.tensor(2) && !c.tensor(3) && !c.tensor(4)) {
      rows.forward(x.data<T>(), y.data<T>(), nullptr, mean, rstd, eps);
      return finish(c.out[0], y);
    }
  if (training) {
    const std::vector<Moments> m = channel_moments<S, T>(x.data<S>(), p);
    std::vector<double> means, variances;
    for (int64_t k = 0; k < p.channels; ++k) {
      mean[k] = static_cast<T>(m[k].mean);
      rstd[k] = static_cast<T>(1 / std::sqrt(m[k].m2 / m[k].count + eps));
      means.push_back(m[k].mean);
      variances.push_back(m[k].m2 / (m[k].count - 1));
    }
    if (p.count() > 0) {
      update_running(c.tensor(3), means, momentum);
      update_running(c.tensor(4), variances, momentum);
    }
  } else {
    const Numbers<double> means(c.tensor(3), p.channels, 0), variances(c.tensor(4), p.channels, 1);
    for (int64_t k = 0; k < p.channels; ++k) {
      mean[k] = static_cast<T>(means[k]);
      rstd[k] = static_cast<T>(1 / std::sqrt(variances[k] + eps));
    }
  }
  std::vector<T> a = values<T>(c.tensor(1), p.channels, 1);
  const Numbers<T> b(c.tensor(2), p.channels, 0);
  for (int64_t k = 0; k < p.channels; ++k) a[k] *= rstd[k];
  const S* const from = x.data<S>();
  S* const to = y.data<S>();
  if (p.columns) {
    parallel_for(p.count(), grain(p.channels), [&](int64_t begin, int64_t end) {
      NORM_LEVEL_16(S, norm_column_apply, from + begin * p.channels, to + begin * p.channels,
                    end - begin, p.channels, static_cast<const T*>(mean), a.data(), b.data());
    });
  } else {
    parallel_for(p.samples * p.channels, grain(p.places), [&](int64_t begin, int64_t end) {
      each_sample(p, begin, end, [&](int64_t at, int64_t k, int64_t n) {
        NORM_LEVEL_16(S, norm_runs_apply, from + at, to + at, p.places, n,
                      static_cast<const T*>(mean + k), a.data() + k, b.data() + k);
      });
    });
  }
  finish(c.out[0], y);
}

template <class S, class T>
void batch_norm_backward_typed(Call& c) {
  const Planes p(c.tensor(1));
  const Tensor g = arranged(c.tensor(0), type_of<S>, p.stride);
  const Tensor x = arranged(c.tensor(1), type_of<S>, p.stride);
  const Tensor y = target(c.out[0], type_of<S>, p.stride);
  const Numbers<T> w(c.tensor(2), p.channels, 1);
  const Tensor means = packed(c.tensor(3)), rstds = packed(c.tensor(4));
  const T *const mean = means.data<T>(), *const rstd = rstds.data<T>();
  const S *const gp = g.data<S>(), *const xp = x.data<S>();
  S* const to = y.data<S>();
  std::vector<double> sum(static_cast<size_t>(p.channels)), dot(static_cast<size_t>(p.channels));
  const int64_t block = p.block(), rows = p.count(), blocks = (rows + block - 1) / block;
  if (!p.columns) {
    const std::vector<Sums> all =
        meets_together(p)
            ? sums_together(gp, xp, mean, p)
            : of_channels<Sums>(p, [&](int64_t k, int64_t at, int64_t n) {
                Sums s;
                NORM_LEVEL_16(S, norm_sums, gp + at, xp + at, n, mean[k], &s.sum, &s.dot);
                return s;
              });
    for (int64_t k = 0; k < p.channels; ++k) sum[k] = all[k].sum, dot[k] = all[k].dot;
  } else {
    std::vector<T> part(static_cast<size_t>(2 * blocks * p.channels));
    parallel_for(blocks, grain(block * p.channels), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b)
        NORM_LEVEL_16(S, norm_column_sums, gp + b * block * p.channels, xp + b * block * p.channels,
                      std::min(block, rows - b * block), p.channels, mean,
                      part.data() + 2 * b * p.channels, part.data() + (2 * b + 1) * p.channels);
    });
    for (int64_t b = 0; b < blocks; ++b)
      for (int64_t k = 0; k < p.channels; ++k) {
        sum[k] += static_cast<double>(part[2 * b * p.channels + k]);
        dot[k] += static_cast<double>(part[(2 * b + 1) * p.channels + k]);
      }
  }
  std::vector<T> a(sum.size()), b(sum.size()), shift(sum.size());
  const double count = static_cast<double>(p.count());
  for (int64_t k = 0; k < p.channels; ++k) {
    const double r = static_cast<double>(rstd[k]), wr = static_cast<double>(w[k]) * r;
    c.out[1].data<T>()[k] = static_cast<T>(dot[k] * r);
    c.out[2].data<T>()[k] = static_cast<T>(sum[k]);
    a[k] = static_cast<T>(wr);
    if (!c.flag(5)) continue;  // in evaluation the statistics are constants
    b[k] = static_cast<T>(-wr * r * r * dot[k] / count);
    shift[k] = static_cast<T>(-wr * sum[k] / count);
  }
  if (p.columns) {
    parallel_for(rows, grain(p.channels), [&](int64_t begin, int64_t end) {
      const int64_t at = begin * p.channels;
      NORM_LEVEL_16(S, norm_column_grad, gp + at, xp + at, to + at, end - begin, p.channels, mean,
                    static_cast<const T*>(a.data()), static_cast<const T*>(b.data()),
                    static_cast<const T*>(shift.data()));
    });
  } else {
    parallel_for(p.samples * p.channels, grain(p.places), [&](int64_t begin, int64_t end) {
      each_sample(p, begin, end, [&](int64_t at, int64_t k, int64_t n) {
        NORM_LEVEL_16(S, norm_runs_grad, gp + at, xp + at, to + at, p.places, n, mean + k,
                      static_cast<const T*>(a.data() + k), static_cast<const T*>(b.data() + k),
                      static_cast<const T*>(shift.data() + k));
      });
    });
  }
  finish(c.out[0], y);
}

template <class T>
void window_sum_typed(Call& c) {
  const Tensor x = arranged(c.tensor(0), type_of<T>, row_major(c.tensor(0).shape()));
  const Tensor y = target(c.out[0], type_of<T>, row_major(x.shape()));
  const int64_t before = c.integer(1), after = c.integer(2), channels = x.size(1);
  const Planes p(y);
  std::fill_n(y.data<T>(), y.numel(), T(0));
  parallel_for(p.samples * channels, grain(p.places), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t k = i % channels;
      T* const to = y.data<T>() + i * p.places;
      for (int64_t j = std::max<int64_t>(0, k - before); j <= std::min(channels - 1, k + after);
           ++j) {
        const T* const from = x.data<T>() + (i - k + j) * p.places;
        for (int64_t s = 0; s < p.places; ++s) to[s] += from[s];
      }
    }
  });
  finish(c.out[0], y);
}

}  // namespace

// Batch norm reads and writes bfloat16 directly: it is bound by memory.
void batch_norm(Call& c) {
  const DType t = c.tensor(0).dtype();
  if (t == DType::BFloat16)
    batch_norm_typed<uint16_t, float>(c);
  else
    typed(wide(t), [&](auto zero) { batch_norm_typed<decltype(zero), decltype(zero)>(c); });
}
void batch_norm_backward(Call& c) {
  const DType t = c.tensor(1).dtype();
  if (t == DType::BFloat16)
    batch_norm_backward_typed<uint16_t, float>(c);
  else
    typed(wide(t),
          [&](auto zero) { batch_norm_backward_typed<decltype(zero), decltype(zero)>(c); });
}

void window_sum(Call& c) {
  typed(wide(c.tensor(0).dtype()), [&](auto zero) { window_sum_typed<decltype(zero)>(c); });
}

BIND_KERNEL(Cpu, "window_sum", window_sum);
BIND_KERNEL(Cpu, "batch_norm_forward", batch_norm);
BIND_KERNEL(Cpu, "batch_norm_backward", batch_norm_backward);

}  // namespace tycho::cpu
