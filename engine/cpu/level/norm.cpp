// Statistics and affine maps of the normalisations, on lanes. Sums run in blocks of a few thousand
// elements, which stay in the first-level cache for a second pass; blocks are joined in double.
#include "engine/cpu/norm.h"

#include "engine/cpu/level/vec.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

constexpr int64_t kBlock = 4096;

template <class T>
TYCHO_INLINE Lane<T> load_some(const T* p, int64_t n, T pad) {
  T room[Lane<T>::size];
  for (int k = 0; k < Lane<T>::size; ++k) room[k] = k < n ? p[k] : pad;
  return Lane<T>::load(room);
}
template <class T>
TYCHO_INLINE T total(Lane<T> x) {
  T room[Lane<T>::size], sum = 0;
  x.store(room);
  for (int k = 0; k < Lane<T>::size; ++k) sum += room[k];
  return sum;
}

// The sum over n elements of what f(load) makes of each lane; load(pointer, pad) reads a lane. Four
// lanes are summed apart, to hide the latency of additions and to lose fewer digits.
template <class T, class F>
TYCHO_INLINE T sum_lanes(int64_t n, F f) {
  constexpr int size = Lane<T>::size;
  Lane<T> a(0), b(0), c(0), d(0);
  int64_t i = 0;
  const auto whole = [](const T* p, T) { return Lane<T>::load(p); };
  for (; i + 4 * size <= n; i += 4 * size) {
    a += f(i, whole);
    b += f(i + size, whole);
    c += f(i + 2 * size, whole);
    d += f(i + 3 * size, whole);
  }
  for (; i + size <= n; i += size) a += f(i, whole);
  if (i < n) {
    const int64_t rest = n - i;
    b += f(i, [rest](const T* p, T pad) { return load_some(p, rest, pad); });
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
        i, [](const T* p) { return Lane<T>::load(p); }, [](Lane<T> v, T* p) { v.store(p); });
  if (i == n) return;
  const int64_t rest = n - i;
  f(
      i, [rest](const T* p) { return load_some(p, rest, T(0)); },
      [rest](Lane<T> v, T* p) {
        T room[size];
        v.store(room);
        for (int k = 0; k < rest; ++k) p[k] = room[k];
      });
}

template <class T>
void moments(const T* x, int64_t n, double* mean, double* m2) {
  double all = 0, squares = 0;  // of the elements before this block
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t m = n - at < kBlock ? n - at : kBlock;
    const T* const p = x + at;
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
    const double step = block_mean - all, seen = static_cast<double>(at);
    squares += static_cast<double>(around) - off * off * static_cast<double>(m) +
               step * step * seen * static_cast<double>(m) / static_cast<double>(at + m);
    all += step * static_cast<double>(m) / static_cast<double>(at + m);
  }
  *mean = all;
  *m2 = squares;
}

template <class T>
double squares(const T* x, int64_t n) {
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

template <class T>
void apply(const T* x, T* y, int64_t n, T mean, T a, T b) {
  map_lanes<T>(n, [&](int64_t i, auto load, auto store) {
    store(fma(load(x + i) - Lane<T>(mean), Lane<T>(a), Lane<T>(b)), y + i);
  });
}

template <class T>
void row(const T* x, T* y, int64_t n, T mean, T rstd, const T* w, const T* b) {
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

template <class T>
void sums(const T* g, const T* x, int64_t n, T mean, double* sum, double* dot) {
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

template <class T>
void grad(const T* g, const T* x, T* y, int64_t n, T mean, T a, T b, T c) {
  map_lanes<T>(n, [&](int64_t i, auto load, auto store) {
    const Lane<T> v = fma(load(x + i) - Lane<T>(mean), Lane<T>(b), Lane<T>(c));
    store(fma(load(g + i), Lane<T>(a), v), y + i);
  });
}

template <class T>
void row_grad(const T* g, const T* x, const T* w, T* y, int64_t n, T mean, T rstd, T* dw, T* db,
              bool centred) {
  if (y) {
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
    const double r = static_cast<double>(rstd), count = static_cast<double>(n);
    const T b = static_cast<T>(-d * r * r * r / count);
    const T c = centred ? static_cast<T>(-s * r / count) : T(0);
    map_lanes<T>(n, [&](int64_t i, auto load, auto store) {
      const Lane<T> gv = load(g + i), xc = load(x + i) - Lane<T>(mean);
      const Lane<T> h = w ? gv * load(w + i) : gv;
      store(fma(h, Lane<T>(rstd), fma(xc, Lane<T>(b), Lane<T>(c))), y + i);
      if (dw) store(fma(gv, xc * Lane<T>(rstd), load(dw + i)), dw + i);
      if (db) store(load(db + i) + gv, db + i);
    });
    if (centred && n == 1) y[0] = 0;  // one number less its mean is always 0
  } else {
    map_lanes<T>(n, [&](int64_t i, auto load, auto store) {
      const Lane<T> gv = load(g + i), xc = load(x + i) - Lane<T>(mean);
      if (dw) store(fma(gv, xc * Lane<T>(rstd), load(dw + i)), dw + i);
      if (db) store(load(db + i) + gv, db + i);
    });
  }
}

template <class T>
void column_moments(const T* __restrict x, int64_t rows, int64_t n, T* __restrict mean,
                    T* __restrict apart, T* __restrict m2) {
  for (int64_t j = 0; j < n; ++j) mean[j] = 0, m2[j] = 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < n; ++j) mean[j] += x[r * n + j];
  for (int64_t j = 0; j < n; ++j) mean[j] /= static_cast<T>(rows);
  // `apart`, the sum of distances, is what the rounding of the mean lost.
  for (int64_t j = 0; j < n; ++j) apart[j] = 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < n; ++j) {
      const T d = x[r * n + j] - mean[j];
      apart[j] += d;
      m2[j] += d * d;
    }
}

template <class T>
void column_apply(const T* __restrict x, T* __restrict y, int64_t rows, int64_t n,
                  const T* __restrict mean, const T* __restrict a, const T* __restrict b) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < n; ++j) y[r * n + j] = (x[r * n + j] - mean[j]) * a[j] + b[j];
}

template <class T>
void column_sums(const T* __restrict g, const T* __restrict x, int64_t rows, int64_t n,
                 const T* __restrict mean, T* __restrict sum, T* __restrict dot) {
  for (int64_t j = 0; j < n; ++j) sum[j] = 0, dot[j] = 0;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < n; ++j) {
      const T v = g[r * n + j];
      sum[j] += v;
      dot[j] += v * (x[r * n + j] - mean[j]);
    }
}

template <class T>
void column_grad(const T* __restrict g, const T* __restrict x, T* __restrict y, int64_t rows,
                 int64_t n, const T* __restrict mean, const T* __restrict a, const T* __restrict b,
                 const T* __restrict c) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < n; ++j)
      y[r * n + j] = g[r * n + j] * a[j] + (x[r * n + j] - mean[j]) * b[j] + c[j];
}

}  // namespace

#define TYCHO_NORM(T, suffix)                                                                      \
  void norm_moments_##suffix(const T* x, int64_t n, double* mean, double* m2) {                    \
    moments(x, n, mean, m2);                                                                       \
  }                                                                                                \
  double norm_squares_##suffix(const T* x, int64_t n) { return squares(x, n); }                    \
  void norm_apply_##suffix(const T* x, T* y, int64_t n, T mean, T a, T b) {                        \
    apply(x, y, n, mean, a, b);                                                                    \
  }                                                                                                \
  void norm_row_##suffix(const T* x, T* y, int64_t n, T mean, T rstd, const T* w, const T* b) {    \
    row(x, y, n, mean, rstd, w, b);                                                                \
  }                                                                                                \
  void norm_sums_##suffix(const T* g, const T* x, int64_t n, T mean, double* sum, double* dot) {   \
    sums(g, x, n, mean, sum, dot);                                                                 \
  }                                                                                                \
  void norm_grad_##suffix(const T* g, const T* x, T* y, int64_t n, T mean, T a, T b, T c) {        \
    grad(g, x, y, n, mean, a, b, c);                                                               \
  }                                                                                                \
  void norm_row_grad_##suffix(const T* g, const T* x, const T* w, T* y, int64_t n, T mean, T rstd, \
                              T* dw, T* db, bool centred) {                                        \
    row_grad(g, x, w, y, n, mean, rstd, dw, db, centred);                                          \
  }                                                                                                \
  void norm_column_moments_##suffix(const T* x, int64_t rows, int64_t n, T* mean, T* apart,        \
                                    T* m2) {                                                       \
    column_moments(x, rows, n, mean, apart, m2);                                                   \
  }                                                                                                \
  void norm_column_apply_##suffix(const T* x, T* y, int64_t rows, int64_t n, const T* mean,        \
                                  const T* a, const T* b) {                                        \
    column_apply(x, y, rows, n, mean, a, b);                                                       \
  }                                                                                                \
  void norm_column_sums_##suffix(const T* g, const T* x, int64_t rows, int64_t n, const T* mean,   \
                                 T* sum, T* dot) {                                                 \
    column_sums(g, x, rows, n, mean, sum, dot);                                                    \
  }                                                                                                \
  void norm_column_grad_##suffix(const T* g, const T* x, T* y, int64_t rows, int64_t n,            \
                                 const T* mean, const T* a, const T* b, const T* c) {              \
    column_grad(g, x, y, rows, n, mean, a, b, c);                                                  \
  }
TYCHO_NORM(float, f32)
TYCHO_NORM(double, f64)

}  // namespace tycho::cpu::TYCHO_LEVEL
