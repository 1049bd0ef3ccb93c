// layer_norm, rms_norm and group_norm on the CPU (ops/nn says what they compute): row-major, and in
// float32 or float64; the first two read bfloat16 as it lies.
#include <cmath>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/nn/norm_level.h"
#include "engine/cpu/nn/norm_short.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/row_parts.h"
#include "engine/cpu/scratch.h"
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

// Of a row or a group: the sums of g w and of g w (x - mean).
struct Sums {
  double sum = 0, dot = 0;
  void join(const Sums& s) { sum += s.sum, dot += s.dot; }
};
template <class T>
void joins(T& all, const T& more) {
  all.join(more);
}

// Rows of another type than S that lie side by side are brought into it one at a time.
template <class S>
bool goes_by_row(const RowParts& p, std::initializer_list<Tensor> all) {
  bool by_row = p.whole() && !are_short(p.rows, p.n);
  for (const Tensor& t : all) by_row = by_row && is_floating(t.dtype()) && dtype_size(t.dtype()) == 2 && t.contiguous();
  return by_row && sizeof(S) == 4;
}
void load_row(const Tensor& t, int64_t row, int64_t n, void* to) {
  level_of::load_tile(static_cast<int>(Lanes::F32), static_cast<int>(t.dtype()), to,
                      t.data() + row * n * dtype_size(t.dtype()), 1, n);
}
void store_row(const Tensor& t, int64_t row, int64_t n, const void* from) {
  level_of::store_tile(static_cast<int>(Lanes::F32), static_cast<int>(t.dtype()),
                       t.data() + row * n * dtype_size(t.dtype()), from, 1, n);
}

// S is how images lie in memory, T what is computed in.
template <class S, class T>
void layer_norm_typed(Call& c) {
  const Tensor& self = c.tensor(0);
  const Rows r(self, c.count(1));
  const bool centred = c.flag(5);
  const double eps = c.number(4);
  const Sizes stride = row_major(self.shape());
  const RowParts p(r.rows, r.n);
  const bool by_row = goes_by_row<S>(p, {self, c.out[0]});
  const Tensor x = by_row ? self : arranged(self, type_of<S>, stride);
  const Tensor y = by_row ? c.out[0] : target(c.out[0], type_of<S>, stride);
  const Numbers<T> w(c.tensor(2), c.tensor(2) ? r.n : 0, 1),
      b(c.tensor(3), c.tensor(3) ? r.n : 0, 0);
  const T* const wp = c.tensor(2) ? w.data() : nullptr;
  const T* const bp = c.tensor(3) ? b.data() : nullptr;
  T *const mean = c.out[1].data<T>(), *const rstd = c.out[2].data<T>();
  const S* const from = by_row ? nullptr : x.data<S>();
  S* const to = by_row ? nullptr : y.data<S>();
  if constexpr (std::is_same_v<S, T>)
    if (are_short(r.rows, r.n)) {
      ShortRows<T>{r.rows, r.n, centred, wp}.forward(from, to, bp, mean, rstd, eps);
      return finish(c.out[0], y);
    }
  const auto moments = [&](const S* run, int64_t n) {
    Moments m;
    m.count = static_cast<double>(n);
    if (centred)
      NORM_LEVEL_16(S, norm_moments, run, n, &m.mean, &m.m2);
    else if constexpr (sizeof(S) == 2)
      m.m2 = level_of::norm_squares_bf16(run, n);
    else if constexpr (sizeof(S) == 4)
      m.m2 = level_of::norm_squares_f32(run, n);
    else
      m.m2 = level_of::norm_squares_f64(run, n);
    return m;
  };
  const auto keep = [&](int64_t row, const Moments& m) {
    mean[row] = static_cast<T>(m.mean);
    rstd[row] = static_cast<T>(1 / std::sqrt(m.m2 / static_cast<double>(r.n) + eps));
  };
  const auto result = [&](int64_t row, int64_t at, int64_t n, const S* in, S* out) {
    NORM_LEVEL_16(S, norm_row, in, out, n, mean[row], rstd[row], wp ? wp + at : wp,
                  bp ? bp + at : bp);
  };
  const auto apply = [&](int64_t row, int64_t at, int64_t n) {
    result(row, at, n, from + row * r.n + at, to + row * r.n + at);
  };
  if (by_row) {
    parallel_for(r.rows, grain(r.n), [&](int64_t begin, int64_t end) {
      const Scratch scratch(static_cast<size_t>(r.n) * sizeof(S));
      S* const run = reinterpret_cast<S*>(scratch.data());
      for (int64_t row = begin; row < end; ++row) {
        load_row(x, row, r.n, run);
        keep(row, moments(run, r.n));
        result(row, 0, r.n, run, run);
        store_row(y, row, r.n, run);
      }
    });
    return;
  }
  if (p.whole()) {
    parallel_for(r.rows, grain(r.n), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        keep(row, moments(from + row * r.n, r.n));
        apply(row, 0, r.n);
      }
    });
    return finish(c.out[0], y);
  }
  p.each_row([&](int64_t row) {
    keep(row, p.joined(
                  Moments(),
                  [&](int64_t at, int64_t n) { return moments(from + row * r.n + at, n); },
                  joins<Moments>));
    p.each([&](int64_t at, int64_t n) { apply(row, at, n); });
  });
  finish(c.out[0], y);
}

template <class S, class T>
void layer_norm_backward_typed(Call& c) {
  const Tensor& self = c.tensor(1);
  const Rows r(self, c.count(2));
  const bool centred = c.flag(6);
  const Sizes stride = row_major(self.shape());
  const RowParts p(r.rows, r.n);
  const bool by_row = goes_by_row<S>(p, {c.tensor(0), self, c.out[0]});
  const Tensor g = by_row ? c.tensor(0) : arranged(c.tensor(0), type_of<S>, stride);
  const Tensor x = by_row ? self : arranged(self, type_of<S>, stride);
  const Tensor y = by_row ? c.out[0] : target(c.out[0], type_of<S>, stride);
  const Numbers<T> w(c.tensor(3), c.tensor(3) ? r.n : 0, 1);
  const T* const wp = c.tensor(3) ? w.data() : nullptr;
  const Tensor means = packed(c.tensor(4)), rstds = packed(c.tensor(5));
  const T *const mean = means.data<T>(), *const rstd = rstds.data<T>();
  const S *const gp = by_row ? nullptr : g.data<S>(), *const xp = by_row ? nullptr : x.data<S>();
  S* const to = by_row ? nullptr : y.data<S>();
  T *const weight = c.out[1].data<T>(), *const bias = c.out[2].data<T>();
  if constexpr (std::is_same_v<S, T>)
    if (are_short(r.rows, r.n)) {
      std::vector<double> sum(static_cast<size_t>(2 * r.n));
      ShortRows<T>{r.rows, r.n, centred, wp}.backward(gp, xp, to, mean, rstd, sum);
      for (int64_t j = 0; j < r.n; ++j) {
        weight[j] = static_cast<T>(sum[static_cast<size_t>(j)]);
        bias[j] = static_cast<T>(sum[static_cast<size_t>(r.n + j)]);
      }
      return finish(c.out[0], y);
    }
  // Of elements [at, at + n) of a row, which begin at g_at and x_at.
  const auto sums_at = [&](int64_t row, int64_t at, int64_t n, const S* g_at, const S* x_at) {
    Sums s;
    NORM_LEVEL_16(S, norm_row_sums, g_at, x_at, wp ? wp + at : wp, n, mean[row], &s.sum, &s.dot);
    return s;
  };
  const auto apply_at = [&](int64_t row, int64_t at, int64_t n, const Sums& s, T* dw, T* db,
                            const S* g_at, const S* x_at, S* y_at) {
    const double k = static_cast<double>(rstd[row]), count = static_cast<double>(r.n);
    const T b = static_cast<T>(-s.dot * k * k * k / count),
            shift = centred ? static_cast<T>(-s.sum * k / count) : T(0);
    NORM_LEVEL_16(S, norm_row_grad, g_at, x_at, wp ? wp + at : wp, y_at, n, mean[row], rstd[row], b,
                  shift, dw, db);
    if (centred && r.n == 1) y_at[0] = 0;  // one number less its mean is always 0
  };
  const auto sums = [&](int64_t row, int64_t at, int64_t n) {
    return sums_at(row, at, n, gp + row * r.n + at, xp + row * r.n + at);
  };
  const auto apply = [&](int64_t row, int64_t at, int64_t n, const Sums& s, T* dw, T* db) {
    const int64_t first = row * r.n + at;
    apply_at(row, at, n, s, dw, db, gp + first, xp + first, to + first);
  };
  if (!p.whole()) {  // every part of the weight's gradient has its own task
    std::vector<Sums> all(static_cast<size_t>(r.rows));
    p.each_row([&](int64_t row) {
      all[row] = p.joined(
          Sums(), [&](int64_t at, int64_t n) { return sums(row, at, n); }, joins<Sums>);
    });
    std::fill_n(weight, r.n, T(0));
    std::fill_n(bias, r.n, T(0));
    p.each([&](int64_t at, int64_t n) {
      for (int64_t row = 0; row < r.rows; ++row)
        apply(row, at, n, all[row], weight + at, bias + at);
    });
    return finish(c.out[0], y);
  }
  // Gradients of weight and bias are summed per block of rows, then over blocks in order.
  const int64_t block = std::clamp<int64_t>(32768 / std::max<int64_t>(1, r.n), 1, 128);
  const int64_t blocks = (r.rows + block - 1) / block;
  const Tensor parts = empty({blocks, 2 * r.n}, type_of<T>);
  parallel_for(blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      T *const dw = parts.data<T>() + 2 * k * r.n, *const db = dw + r.n;
      std::fill_n(dw, 2 * r.n, T(0));
      const Scratch scratch(by_row ? static_cast<size_t>(2 * r.n) * sizeof(S) : 0);
      S *const g_row = reinterpret_cast<S*>(scratch.data()), *const x_row = g_row + r.n;
      for (int64_t i = k * block; i < std::min(r.rows, (k + 1) * block); ++i) {
        if (!by_row) {
          apply(i, 0, r.n, sums(i, 0, r.n), dw, db);
          continue;
        }
        load_row(g, i, r.n, g_row);
        load_row(x, i, r.n, x_row);
        apply_at(i, 0, r.n, sums_at(i, 0, r.n, g_row, x_row), dw, db, g_row, x_row, x_row);
        store_row(y, i, r.n, x_row);
      }
    }
  });
  const Tensor all = op<"sum">(parts, Sizes{0}, false, type_of<T>);
  std::copy_n(all.data<T>(), r.n, weight);
  std::copy_n(all.data<T>() + r.n, r.n, bias);
  if (!by_row) finish(c.out[0], y);
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
  const auto moments = [&](const T* at, int64_t n) {
    Moments m;
    m.count = static_cast<double>(n);
    NORM_LEVEL(T, norm_moments, at, n, &m.mean, &m.m2);
    return m;
  };
  const auto keep = [&](int64_t i, const Moments& m) {
    mean[i] = static_cast<T>(m.mean);
    rstd[i] = static_cast<T>(1 / std::sqrt(m.m2 / static_cast<double>(run) + eps));
  };
  // Channel j of group i, from place `first` on.
  const auto apply = [&](int64_t i, int64_t j, int64_t first, int64_t n) {
    const int64_t at = i * run + j * k.places + first, ch = i % k.groups * k.inside + j;
    NORM_LEVEL(T, norm_apply, from + at, to + at, n, mean[i], w[ch] * rstd[i], b[ch]);
  };
  if (const RowParts p(k.samples * k.groups, run); !few && !p.whole()) {
    p.each_row([&](int64_t i) {
      keep(i, p.joined(
                  Moments(),
                  [&](int64_t at, int64_t n) { return moments(from + i * run + at, n); },
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
        NORM_LEVEL(T, norm_row, from + i * run, to + i * run, run, mean[i], rstd[i],
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
                   rstd[i], static_cast<T>(-d * r * r * r / count),
                   static_cast<T>(-s * r / count), sum + first, sum + all + first);
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
  const int64_t groups = k.samples * k.groups;
  std::vector<Sums> of(static_cast<size_t>(groups));
  const auto plane_sums = [&](int64_t at) {
    NORM_LEVEL(T, norm_sums, gp + at * k.places, xp + at * k.places, k.places, mean[at / k.inside],
               sum.data() + at, dot.data() + at);
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
    NORM_LEVEL(T, norm_grad, gp + at * k.places, xp + at * k.places, to + at * k.places, k.places,
               mean[i], w[at % channels] * rstd[i], static_cast<T>(-of[i].dot * r * r * r / count),
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

}  // namespace

// bfloat16 is read and written as it lies, unless rows are so short that they are turned.
void layer_norm(Call& c) {
  const Rows r(c.tensor(0), c.count(1));
  if (c.tensor(0).dtype() == DType::BFloat16 && !are_short(r.rows, r.n))
    return layer_norm_typed<uint16_t, float>(c);
  typed(wide(c.tensor(0).dtype()),
        [&](auto zero) { layer_norm_typed<decltype(zero), decltype(zero)>(c); });
}
void layer_norm_backward(Call& c) {
  const Rows r(c.tensor(1), c.count(2));
  if (c.tensor(1).dtype() == DType::BFloat16 && !are_short(r.rows, r.n))
    return layer_norm_backward_typed<uint16_t, float>(c);
  typed(wide(c.tensor(1).dtype()),
        [&](auto zero) { layer_norm_backward_typed<decltype(zero), decltype(zero)>(c); });
}
void group_norm(Call& c) {
  typed(wide(c.tensor(0).dtype()), [&](auto zero) { group_norm_typed<decltype(zero)>(c); });
}
void group_norm_backward(Call& c) {
  typed(wide(c.tensor(1).dtype()),
        [&](auto zero) { group_norm_backward_typed<decltype(zero)>(c); });
}

BIND_KERNEL(Cpu, "row_norm", layer_norm);
BIND_KERNEL(Cpu, "row_norm_backward", layer_norm_backward);
BIND_KERNEL(Cpu, "group_norm_forward", group_norm);
BIND_KERNEL(Cpu, "group_norm_backward", group_norm_backward);

}  // namespace tycho::cpu
