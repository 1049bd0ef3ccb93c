// The normalisations on the CPU (ops/nn/norm.cpp says what they compute). Half types are computed
// in float32: batch norm reads bfloat16 as it is, others are widened first; statistics are joined
// in double. Batch norm works on either dense layout of its input, channels outside (nchw) or
// inside (nhwc), and keeps it.
#include "engine/cpu/nn/norm.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/nn/norm_short.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

// The inner loop for numbers that lie in memory as S, at the CPU's level.
#define LEVEL(S, name, ...)               \
  do {                                    \
    if constexpr (sizeof(S) == 4)         \
      level_of::name##_f32(__VA_ARGS__);  \
    else if constexpr (sizeof(S) == 8)    \
      level_of::name##_f64(__VA_ARGS__);  \
    else                                  \
      level_of::name##_bf16(__VA_ARGS__); \
  } while (0)
// The same where there is none for half types.
#define LEVEL_ROW(T, name, ...)          \
  do {                                   \
    if constexpr (sizeof(T) == 4)        \
      level_of::name##_f32(__VA_ARGS__); \
    else                                 \
      level_of::name##_f64(__VA_ARGS__); \
  } while (0)

constexpr int64_t kWork = 16384;  // elements worth a chunk of their own

int64_t grain(int64_t cost) { return std::max<int64_t>(1, kWork / std::max<int64_t>(1, cost)); }

DType wide(DType t) { return t == DType::Float64 ? t : DType::Float32; }

template <class S>
constexpr DType type_of = sizeof(S) == 2   ? DType::BFloat16
                          : sizeof(S) == 4 ? DType::Float32
                                           : DType::Float64;

// Runs f<float>() or f<double>() by the type to compute in.
template <class F>
void typed(DType t, F f) {
  if (t == DType::Float64)
    f(double());
  else
    f(float());
}

// Strides of a dense tensor whose channels (dimension 2) are the innermost.
Sizes channels_inside(const Sizes& shape) {
  Sizes stride = shape;
  stride[1] = 1;
  int64_t step = shape[1];
  for (int d = shape.n - 1; d >= 2; --d) {
    stride[d] = step;
    step *= shape[d];
  }
  stride[0] = step;
  return stride;
}

bool lies(const Tensor& t, const Sizes& stride) {
  for (int d = 0; d < t.rank(); ++d)
    if (t.size(d) > 1 && t->stride[d] != stride[d]) return false;
  return true;
}

// The tensor in a type and layout; itself where it already is.
Tensor arranged(const Tensor& t, DType dtype, const Sizes& stride) {
  if (t.dtype() == dtype && lies(t, stride)) return t;
  const Tensor copy = empty_strided(t.shape(), stride, dtype, {});
  copy_raw(copy, t);
  return copy;
}
// Where to write a result that is to end in `out`.
Tensor target(const Tensor& out, DType dtype, const Sizes& stride) {
  if (out.dtype() == dtype && lies(out, stride)) return out;
  return empty_strided(out.shape(), stride, dtype, {});
}
void finish(const Tensor& out, const Tensor& result) {
  if (out.get() != result.get()) copy_raw(out, result);
}

// The numbers of a tensor, in order; `standard` n times when there is none.
template <class T>
std::vector<T> values(const Tensor& t, int64_t n, double standard) {
  std::vector<T> v(static_cast<size_t>(n), static_cast<T>(standard));
  if (!t || n == 0) return v;
  const Tensor plain = empty({n}, type_of<T>);
  copy_raw(plain, packed(t).rank() == 1 ? t : alias(packed(t), {n}, {1}, packed(t)->offset));
  std::copy_n(plain.data<T>(), n, v.begin());
  return v;
}

// An input of batch norm: [N, C, S], or with `columns` [rows, C] where rows = N S.
struct Planes {
  bool columns;
  int64_t samples, channels, places;
  Sizes stride;
  explicit Planes(const Tensor& x) : samples(x.size(0)), channels(x.size(1)), places(1) {
    for (int d = 2; d < x.rank(); ++d) places *= x.size(d);
    const Sizes inside = channels_inside(x.shape());
    columns = places == 1 || (!x.contiguous() && lies(x, inside));
    stride = columns ? inside : row_major(x.shape());
  }
  int64_t count() const { return samples * places; }
  // Rows of a block whose channel sums are taken in type T.
  int64_t block() const {
    return std::clamp<int64_t>(32768 / std::max<int64_t>(1, channels), 1, 512);
  }
};

// Joins the statistics of two parts (Chan and others, 1979).
struct Moments {
  double count = 0, mean = 0, m2 = 0;
  void join(double n, double other_mean, double other_m2) {
    if (n == 0) return;
    const double step = other_mean - mean, all = count + n;
    m2 += other_m2 + step * step * count * n / all;
    mean += step * n / all;
    count = all;
  }
};

template <class S, class T>
std::vector<Moments> channel_moments(const S* x, const Planes& p) {
  std::vector<Moments> m(static_cast<size_t>(p.channels));
  if (!p.columns) {
    parallel_for(p.channels, grain(p.count()), [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c)
        for (int64_t n = 0; n < p.samples; ++n) {
          double mean, m2;
          LEVEL(S, norm_moments, x + (n * p.channels + c) * p.places, p.places, &mean, &m2);
          m[c].join(static_cast<double>(p.places), mean, m2);
        }
    });
    return m;
  }
  const int64_t block = p.block(), rows = p.count(), blocks = (rows + block - 1) / block;
  std::vector<T> part(static_cast<size_t>(3 * blocks * p.channels));
  parallel_for(blocks, grain(block * p.channels), [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      T* const to = part.data() + 3 * b * p.channels;
      LEVEL(S, norm_column_moments, x + b * block * p.channels, std::min(block, rows - b * block),
            p.channels, to, to + p.channels, to + 2 * p.channels);
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
    const auto means = values<double>(c.tensor(3), p.channels, 0);
    const auto variances = values<double>(c.tensor(4), p.channels, 1);
    for (int64_t k = 0; k < p.channels; ++k) {
      mean[k] = static_cast<T>(means[k]);
      rstd[k] = static_cast<T>(1 / std::sqrt(variances[k] + eps));
    }
  }
  std::vector<T> a = values<T>(c.tensor(1), p.channels, 1);
  const std::vector<T> b = values<T>(c.tensor(2), p.channels, 0);
  for (int64_t k = 0; k < p.channels; ++k) a[k] *= rstd[k];
  const S* const from = x.data<S>();
  S* const to = y.data<S>();
  if (p.columns) {
    parallel_for(p.count(), grain(p.channels), [&](int64_t begin, int64_t end) {
      LEVEL(S, norm_column_apply, from + begin * p.channels, to + begin * p.channels, end - begin,
            p.channels, static_cast<const T*>(mean), a.data(), b.data());
    });
  } else {
    parallel_for(p.samples * p.channels, grain(p.places), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t k = i % p.channels;
        LEVEL(S, norm_apply, from + i * p.places, to + i * p.places, p.places, mean[k], a[k], b[k]);
      }
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
  const std::vector<T> w = values<T>(c.tensor(2), p.channels, 1);
  const Tensor means = packed(c.tensor(3)), rstds = packed(c.tensor(4));
  const T *const mean = means.data<T>(), *const rstd = rstds.data<T>();
  const S *const gp = g.data<S>(), *const xp = x.data<S>();
  S* const to = y.data<S>();
  std::vector<double> sum(static_cast<size_t>(p.channels)), dot(static_cast<size_t>(p.channels));
  const int64_t block = p.block(), rows = p.count(), blocks = (rows + block - 1) / block;
  if (!p.columns) {
    parallel_for(p.channels, grain(p.count()), [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k)
        for (int64_t n = 0; n < p.samples; ++n) {
          const int64_t at = (n * p.channels + k) * p.places;
          double s, d;
          LEVEL(S, norm_sums, gp + at, xp + at, p.places, mean[k], &s, &d);
          sum[k] += s;
          dot[k] += d;
        }
    });
  } else {
    std::vector<T> part(static_cast<size_t>(2 * blocks * p.channels));
    parallel_for(blocks, grain(block * p.channels), [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b)
        LEVEL(S, norm_column_sums, gp + b * block * p.channels, xp + b * block * p.channels,
              std::min(block, rows - b * block), p.channels, mean, part.data() + 2 * b * p.channels,
              part.data() + (2 * b + 1) * p.channels);
    });
    for (int64_t b = 0; b < blocks; ++b)
      for (int64_t k = 0; k < p.channels; ++k) {
        sum[k] += static_cast<double>(part[2 * b * p.channels + k]);
        dot[k] += static_cast<double>(part[(2 * b + 1) * p.channels + k]);
      }
  }
  std::vector<T> a(w.size()), b(w.size()), shift(w.size());
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
      LEVEL(S, norm_column_grad, gp + at, xp + at, to + at, end - begin, p.channels, mean,
            static_cast<const T*>(a.data()), static_cast<const T*>(b.data()),
            static_cast<const T*>(shift.data()));
    });
  } else {
    parallel_for(p.samples * p.channels, grain(p.places), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t k = i % p.channels, at = i * p.places;
        LEVEL(S, norm_grad, gp + at, xp + at, to + at, p.places, mean[k], a[k], b[k], shift[k]);
      }
    });
  }
  finish(c.out[0], y);
}

// --- Rows: layer_norm, rms_norm ---

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
  const std::vector<T> w = values<T>(c.tensor(2), r.n, 1), b = values<T>(c.tensor(3), r.n, 0);
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
        LEVEL(T, norm_moments, p, r.n, &m, &m2);
      else if constexpr (sizeof(T) == 4)
        m2 = level_of::norm_squares_f32(p, r.n);
      else
        m2 = level_of::norm_squares_f64(p, r.n);
      mean[i] = static_cast<T>(m);
      rstd[i] = static_cast<T>(1 / std::sqrt(m2 / n + eps));
      LEVEL_ROW(T, norm_row, p, to + i * r.n, r.n, mean[i], rstd[i], wp, bp);
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
  const std::vector<T> w = values<T>(c.tensor(3), r.n, 1);
  const T* const wp = c.tensor(3) ? w.data() : nullptr;
  const Tensor means = packed(c.tensor(4)), rstds = packed(c.tensor(5));
  const T *const mean = means.data<T>(), *const rstd = rstds.data<T>();
  const T *const gp = g.data<T>(), *const xp = x.data<T>();
  T* const to = y.data<T>();
  // Gradients of weight and bias are summed per block of rows, then over blocks in order.
  const int64_t block = std::clamp<int64_t>(32768 / std::max<int64_t>(1, r.n), 1, 128);
  const int64_t blocks = (r.rows + block - 1) / block;
  std::vector<double> sum(static_cast<size_t>(2 * r.n));
  const bool are = are_short(r.rows, r.n);
  if (are) ShortRows<T>{r.rows, r.n, centred, wp}.backward(gp, xp, to, mean, rstd, sum);
  std::vector<T> part(static_cast<size_t>(are ? 0 : 2 * blocks * r.n));
  parallel_for(are ? 0 : blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      T *const dw = part.data() + 2 * k * r.n, *const db = dw + r.n;
      for (int64_t i = k * block; i < std::min(r.rows, (k + 1) * block); ++i)
        LEVEL_ROW(T, norm_row_grad, gp + i * r.n, xp + i * r.n, wp, to + i * r.n, r.n, mean[i],
                  rstd[i], dw, db, centred);
    }
  });
  for (int64_t k = 0; !are && k < blocks; ++k)
    for (int64_t j = 0; j < 2 * r.n; ++j) sum[j] += static_cast<double>(part[2 * k * r.n + j]);
  for (int64_t j = 0; j < r.n; ++j) {
    c.out[1].data<T>()[j] = static_cast<T>(sum[j]);
    c.out[2].data<T>()[j] = static_cast<T>(sum[r.n + j]);
  }
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

template <class T>
void group_norm_typed(Call& c) {
  const Tensor& self = c.tensor(0);
  const Groups k(self, c.integer(1));
  const Sizes stride = row_major(self.shape());
  const Tensor x = arranged(self, type_of<T>, stride);
  const Tensor y = target(c.out[0], type_of<T>, stride);
  const int64_t channels = k.groups * k.inside, run = k.inside * k.places;
  const std::vector<T> w = values<T>(c.tensor(2), channels, 1);
  const std::vector<T> b = values<T>(c.tensor(3), channels, 0);
  const double eps = c.number(4);
  T *const mean = c.out[1].data<T>(), *const rstd = c.out[2].data<T>();
  const T* const from = x.data<T>();
  T* const to = y.data<T>();
  parallel_for(k.samples * k.groups, grain(run), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double m, m2;
      LEVEL(T, norm_moments, from + i * run, run, &m, &m2);
      mean[i] = static_cast<T>(m);
      rstd[i] = static_cast<T>(1 / std::sqrt(m2 / static_cast<double>(run) + eps));
      for (int64_t j = 0; j < k.inside; ++j) {
        const int64_t at = i * run + j * k.places, ch = i % k.groups * k.inside + j;
        LEVEL(T, norm_apply, from + at, to + at, k.places, mean[i], w[ch] * rstd[i], b[ch]);
      }
    }
  });
  finish(c.out[0], y);
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
  const std::vector<T> w = values<T>(c.tensor(3), channels, 1);
  const Tensor means = packed(c.tensor(4)), rstds = packed(c.tensor(5));
  const T *const mean = means.data<T>(), *const rstd = rstds.data<T>();
  const T *const gp = g.data<T>(), *const xp = x.data<T>();
  T* const to = y.data<T>();
  // Sums of every sample's channels: of g, and of g (x - mean).
  std::vector<double> sum(static_cast<size_t>(k.samples * channels)), dot(sum.size());
  parallel_for(k.samples * k.groups, grain(run), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      double s = 0, d = 0;
      for (int64_t j = 0; j < k.inside; ++j) {
        const int64_t at = i * k.inside + j, ch = at % channels;
        LEVEL(T, norm_sums, gp + at * k.places, xp + at * k.places, k.places, mean[i],
              sum.data() + at, dot.data() + at);
        s += static_cast<double>(w[ch]) * sum[at];
        d += static_cast<double>(w[ch]) * dot[at];
      }
      const double r = static_cast<double>(rstd[i]), count = static_cast<double>(run);
      const T b = static_cast<T>(-d * r * r * r / count), shift = static_cast<T>(-s * r / count);
      for (int64_t j = 0; j < k.inside; ++j) {
        const int64_t at = i * k.inside + j, ch = at % channels;
        LEVEL(T, norm_grad, gp + at * k.places, xp + at * k.places, to + at * k.places, k.places,
              mean[i], w[ch] * rstd[i], b, shift);
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

#define TYCHO_TYPED(name, arg)                                                               \
  void name(Call& c) {                                                                       \
    typed(wide(c.tensor(arg).dtype()), [&](auto zero) { name##_typed<decltype(zero)>(c); }); \
  }
TYCHO_TYPED(layer_norm, 0)
TYCHO_TYPED(layer_norm_backward, 1)
TYCHO_TYPED(group_norm, 0)
TYCHO_TYPED(group_norm_backward, 1)
TYCHO_TYPED(window_sum, 0)

BIND_KERNEL(Cpu, "batch_norm_forward", batch_norm);
BIND_KERNEL(Cpu, "batch_norm_backward", batch_norm_backward);
BIND_KERNEL(Cpu, "row_norm", layer_norm);
BIND_KERNEL(Cpu, "row_norm_backward", layer_norm_backward);
BIND_KERNEL(Cpu, "group_norm_forward", group_norm);
BIND_KERNEL(Cpu, "group_norm_backward", group_norm_backward);
BIND_KERNEL(Cpu, "window_sum", window_sum);

}  // namespace tycho::cpu
