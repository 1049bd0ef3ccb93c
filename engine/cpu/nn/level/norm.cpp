// Statistics and affine maps of the normalisations, on lanes. Sums run in blocks of a few thousand
// elements, which stay in the first-level cache for a second pass; blocks are joined in double.
#include "engine/cpu/nn/norm.h"

#include "engine/cpu/lanes/storage.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

constexpr int64_t kBlock = 4096;

template <int N>
struct Few {};

// The sum over n elements of what f(load) makes of each lane; load(pointer, pad) reads a lane, of
// which elements that are not there are `pad`. Four lanes are summed apart, to hide the latency of
// additions and to lose fewer digits.
template <class T, class F>
TYCHO_INLINE T sum_lanes(int64_t n, F f) {
  constexpr int size = Lane<T>::size;
  Lane<T> a(0), b(0), c(0), d(0);
  int64_t i = 0;
  const auto whole = [](const auto* p, T) { return get(p); };
  for (; i + 4 * size <= n; i += 4 * size) {
    a += f(i, whole);
    b += f(i + size, whole);
    c += f(i + 2 * size, whole);
    d += f(i + 3 * size, whole);
  }
  for (; i + size <= n; i += size) a += f(i, whole);
  if (i < n) {
    const int64_t rest = n - i;
    b += f(i, [rest](const auto* p, T pad) {
      return select(first<T>(static_cast<int>(rest)), get_some(p, rest, {}), Lane<T>(pad));
    });
  }
  return total((a + b) + (c + d));
}

// Calls f(i, load, store) for every lane of n elements.
template <class T, class F>
TYCHO_INLINE void map_lanes(int64_t n, F f) {
  constexpr int size = Lane<T>::size;
  int64_t i = 0;
  for (; i + size <= n; i += size)
    f(
        i, [](const auto* p) { return get(p); }, [](Lane<T> v, auto* p) { put(v, p); });
  if (i == n) return;
  const int64_t rest = n - i;
  f(
      i, [rest](const auto* p) { return get_some(p, rest, {}); },
      [rest](Lane<T> v, auto* p) { put_some(v, p, rest); });
}

template <class S, class T = In<S>>
void moments(const S* x, int64_t n, double* mean, double* m2) {
  double all = 0, squares = 0;  // of the elements before this block
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t m = n - at < kBlock ? n - at : kBlock;
    const S* const p = x + at;
    const T sum = sum_lanes<T>(m, [&](int64_t i, auto load) { return load(p + i, T(0)); });
    const T middle = sum / static_cast<T>(m);
    Lane<T> apart(0);  // the sum of distances: what the rounding of `middle` lost
    const T around = sum_lanes<T>(m, [&](int64_t i, auto load) {
      const Lane<T> d = load(p + i, middle) - Lane<T>(middle);
      apart += d;
      return d * d;
    });
    const double off = static_cast<double>(total(apart)) / static_cast<double>(m);
    const double block_mean = static_cast<double>(middle) + off;
    if (at == 0) {
      all = block_mean;
      squares = static_cast<double>(around) - off * off * static_cast<double>(m);
      continue;
    }
    const double step = block_mean - all, seen = static_cast<double>(at);
    squares += static_cast<double>(around) - off * off * static_cast<double>(m) +
               step * step * seen * static_cast<double>(m) / static_cast<double>(at + m);
    all += step * static_cast<double>(m) / static_cast<double>(at + m);
  }
  *mean = all;
  *m2 = squares;
}

template <class S, class T = In<S>>
double squares(const S* x, int64_t n) {
  double all = 0;
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t m = n - at < kBlock ? n - at : kBlock;
    all += static_cast<double>(sum_lanes<T>(m, [&](int64_t i, auto load) {
      const Lane<T> v = load(x + at + i, T(0));
      return v * v;
    }));
  }
  return all;
}

template <class S, class T = In<S>>
void apply(const S* x, S* y, int64_t n, T mean, T a, T b) {
  map_lanes<T>(n, [&](int64_t i, auto load, auto store) {
    store(fma(load(x + i) - Lane<T>(mean), Lane<T>(a), Lane<T>(b)), y + i);
  });
}

template <class S, class W, class T = In<S>>
void row(const S* x, S* y, int64_t n, T mean, T rstd, const W* w, const W* b) {
  if (w && b)
    map_lanes<T>(n, [&](int64_t i, auto load, auto store) {
      store(fma((load(x + i) - Lane<T>(mean)) * Lane<T>(rstd), load(w + i), load(b + i)), y + i);
    });
  else if (w)
    map_lanes<T>(n, [&](int64_t i, auto load, auto store) {
      store((load(x + i) - Lane<T>(mean)) * Lane<T>(rstd) * load(w + i), y + i);
    });
  else
    map_lanes<T>(n, [&](int64_t i, auto load, auto store) {
      const Lane<T> v = (load(x + i) - Lane<T>(mean)) * Lane<T>(rstd);
      store(b ? v + load(b + i) : v, y + i);
    });
}

template <class S, class T = In<S>>
void sums(const S* g, const S* x, int64_t n, T mean, double* sum, double* dot) {
  double s = 0, d = 0;
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t m = n - at < kBlock ? n - at : kBlock;
    Lane<T> only(0);
    const T product = sum_lanes<T>(m, [&](int64_t i, auto load) {
      const Lane<T> v = load(g + at + i, T(0));
      only += v;
      return v * (load(x + at + i, mean) - Lane<T>(mean));
    });
    s += static_cast<double>(total(only));
    d += static_cast<double>(product);
  }
  *sum = s;
  *dot = d;
}

template <class S, class T = In<S>>
void grad(const S* g, const S* x, S* y, int64_t n, T mean, T a, T b, T c) {
  map_lanes<T>(n, [&](int64_t i, auto load, auto store) {
    const Lane<T> v = fma(load(x + i) - Lane<T>(mean), Lane<T>(b), Lane<T>(c));
    store(fma(load(g + i), Lane<T>(a), v), y + i);
  });
}

template <class S, class W, class T = In<S>>
void row_sums(const S* g, const S* x, const W* w, int64_t n, T mean, double* sum, double* dot) {
  double s = 0, d = 0;
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t m = n - at < kBlock ? n - at : kBlock;
    Lane<T> only(0);
    d += static_cast<double>(sum_lanes<T>(m, [&](int64_t i, auto load) {
      Lane<T> v = load(g + at + i, T(0));
      if (w) v = v * load(w + at + i, T(0));
      only += v;
      return v * (load(x + at + i, mean) - Lane<T>(mean));
    }));
    s += static_cast<double>(total(only));
  }
  *sum = s;
  *dot = d;
}

template <class S, class W, class T = In<S>>
void row_grad(const S* g, const S* x, const W* w, S* y, int64_t n, T mean, T rstd, T b, T c, T* dw,
              T* db) {
  map_lanes<T>(n, [&](int64_t i, auto load, auto store) {
    const Lane<T> gv = load(g + i), xc = load(x + i) - Lane<T>(mean);
    const Lane<T> h = w ? gv * load(w + i) : gv;
    store(fma(h, Lane<T>(rstd), fma(xc, Lane<T>(b), Lane<T>(c))), y + i);
    store(fma(gv, xc * Lane<T>(rstd), load(dw + i)), dw + i);
    store(load(db + i) + gv, db + i);
  });
}

// Calls f(channel, lanes (a constant), whether they are whole, load, store) for groups of four
// lanes, for the lanes left, and for the channels left. Sums over rows then stay in registers.
template <class T, class F>
TYCHO_INLINE void each_group(int64_t n, F f) {
  constexpr int size = Lane<T>::size;
  const auto load = [](const auto* p) { return get(p); };
  const auto store = [](Lane<T> v, auto* p) { put(v, p); };
  int64_t j = 0;
  for (; j + 4 * size <= n; j += 4 * size) f(j, Few<4>(), load, store);
  for (; j + size <= n; j += size) f(j, Few<1>(), load, store);
  if (j == n) return;
  const int64_t rest = n - j;
  f(
      j, Few<1>(), [rest](const auto* p) { return get_some(p, rest, {}); },
      [rest](Lane<T> v, auto* p) { put_some(v, p, rest); });
}

template <class S, class T = In<S>>
void column_moments(const S* x, int64_t rows, int64_t n, T* mean, T* apart, T* m2) {
  using L = Lane<T>;
  each_group<T>(n, [&]<int N>(int64_t j, Few<N>, auto load, auto store) {
    L sum[N], off[N], squares[N];
#pragma GCC unroll 4
    for (int k = 0; k < N; ++k) sum[k] = off[k] = squares[k] = L(0);
    for (int64_t r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (int k = 0; k < N; ++k) sum[k] += load(x + r * n + j + k * L::size);
#pragma GCC unroll 4
    for (int k = 0; k < N; ++k) sum[k] = sum[k] / L(static_cast<T>(rows));
    // `apart`, the sum of distances, is what the rounding of the mean lost.
    for (int64_t r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (int k = 0; k < N; ++k) {
        const L d = load(x + r * n + j + k * L::size) - sum[k];
        off[k] += d;
        squares[k] = fma(d, d, squares[k]);
      }
#pragma GCC unroll 4
    for (int k = 0; k < N; ++k) {
      store(sum[k], mean + j + k * L::size);
      store(off[k], apart + j + k * L::size);
      store(squares[k], m2 + j + k * L::size);
    }
  });
}

template <class S, class T = In<S>>
void column_apply(const S* x, S* y, int64_t rows, int64_t n, const T* mean, const T* a,
                  const T* b) {
  for (int64_t r = 0; r < rows; ++r, x += n, y += n)
    map_lanes<T>(n, [&](int64_t j, auto load, auto store) {
      store(fma(load(x + j) - load(mean + j), load(a + j), load(b + j)), y + j);
    });
}

template <class S, class T = In<S>>
void column_sums(const S* g, const S* x, int64_t rows, int64_t n, const T* mean, T* sum, T* dot) {
  using L = Lane<T>;
  each_group<T>(n, [&]<int N>(int64_t j, Few<N>, auto load, auto store) {
    L all[N], products[N], middle[N];
#pragma GCC unroll 4
    for (int k = 0; k < N; ++k) {
      all[k] = products[k] = L(0);
      middle[k] = load(mean + j + k * L::size);
    }
    for (int64_t r = 0; r < rows; ++r)
#pragma GCC unroll 4
      for (int k = 0; k < N; ++k) {
        const int64_t at = r * n + j + k * L::size;
        const L v = load(g + at);
        all[k] += v;
        products[k] = fma(v, load(x + at) - middle[k], products[k]);
      }
#pragma GCC unroll 4
    for (int k = 0; k < N; ++k) {
      store(all[k], sum + j + k * L::size);
      store(products[k], dot + j + k * L::size);
    }
  });
}

template <class S, class T = In<S>>
void column_grad(const S* g, const S* x, S* y, int64_t rows, int64_t n, const T* mean, const T* a,
                 const T* b, const T* c) {
  for (int64_t r = 0; r < rows; ++r, g += n, x += n, y += n)
    map_lanes<T>(n, [&](int64_t j, auto load, auto store) {
      const Lane<T> v = fma(load(x + j) - load(mean + j), load(b + j), load(c + j));
      store(fma(load(g + j), load(a + j), v), y + j);
    });
}

}  // namespace

#define TYCHO_NORM(S, T, suffix)                                                                   \
  void norm_moments_##suffix(const S* x, int64_t n, double* mean, double* m2) {                    \
    moments(x, n, mean, m2);                                                                       \
  }                                                                                                \
  void norm_apply_##suffix(const S* x, S* y, int64_t n, T mean, T a, T b) {                        \
    apply(x, y, n, mean, a, b);                                                                    \
  }                                                                                                \
  void norm_sums_##suffix(const S* g, const S* x, int64_t n, T mean, double* sum, double* dot) {   \
    sums(g, x, n, mean, sum, dot);                                                                 \
  }                                                                                                \
  void norm_grad_##suffix(const S* g, const S* x, S* y, int64_t n, T mean, T a, T b, T c) {        \
    grad(g, x, y, n, mean, a, b, c);                                                               \
  }                                                                                                \
  void norm_runs_moments_##suffix(const S* x, int64_t n, int64_t runs, double* mean, double* m2) { \
    for (int64_t r = 0; r < runs; ++r) moments(x + r * n, n, mean + r, m2 + r);                    \
  }                                                                                                \
  void norm_runs_apply_##suffix(const S* x, S* y, int64_t n, int64_t runs, const T* mean,          \
                                const T* a, const T* b) {                                          \
    for (int64_t r = 0; r < runs; ++r) apply(x + r * n, y + r * n, n, mean[r], a[r], b[r]);        \
  }                                                                                                \
  void norm_runs_sums_##suffix(const S* g, const S* x, int64_t n, int64_t runs, const T* mean,     \
                               double* sum, double* dot) {                                         \
    for (int64_t r = 0; r < runs; ++r) sums(g + r * n, x + r * n, n, mean[r], sum + r, dot + r);   \
  }                                                                                                \
  void norm_runs_grad_##suffix(const S* g, const S* x, S* y, int64_t n, int64_t runs,              \
                               const T* mean, const T* a, const T* b, const T* c) {                \
    for (int64_t r = 0; r < runs; ++r)                                                             \
      grad(g + r * n, x + r * n, y + r * n, n, mean[r], a[r], b[r], c[r]);                         \
  }                                                                                                \
  void norm_column_moments_##suffix(const S* x, int64_t rows, int64_t n, T* mean, T* apart,        \
                                    T* m2) {                                                       \
    column_moments(x, rows, n, mean, apart, m2);                                                   \
  }                                                                                                \
  void norm_column_apply_##suffix(const S* x, S* y, int64_t rows, int64_t n, const T* mean,        \
                                  const T* a, const T* b) {                                        \
    column_apply(x, y, rows, n, mean, a, b);                                                       \
  }                                                                                                \
  void norm_column_sums_##suffix(const S* g, const S* x, int64_t rows, int64_t n, const T* mean,   \
                                 T* sum, T* dot) {                                                 \
    column_sums(g, x, rows, n, mean, sum, dot);                                                    \
  }                                                                                                \
  void norm_column_grad_##suffix(const S* g, const S* x, S* y, int64_t rows, int64_t n,            \
                                 const T* mean, const T* a, const T* b, const T* c) {              \
    column_grad(g, x, y, rows, n, mean, a, b, c);                                                  \
  }
TYCHO_NORM(float, float, f32)
TYCHO_NORM(double, double, f64)
TYCHO_NORM(uint16_t, float, bf16)

#define TYCHO_NORM_ROWS(S, T, W, suffix)                                                           \
  void norm_row_##suffix(const S* x, S* y, int64_t n, T mean, T rstd, const W* w, const W* b) {    \
    row(x, y, n, mean, rstd, w, b);                                                                \
  }                                                                                                \
  void norm_row_sums_##suffix(const S* g, const S* x, const W* w, int64_t n, T mean, double* sum,  \
                              double* dot) {                                                       \
    row_sums(g, x, w, n, mean, sum, dot);                                                          \
  }                                                                                                \
  void norm_row_grad_##suffix(const S* g, const S* x, const W* w, S* y, int64_t n, T mean, T rstd, \
                              T b, T c, T* dw, T* db) {                                            \
    row_grad(g, x, w, y, n, mean, rstd, b, c, dw, db);                                             \
  }
TYCHO_NORM_ROWS(float, float, float, f32)
TYCHO_NORM_ROWS(double, double, double, f64)
TYCHO_NORM_ROWS(uint16_t, float, float, bf16)
TYCHO_NORM_ROWS(uint16_t, float, uint16_t, bf16_all)

double norm_squares_f32(const float* x, int64_t n) { return squares(x, n); }
double norm_squares_f64(const double* x, int64_t n) { return squares(x, n); }
double norm_squares_bf16(const uint16_t* x, int64_t n) { return squares(x, n); }

}  // namespace tycho::cpu::TYCHO_LEVEL
