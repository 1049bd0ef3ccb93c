// layer_norm and rms_norm on the CPU (ops/nn says what they compute): row-major, and in
// float32 or float64; bfloat16 is read as it lies.
#include <cmath>
#include <optional>
#include <vector>

#include "engine/base/parallel.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/nn/norm_level.h"
#include "engine/cpu/nn/norm_short.h"
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

constexpr int64_t kRowWork = 32;  // what a row costs besides its elements, in elements

// Rows of another type than S that lie side by side are brought into it one at a time.
template <class S>
bool goes_by_row(const RowParts& p, std::initializer_list<Tensor> all) {
  bool by_row = p.whole() && !are_short(p.rows, p.n);
  for (const Tensor& t : all)
    by_row = by_row && is_floating(t.dtype()) && dtype_size(t.dtype()) == 2 && t.contiguous();
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

// Weights as the rows' kernels read them: in T, or in bfloat16 as the rows themselves.
template <class S, class T>
class RowWeights {
 public:
  RowWeights(const Tensor& w, const Tensor& b, int64_t n) : n_(n) {
    const auto kept = [](const Tensor& t) {
      return !t || (t.dtype() == DType::BFloat16 && t.contiguous());
    };
    as_rows_ = sizeof(S) == 2 && kept(w) && kept(b);
    w_ = at(w, &own_[0]), b_ = at(b, &own_[1]);
  }
  // Calls f(w, b) with their elements from `at` on; null where there are none.
  template <class F>
  void from(int64_t at, F&& f) const {
    if constexpr (sizeof(S) == 2)
      if (as_rows_) return f(step<uint16_t>(w_, at), step<uint16_t>(b_, at));
    f(step<T>(w_, at), step<T>(b_, at));
  }
  const T* wide() const { return static_cast<const T*>(w_); }  // of rows in T

 private:
  const void* at(const Tensor& t, std::optional<Numbers<T>>* own) const {
    if (!t) return nullptr;
    if (as_rows_) return t.data();
    own->emplace(t, n_, 0);
    return (*own)->data();
  }
  template <class W>
  static const W* step(const void* p, int64_t at) {
    return p ? static_cast<const W*>(p) + at : nullptr;
  }
  int64_t n_;
  bool as_rows_;
  std::optional<Numbers<T>> own_[2];
  const void *w_, *b_;
};

#define NORM_ROW_LEVEL(S, W, name, ...)       \
  do {                                        \
    if constexpr (sizeof(W) == 2)             \
      level_of::name##_bf16_all(__VA_ARGS__); \
    else                                      \
      NORM_LEVEL_16(S, name, __VA_ARGS__);    \
  } while (0)

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
  const RowWeights<S, T> weights(c.tensor(2), c.tensor(3), r.n);
  T *const mean = c.out[1].data<T>(), *const rstd = c.out[2].data<T>();
  const S* const from = by_row ? nullptr : x.data<S>();
  S* const to = by_row ? nullptr : y.data<S>();
  if constexpr (std::is_same_v<S, T>)
    if (are_short(r.rows, r.n)) {
      weights.from(0, [&](const T* w, const T* b) {
        ShortRows<T>{r.rows, r.n, centred, w}.forward(from, to, b, mean, rstd, eps);
      });
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
    weights.from(at, [&]<class W>(const W* w, const W* b) {
      NORM_ROW_LEVEL(S, W, norm_row, in, out, n, mean[row], rstd[row], w, b);
    });
  };
  const auto apply = [&](int64_t row, int64_t at, int64_t n) {
    result(row, at, n, from + row * r.n + at, to + row * r.n + at);
  };
  if (by_row) {
    parallel_for(r.rows, grain(r.n + kRowWork), [&](int64_t begin, int64_t end) {
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
    parallel_for(r.rows, grain(r.n + kRowWork), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        keep(row, moments(from + row * r.n, r.n));
        apply(row, 0, r.n);
      }
    });
    return finish(c.out[0], y);
  }
  p.each_row([&](int64_t row) {
    keep(row,
         p.joined(
             Moments(), [&](int64_t at, int64_t n) { return moments(from + row * r.n + at, n); },
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
  const RowWeights<S, T> weights(c.tensor(3), Tensor(), r.n);
  const Tensor means = packed(c.tensor(4)), rstds = packed(c.tensor(5));
  const T *const mean = means.data<T>(), *const rstd = rstds.data<T>();
  const S *const gp = by_row ? nullptr : g.data<S>(), *const xp = by_row ? nullptr : x.data<S>();
  S* const to = by_row ? nullptr : y.data<S>();
  T *const weight = c.out[1].data<T>(), *const bias = c.out[2].data<T>();
  if constexpr (std::is_same_v<S, T>)
    if (are_short(r.rows, r.n)) {
      std::vector<double> sum(static_cast<size_t>(2 * r.n));
      ShortRows<T>{r.rows, r.n, centred, weights.wide()}.backward(gp, xp, to, mean, rstd, sum);
      for (int64_t j = 0; j < r.n; ++j) {
        weight[j] = static_cast<T>(sum[static_cast<size_t>(j)]);
        bias[j] = static_cast<T>(sum[static_cast<size_t>(r.n + j)]);
      }
      return finish(c.out[0], y);
    }
  // Of elements [at, at + n) of a row, which begin at g_at and x_at.
  const auto sums_at = [&](int64_t row, int64_t at, int64_t n, const S* g_at, const S* x_at) {
    Sums s;
    weights.from(at, [&]<class W>(const W* w, const W*) {
      NORM_ROW_LEVEL(S, W, norm_row_sums, g_at, x_at, w, n, mean[row], &s.sum, &s.dot);
    });
    return s;
  };
  const auto apply_at = [&](int64_t row, int64_t at, int64_t n, const Sums& s, T* dw, T* db,
                            const S* g_at, const S* x_at, S* y_at) {
    const double k = static_cast<double>(rstd[row]), count = static_cast<double>(r.n);
    const T b = static_cast<T>(-s.dot * k * k * k / count),
            shift = centred ? static_cast<T>(-s.sum * k / count) : T(0);
    weights.from(at, [&]<class W>(const W* w, const W*) {
      NORM_ROW_LEVEL(S, W, norm_row_grad, g_at, x_at, w, y_at, n, mean[row], rstd[row], b, shift,
                     dw, db);
    });
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

BIND_KERNEL(Cpu, "row_norm", layer_norm);
BIND_KERNEL(Cpu, "row_norm_backward", layer_norm_backward);

}  // namespace tycho::cpu
