// softmax on lanes: the largest element, then exponentials and their sum, then the scaling, while
// the row lies in the cache.
#include "engine/cpu/nn/softmax.h"

#include "engine/cpu/lanes/fold_lanes.h"
#include "engine/cpu/lanes/math_exp.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// In double: float32 would lose digits of long sums.
TYCHO_INLINE double total_of(F32 a) { return total(low_half(a) + high_half(a)); }
TYCHO_INLINE double total_of(F64 a) { return total(a); }

// sum of f(i) over lanes of n elements, from registers into a double every so often; f(i, count)
// gives the lane at i, with zeros past `count`.
template <class T, class F>
TYCHO_INLINE double sum_lanes(int64_t n, F&& f) {
  constexpr int w = Lane<T>::size;
  double sum = 0;
  int64_t i = 0;
  while (i + w <= n) {
    const int64_t end = n - i < 256 * w ? n : i + 256 * w;
    Lane<T> a[4] = {Lane<T>(0), Lane<T>(0), Lane<T>(0), Lane<T>(0)};
    for (; i + 4 * w <= end; i += 4 * w)
#pragma GCC unroll 4
      for (int k = 0; k < 4; ++k) a[k] += f(i + k * w, w);
    for (; i + w <= end; i += w) a[0] += f(i, w);
    sum += total_of((a[0] + a[1]) + (a[2] + a[3]));
    if (i + w > n) break;
  }
  if (i < n) sum += total_of(f(i, static_cast<int>(n - i)));
  return sum;
}

template <class T>
TYCHO_INLINE T largest(const T* x, int64_t n) {
  constexpr T low = -infinity<T>;
  Lane<T> a[4] = {Lane<T>(low), Lane<T>(low), Lane<T>(low), Lane<T>(low)};
  constexpr int w = Lane<T>::size;
  int64_t i = 0;
  for (; i + 4 * w <= n; i += 4 * w)
#pragma GCC unroll 4
    for (int k = 0; k < 4; ++k) a[k] = larger(Lane<T>::load(x + i + k * w), a[k]);
  for (; i + w <= n; i += w) a[0] = larger(Lane<T>::load(x + i), a[0]);
  if (i < n) a[0] = larger(load_part<T>(x + i, static_cast<int>(n - i), low), a[0]);
  const auto most = [](Lane<T> p, Lane<T> q) __attribute__((always_inline)) {
    return larger(p, q);
  };
  return across(most(most(a[0], a[1]), most(a[2], a[3])), most).v[0];
}

template <class T>
TYCHO_INLINE double exps(bool log, const T* x, T* y, int64_t n, Lane<T> top) {
  constexpr int w = Lane<T>::size;
  const auto above = [&](int64_t i, int m) __attribute__((always_inline)) {
    return exp_masked((m == w ? Lane<T>::load(x + i) : load_part<T>(x + i, m, -infinity<T>)) - top);
  };
  if (log) return sum_lanes<T>(n, above);
  return sum_lanes<T>(
      n, [&](int64_t i, int m) __attribute__((always_inline)) {
        const Lane<T> e = above(i, m);
        if (m == w)
          e.store(y + i);
        else
          store_part<T>(e, y + i, m);
        return e;
      });
}

template <class T>
TYCHO_INLINE void finish(bool log, const T* x, T* y, int64_t n, Lane<T> top, double sum) {
  constexpr int w = Lane<T>::size;
  int64_t i = 0;
  if (log) {
    const Lane<T> shift(static_cast<T>(__builtin_log(sum)));
    for (; i + w <= n; i += w) (Lane<T>::load(x + i) - top - shift).store(y + i);
    if (i < n) {
      const int m = static_cast<int>(n - i);
      store_part<T>(load_part<T>(x + i, m, 0) - top - shift, y + i, m);
    }
    return;
  }
  const Lane<T> scale(static_cast<T>(1 / sum));
  for (; i + w <= n; i += w) (Lane<T>::load(y + i) * scale).store(y + i);
  for (; i < n; ++i) y[i] *= static_cast<T>(1 / sum);
}

template <class T>
void run(bool log, const void* px, void* py, int64_t n) {
  const T* x = static_cast<const T*>(px);
  T* y = static_cast<T*>(py);
  const Lane<T> top(largest(x, n));
  finish(log, x, y, n, top, exps(log, x, y, n, top));
}

template <class T>
TYCHO_INLINE Lane<T> some_of(const T* p, int m) {
  return m == Lane<T>::size ? Lane<T>::load(p) : load_part<T>(p, m, 0);
}
template <class T>
TYCHO_INLINE double grad_sum(bool log, const T* g, const T* y, int64_t n) {
  return sum_lanes<T>(
      n, [&](int64_t i, int m) __attribute__((always_inline)) {
        return log ? some_of(g + i, m) : some_of(g + i, m) * some_of(y + i, m);
      });
}
template <class T>
TYCHO_INLINE void grad_part(bool log, const T* g, const T* y, T* out, int64_t n, double all) {
  constexpr int w = Lane<T>::size;
  const Lane<T> sum(static_cast<T>(all));
  for (int64_t i = 0; i < n; i += w) {
    const int m = n - i < w ? static_cast<int>(n - i) : w;
    const Lane<T> gi = some_of(g + i, m), yi = some_of(y + i, m);
    const Lane<T> r = log ? gi - exp_masked(yi) * sum : yi * (gi - sum);
    if (m == w)
      r.store(out + i);
    else
      store_part<T>(r, out + i, m);
  }
}
template <class T>
void grad_run(bool log, const void* pg, const void* py, void* pout, int64_t n) {
  const T *g = static_cast<const T*>(pg), *y = static_cast<const T*>(py);
  grad_part(log, g, y, static_cast<T*>(pout), n, grad_sum(log, g, y, n));
}

// Short rows, a lane's worth at a time: what the elements of each meet in comes from all their registers at
// once, and no row waits for its own. A block that lacks rows repeats its first.
template <class T, class Lanes, class F>
TYCHO_INLINE Lane<T> each_row(const Lanes& of_row, F f) {
  constexpr int w = Lane<T>::size;
  Lane<T> a[w];
  for (int u = 0; u < w; ++u) a[u] = of_row(u);
  return totals<T>(
      [&](int u) __attribute__((always_inline)) { return a[u]; }, f);
}
// Calls f(i, count) for lanes of n elements.
template <class T, class F>
TYCHO_INLINE void each_part(int64_t n, F&& f) {
  constexpr int w = Lane<T>::size;
  int64_t i = 0;
  for (; i + w <= n; i += w) f(i, w);
  if (i < n) f(i, static_cast<int>(n - i));
}
template <class T>
TYCHO_INLINE Lane<T> part_of(const T* p, int m, T pad) {
  return m == Lane<T>::size ? Lane<T>::load(p) : load_part<T>(p, m, pad);
}
template <class T>
TYCHO_INLINE void put_part(Lane<T> x, T* p, int m) {
  m == Lane<T>::size ? x.store(p) : store_part<T>(x, p, m);
}

template <class T>
void short_rows(bool log, const void* px, void* py, int64_t n, int64_t rows) {
  constexpr int w = Lane<T>::size;
  constexpr T low = -infinity<T>;
  for (int64_t first = 0; first < rows; first += w) {
    const T* x = static_cast<const T*>(px) + first * n;
    T *y = static_cast<T*>(py) + first * n, top[w], last[w];
    const int64_t count = rows - first < w ? rows - first : w;
    const auto row = [&](int u) { return u < count ? u * n : 0; };
    each_row<T>(
        [&](int u) __attribute__((always_inline)) {
          Lane<T> a(low);
          each_part<T>(
              n, [&](int64_t i, int m) __attribute__((always_inline)) {
                a = larger(part_of<T>(x + row(u) + i, m, low), a);
              });
          return a;
        },
        [](Lane<T> p, Lane<T> q) __attribute__((always_inline)) { return larger(p, q); })
        .store(top);
    const Lane<T> sum = each_row<T>(
        [&](int u) __attribute__((always_inline)) {
          Lane<T> a(0);
          const Lane<T> above(top[u]);
          each_part<T>(
              n, [&](int64_t i, int m) __attribute__((always_inline)) {
                const Lane<T> e = exp_masked(part_of<T>(x + row(u) + i, m, low) - above);
                a += e;
                if (!log) put_part(e, y + row(u) + i, m);
              });
          return a;
        },
        Sum());
    (log ? tycho::cpu::TYCHO_LEVEL::log(sum) : Lane<T>(1) / sum).store(last);
    // From the last row on: a part of a lane is stored as if it reached into the next row, which would wait to be read.
    for (int64_t u = count - 1; u >= 0; --u) {
      const Lane<T> above(top[u]), by(last[u]);
      each_part<T>(
          n, [&](int64_t i, int m) __attribute__((always_inline)) {
            T* const to = y + u * n + i;
            put_part(log ? part_of<T>(x + u * n + i, m, 0) - above - by : part_of<T>(to, m, 0) * by,
                     to, m);
          });
    }
  }
}

template <class T>
void grad_rows(bool log, const void* pg, const void* py, void* pout, int64_t n, int64_t rows) {
  constexpr int w = Lane<T>::size;
  for (int64_t first = 0; first < rows; first += w) {
    const T *g = static_cast<const T*>(pg) + first * n, *y = static_cast<const T*>(py) + first * n;
    T *out = static_cast<T*>(pout) + first * n, sum[w];
    const int64_t count = rows - first < w ? rows - first : w;
    each_row<T>(
        [&](int u) __attribute__((always_inline)) {
          Lane<T> a(0);
          const int64_t row = u < count ? u * n : 0;
          each_part<T>(
              n, [&](int64_t i, int m) __attribute__((always_inline)) {
                const Lane<T> gi = part_of<T>(g + row + i, m, 0);
                a += log ? gi : gi * part_of<T>(y + row + i, m, 0);
              });
          return a;
        },
        Sum())
        .store(sum);
    for (int64_t u = 0; u < count; ++u)
      grad_part(log, g + u * n, y + u * n, out + u * n, n, static_cast<double>(sum[u]));
  }
}

// Calls f with a float or a double, by the lanes.
template <class F>
TYCHO_INLINE auto typed(int lanes, F f) {
  return lanes == 0 ? f(float()) : f(double());
}

constexpr int kBlock = 256;  // columns at a time

// Calls f(first column, count, lane number) for lanes of up to kBlock columns.
template <class T, class F>
TYCHO_INLINE void each_lane(int64_t cols, F&& f) {
  constexpr int w = Lane<T>::size;
  for (int64_t j = 0, k = 0; j < cols; j += w, ++k)
    f(j, cols - j < w ? static_cast<int>(cols - j) : w, k);
}

template <class T>
void columns(bool log, const void* px, void* py, int64_t n, int64_t all, int64_t step) {
  constexpr int w = Lane<T>::size;
  for (int64_t first = 0; first < all; first += kBlock) {
    const int64_t cols = all - first < kBlock ? all - first : kBlock;
    const T* x = static_cast<const T*>(px) + first;
    T* y = static_cast<T*>(py) + first;
    Lane<T> top[kBlock / w], sum[kBlock / w], part[kBlock / w];
    const auto at = [&](const T* row, int64_t j, int m) __attribute__((always_inline)) {
      return m == w ? Lane<T>::load(row + j) : load_part<T>(row + j, m, 0);
    };
    const auto put = [&](Lane<T> v, T * row, int64_t j, int m) __attribute__((always_inline)) {
      m == w ? v.store(row + j) : store_part<T>(v, row + j, m);
    };
    each_lane<T>(cols, [&](int64_t j, int m, int64_t k) { top[k] = at(x, j, m); });
    for (int64_t r = 1; r < n; ++r)
      each_lane<T>(cols, [&](int64_t j, int m, int64_t k) {
        top[k] = larger(at(x + r * step, j, m), top[k]);
      });
    each_lane<T>(cols, [&](int64_t, int, int64_t k) { sum[k] = part[k] = Lane<T>(0); });
    for (int64_t r = 0; r < n; ++r) {
      each_lane<T>(cols, [&](int64_t j, int m, int64_t k) {
        const Lane<T> e = exp_masked(at(x + r * step, j, m) - top[k]);
        if (!log) put(e, y + r * step, j, m);
        part[k] += e;
      });
      if (r % 64 == 63)  // sums of sums keep the rounding small
        each_lane<T>(cols, [&](int64_t, int, int64_t k) {
          sum[k] += part[k];
          part[k] = Lane<T>(0);
        });
    }
    each_lane<T>(cols, [&](int64_t, int, int64_t k) {
      sum[k] += part[k];
      sum[k] = log ? tycho::cpu::TYCHO_LEVEL::log(sum[k]) : Lane<T>(1) / sum[k];
    });
    for (int64_t r = 0; r < n; ++r)
      each_lane<T>(cols, [&](int64_t j, int m, int64_t k) {
        if (log)
          put(at(x + r * step, j, m) - top[k] - sum[k], y + r * step, j, m);
        else
          put(at(y + r * step, j, m) * sum[k], y + r * step, j, m);
      });
  }
}

template <class T>
void grad_columns(bool log, const void* pg, const void* py, void* pout, int64_t n, int64_t all,
                  int64_t step) {
  constexpr int w = Lane<T>::size;
  for (int64_t first = 0; first < all; first += kBlock) {
    const int64_t cols = all - first < kBlock ? all - first : kBlock;
    const T *g = static_cast<const T*>(pg) + first, *y = static_cast<const T*>(py) + first;
    T* out = static_cast<T*>(pout) + first;
    Lane<T> sum[kBlock / w];
    const auto at = [&](const T* row, int64_t j, int m) __attribute__((always_inline)) {
      return m == w ? Lane<T>::load(row + j) : load_part<T>(row + j, m, 0);
    };
    each_lane<T>(cols, [&](int64_t, int, int64_t k) { sum[k] = Lane<T>(0); });
    for (int64_t r = 0; r < n; ++r)
      each_lane<T>(cols, [&](int64_t j, int m, int64_t k) {
        const Lane<T> gi = at(g + r * step, j, m);
        sum[k] += log ? gi : gi * at(y + r * step, j, m);
      });
    for (int64_t r = 0; r < n; ++r)
      each_lane<T>(cols, [&](int64_t j, int m, int64_t k) {
        const Lane<T> gi = at(g + r * step, j, m), yi = at(y + r * step, j, m);
        const Lane<T> v = log ? gi - exp_masked(yi) * sum[k] : yi * (gi - sum[k]);
        m == w ? v.store(out + r * step + j) : store_part<T>(v, out + r * step + j, m);
      });
  }
}

}  // namespace

void softmax_run(int lanes, bool log, const void* x, void* y, int64_t n) {
  lanes == 0 ? run<float>(log, x, y, n) : run<double>(log, x, y, n);
}
void softmax_rows(int lanes, bool log, const void* x, void* y, int64_t n, int64_t rows) {
  lanes == 0 ? short_rows<float>(log, x, y, n, rows) : short_rows<double>(log, x, y, n, rows);
}
void softmax_grad_rows(int lanes, bool log, const void* g, const void* y, void* out, int64_t n,
                       int64_t rows) {
  lanes == 0 ? grad_rows<float>(log, g, y, out, n, rows)
             : grad_rows<double>(log, g, y, out, n, rows);
}
void softmax_columns(int lanes, bool log, const void* x, void* y, int64_t n, int64_t cols,
                     int64_t step) {
  lanes == 0 ? columns<float>(log, x, y, n, cols, step) : columns<double>(log, x, y, n, cols, step);
}
void softmax_grad_run(int lanes, bool log, const void* g, const void* y, void* out, int64_t n) {
  lanes == 0 ? grad_run<float>(log, g, y, out, n) : grad_run<double>(log, g, y, out, n);
}
void softmax_grad_columns(int lanes, bool log, const void* g, const void* y, void* out, int64_t n,
                          int64_t cols, int64_t step) {
  lanes == 0 ? grad_columns<float>(log, g, y, out, n, cols, step)
             : grad_columns<double>(log, g, y, out, n, cols, step);
}

double softmax_top(int lanes, const void* x, int64_t n) {
  return typed(
      lanes, [&]<class T>(T) { return static_cast<double>(largest(static_cast<const T*>(x), n)); });
}
double softmax_exps(int lanes, bool log, const void* x, void* y, int64_t n, double top) {
  return typed(lanes, [&]<class T>(T) {
    return exps(log, static_cast<const T*>(x), static_cast<T*>(y), n, Lane<T>(static_cast<T>(top)));
  });
}
void softmax_finish(int lanes, bool log, const void* x, void* y, int64_t n, double top,
                    double sum) {
  typed(lanes, [&]<class T>(T) {
    finish(log, static_cast<const T*>(x), static_cast<T*>(y), n, Lane<T>(static_cast<T>(top)), sum);
  });
}
double softmax_grad_sum(int lanes, bool log, const void* g, const void* y, int64_t n) {
  return typed(lanes, [&]<class T>(T) {
    return grad_sum(log, static_cast<const T*>(g), static_cast<const T*>(y), n);
  });
}
void softmax_grad_part(int lanes, bool log, const void* g, const void* y, void* out, int64_t n,
                       double sum) {
  typed(lanes, [&]<class T>(T) {
    grad_part(log, static_cast<const T*>(g), static_cast<const T*>(y), static_cast<T*>(out), n,
              sum);
  });
}

}  // namespace tycho::cpu::TYCHO_LEVEL
