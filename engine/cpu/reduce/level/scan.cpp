// Scans on lanes.
#include "engine/cpu/reduce/scan.h"

#include "engine/cpu/lanes/fold_lanes.h"
#include "engine/cpu/lanes/math_exp.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

#if defined(TYCHO_LEVEL_v4)
// The lane with each element moved up by k places, zeros moving in. Shorter registers take longer for
// it than adding one element after the other does.
template <int k, class T>
TYCHO_INLINE Lane<T> move_up(Lane<T> x) {
  const __m512i zero = _mm512_setzero_si512();
  if constexpr (sizeof(T) == 4) {
    return Lane<T>((typename Lane<T>::V)_mm512_maskz_alignr_epi32(-1, (__m512i)x.v, zero, 16 - k));
  } else {
    return Lane<T>((typename Lane<T>::V)_mm512_maskz_alignr_epi64(-1, (__m512i)x.v, zero, 8 - k));
  }
}

// Sums within one lane.
template <class T>
TYCHO_INLINE Lane<T> prefix(Lane<T> x) {
  x += move_up<1>(x);
  if constexpr (Lane<T>::size > 2) x += move_up<2>(x);
  if constexpr (Lane<T>::size > 4) x += move_up<4>(x);
  if constexpr (Lane<T>::size > 8) x += move_up<8>(x);
  return x;
}
template <class T>
TYCHO_INLINE T last(Lane<T> x) {
  return x.v[Lane<T>::size - 1];
}
#endif

// Floats in double, from the first on: four are joined before the carry, which so is waited for once.
template <class F>
TYCHO_INLINE void one_by_one(const float* x, float* y, int64_t n, int64_t step, double carry,
                             F join) {
  int64_t k = 0;
  for (; k + 4 <= n; k += 4, x += 4 * step, y += 4 * step) {
    const double a = static_cast<double>(x[0]), b = join(a, static_cast<double>(x[step])),
                 c = join(b, static_cast<double>(x[2 * step])),
                 d = join(c, static_cast<double>(x[3 * step]));
    y[0] = static_cast<float>(join(carry, a));
    y[step] = static_cast<float>(join(carry, b));
    y[2 * step] = static_cast<float>(join(carry, c));
    y[3 * step] = static_cast<float>(carry = join(carry, d));
  }
  for (; k < n; ++k, x += step, y += step)
    *y = static_cast<float>(carry = join(carry, static_cast<double>(*x)));
}

// The carry runs in double, split in two floats for the addition to a lane.
void sum_run(const float* x, float* y, int64_t n) {
  double carry = 0;
  int64_t i = 0;
#if defined(TYCHO_LEVEL_v4)
  constexpr int w = F32::size;
  for (; i + w <= n; i += w) {
    const F32 p = prefix(F32::load(x + i));
    const float high = static_cast<float>(carry);
    const float low = __builtin_isinf(high) ? 0 : static_cast<float>(carry - high);
    (F32(high) + (F32(low) + p)).store(y + i);
    carry += static_cast<double>(last(p));
  }
#endif
  one_by_one(x + i, y + i, n - i, 1, carry, [](double a, double b) { return a + b; });
}
// Of as wide a type as the carry's, which in lanes waits for one addition per lane.
template <class T>
void sum_run(const T* x, T* y, int64_t n) {
  int64_t i = 0;
  T carry = 0;
#if defined(TYCHO_LEVEL_v4)
  constexpr int w = Lane<T>::size;
  Lane<T> before(0);
  for (; i + w <= n; i += w) {
    const Lane<T> p = prefix(Lane<T>::load(x + i));
    (p + before).store(y + i);
    before += Lane<T>(last(p));
  }
  carry = before.v[0];
#endif
  for (; i < n; ++i) y[i] = carry = plus(carry, x[i]);
}

// Logarithms of running sums of exponentials, a block at a time: of what its largest value leaves of
// each, which are summed and have their logarithms taken in lanes. What lies so far below that little
// of it would be left goes one by one.
template <class T, class One>
void log_run(bool reverse, const T* x, T* y, int64_t n, One one) {
  constexpr int64_t kBlock = 256, w = F64::size;
  constexpr double far = sizeof(T) == 4 ? 600 : 30;
  const int64_t step = reverse ? -1 : 1;
  double carry = -__builtin_inf(), v[kBlock];
  for (int64_t k = 0; k < n; k += kBlock) {
    const int64_t m = n - k < kBlock ? n - k : kBlock, first = reverse ? n - 1 - k : k;
    double top = carry;
    bool numbers = true;
    for (int64_t i = 0; i < m; ++i) {
      v[i] = static_cast<double>(x[first + i * step]);
      top = v[i] > top ? v[i] : top;
      numbers &= v[i] == v[i];
    }
    const double least = carry > v[0] ? carry : v[0];
    if (numbers && top - least < far) {  // infinite ones are none
      for (int64_t i = m; i < (m + w - 1) / w * w; ++i) v[i] = -__builtin_inf();
      for (int64_t i = 0; i < m; i += w) exp(F64::load(v + i) - F64(top)).store(v + i);
      double sum = __builtin_exp(carry - top);
#if defined(TYCHO_LEVEL_v4)
      for (int64_t i = 0; i < m; i += w) {
        const F64 s = prefix(F64::load(v + i)) + F64(sum);
        sum = last(s);
        s.store(v + i);
      }
#else
      for (int64_t i = 0; i < m; ++i) v[i] = sum += v[i];
#endif
      for (int64_t i = 0; i < m; i += w) (log(F64::load(v + i)) + F64(top)).store(v + i);
    } else {
      double c = carry;
      for (int64_t i = 0; i < m; ++i) v[i] = c = one(c, v[i]);
    }
    for (int64_t i = 0; i < m; ++i) y[first + i * step] = static_cast<T>(v[i]);
    carry = v[m - 1];
  }
}

// log(e^a + e^b): the larger plus log1p of the rest; equal infinities stay.
TYCHO_INLINE double add_logs(double a, double b) {
  const double low = a < b ? a : b, high = a < b ? b : a;
  if (a != a || b != b) return a + b;
  if (low == high && __builtin_isinf(low)) return high;
  return high + __builtin_log1p(__builtin_exp(low - high));
}

TYCHO_INLINE F64 add_logs(double* carry, F64 x) {
  const F64 sum = logaddexp(F64::load(carry), x);
  sum.store(carry);
  return sum;
}
template <class T>
TYCHO_INLINE void add_logs(const T* x, double* carry, T* y, int64_t n) {
  constexpr int64_t w = F64::size;
  int64_t j = 0;
  for (; j + Lane<T>::size <= n; j += Lane<T>::size) {
    const Lane<T> v = Lane<T>::load(x + j);
    if constexpr (sizeof(T) == 4)
      join(add_logs(carry + j, low_half(v)), add_logs(carry + j + w, high_half(v))).store(y + j);
    else
      add_logs(carry + j, v).store(y + j);
  }
  for (; j < n; j += w) {
    const int64_t m = n - j < w ? n - j : w;
    double v[w] = {}, sum[w];
    for (int64_t i = 0; i < m; ++i) v[i] = static_cast<double>(x[j + i]), sum[i] = carry[j + i];
    for (int64_t i = m; i < w; ++i) sum[i] = 0;
    logaddexp(F64::load(sum), F64::load(v)).store(sum);
    for (int64_t i = 0; i < m; ++i) y[j + i] = static_cast<T>(carry[j + i] = sum[i]);
  }
}

template <ScanOp op, class S>
TYCHO_INLINE S start() {
  if constexpr (op == ScanOp::LogSumExp) return -__builtin_inf();
  return op == ScanOp::Prod;
}
template <ScanOp op, class S>
TYCHO_INLINE S next(S carry, S x) {
  if constexpr (op == ScanOp::LogSumExp) return add_logs(carry, x);
  return op == ScanOp::Prod ? times(carry, x) : plus(carry, x);
}

template <class T, ScanOp op>
void run(bool reverse, const void* px, void* py, int64_t n) {
  using S = typename SlotOf<T>::S;
  const T* x = static_cast<const T*>(px);
  T* y = static_cast<T*>(py);
  if (op == ScanOp::Sum && !reverse) return sum_run(x, y, n);
  if constexpr (op == ScanOp::LogSumExp) return log_run(reverse, x, y, n, next<op, S>);
  S carry = start<op, S>();
  const int64_t step = reverse ? -1 : 1, first = reverse ? n - 1 : 0;
  if constexpr (sizeof(T) == 4)
    return one_by_one(x + first, y + first, n, step, carry, next<op, S>);
  for (int64_t k = 0, i = first; k < n; ++k, i += step)
    y[i] = static_cast<T>(carry = next<op, S>(carry, static_cast<S>(x[i])));
}

// Rows of which none waits for another: four at a time.
template <class T, ScanOp op>
void all_rows(bool reverse, const void* px, void* py, int64_t n, int64_t rows) {
  using S = typename SlotOf<T>::S;
  const T* x = static_cast<const T*>(px);
  T* y = static_cast<T*>(py);
  constexpr int kBeside = 4;
#if defined(TYCHO_LEVEL_v4)
  const bool lanes = op == ScanOp::Sum && !reverse && !__is_same(T, double) && n >= Lane<T>::size;
#else
  const bool lanes = false;  // their elements move slowly
#endif
  int64_t r = 0;
  for (; !lanes && op != ScanOp::LogSumExp && r + kBeside <= rows; r += kBeside) {
    S carry[kBeside];
    for (S& c : carry) c = start<op, S>();
    const int64_t step = reverse ? -1 : 1;
    for (int64_t k = 0, i = r * n + (reverse ? n - 1 : 0); k < n; ++k, i += step)
      for (int u = 0; u < kBeside; ++u) {
        carry[u] = next<op, S>(carry[u], static_cast<S>(x[i + u * n]));
        y[i + u * n] = static_cast<T>(carry[u]);
      }
  }
  for (; r < rows; ++r) run<T, op>(reverse, x + r * n, y + r * n, n);
}

#if defined(TYCHO_LEVEL_v3) || defined(TYCHO_LEVEL_v4)
// A lane of the carry's type from and to as many elements.
template <class T>
TYCHO_INLINE Lane<typename SlotOf<T>::S> load_wide(const T* x) {
  if constexpr (!__is_same(T, float))
    return Lane<T>::load(x);
  else
#if defined(TYCHO_LEVEL_v4)
    return F64((F64::V)_mm512_maskz_cvtps_pd(-1, _mm256_loadu_ps(x)));
#else
    return F64((F64::V)_mm256_cvtps_pd(_mm_loadu_ps(x)));
#endif
}
template <class T>
TYCHO_INLINE void store_wide(T* y, Lane<typename SlotOf<T>::S> v) {
  if constexpr (!__is_same(T, float))
    v.store(y);
  else
#if defined(TYCHO_LEVEL_v4)
    _mm256_storeu_ps(y, _mm512_maskz_cvtpd_ps(-1, (__m512d)v.v));
#else
    _mm_storeu_ps(y, _mm256_cvtpd_ps((__m256d)v.v));
#endif
}

template <ScanOp op, class L>
TYCHO_INLINE L next_lane(L carry, L x) {
  return op == ScanOp::Prod ? carry * x : carry + x;
}

// So few lanes of columns at once that their carries stay in registers: from memory each would wait for the store
// before it.
template <class T, ScanOp op, int lanes>
void few_columns(const T* x, int64_t x_step, T* y, int64_t y_step, int64_t n) {
  using S = typename SlotOf<T>::S;
  using L = Lane<S>;
  L carry[lanes];
#pragma GCC unroll 4
  for (L& c : carry) c = L(start<op, S>());
  for (int64_t k = 0; k < n; ++k, x += x_step, y += y_step)
#pragma GCC unroll 4
    for (int u = 0; u < lanes; ++u) {
      carry[u] = next_lane<op>(carry[u], load_wide(x + u * L::size));
      store_wide(y + u * L::size, carry[u]);
    }
}
// The last ones, of less than a lane.
template <class T, ScanOp op>
void last_columns(const T* x, int64_t x_step, T* y, int64_t y_step, int64_t n, int64_t cols) {
  using S = typename SlotOf<T>::S;
#if defined(TYCHO_LEVEL_v4)
  using L = Lane<S>;
  const auto mask = static_cast<__mmask8>((1 << cols) - 1);
  L carry(start<op, S>());
  for (int64_t k = 0; k < n; ++k, x += x_step, y += y_step) {
    if constexpr (__is_same(T, float)) {
      const __m512d v = _mm512_maskz_cvtps_pd(-1, _mm256_maskz_loadu_ps(mask, x));
      carry = next_lane<op>(carry, L((typename L::V)v));
      _mm256_mask_storeu_ps(y, mask, _mm512_maskz_cvtpd_ps(-1, (__m512d)carry.v));
    } else {
      carry = next_lane<op>(carry, L((typename L::V)_mm512_maskz_loadu_epi64(mask, x)));
      _mm512_mask_storeu_epi64(y, mask, (__m512i)carry.v);
    }
  }
#else
  for (int64_t j = 0; j < cols; ++j) {
    S carry = start<op, S>();
    for (int64_t k = 0; k < n; ++k)
      y[k * y_step + j] =
          static_cast<T>(carry = next<op, S>(carry, static_cast<S>(x[k * x_step + j])));
  }
#endif
}
template <class T, ScanOp op>
void narrow_columns(bool reverse, const T* x, int64_t x_step, T* y, int64_t y_step, int64_t n,
                    int64_t all) {
  if (reverse) x += (n - 1) * x_step, y += (n - 1) * y_step, x_step = -x_step, y_step = -y_step;
  constexpr int w = Lane<typename SlotOf<T>::S>::size;
  const auto take = [&]<int lanes>() __attribute__((always_inline)) {
    for (; all >= lanes * w; all -= lanes * w, x += lanes * w, y += lanes * w)
      few_columns<T, op, lanes>(x, x_step, y, y_step, n);
  };
  take.template operator()<4>(), take.template operator()<2>(), take.template operator()<1>();
  if (all > 0) last_columns<T, op>(x, x_step, y, y_step, n, all);
}
#endif

constexpr int kBlock = 2048;  // columns whose carries stay in the first-level cache
constexpr int kFewColumns = 40;

template <class T, ScanOp op>
void columns(bool reverse, const void* px, int64_t x_step, void* py, int64_t y_step, int64_t n,
             int64_t all) {
  using S = typename SlotOf<T>::S;
#if defined(TYCHO_LEVEL_v3) || defined(TYCHO_LEVEL_v4)
  if constexpr (op != ScanOp::LogSumExp)
    if (all <= kFewColumns)
      return narrow_columns<T, op>(reverse, static_cast<const T*>(px), x_step, static_cast<T*>(py),
                                   y_step, n, all);
#endif
  for (int64_t first = 0; first < all; first += kBlock) {
    const int64_t cols = all - first < kBlock ? all - first : kBlock;
    S carry[kBlock];
    for (int64_t j = 0; j < cols; ++j) carry[j] = start<op, S>();
    for (int64_t k = 0; k < n; ++k) {
      const int64_t row = reverse ? n - 1 - k : k;
      const T* x = static_cast<const T*>(px) + row * x_step + first;
      T* y = static_cast<T*>(py) + row * y_step + first;
      if constexpr (op == ScanOp::LogSumExp) {
        add_logs(x, carry, y, cols);
        continue;
      }
      for (int64_t j = 0; j < cols; ++j)
        y[j] = static_cast<T>(carry[j] = next<op, S>(carry[j], static_cast<S>(x[j])));
    }
  }
}

// Picks one of `run` or `columns` by lanes and op; the others' arguments follow.
#define TYCHO_PICK(function, ...)                                           \
  switch (static_cast<ScanOp>(op)) {                                        \
    case ScanOp::Sum:                                                       \
      return lanes == 0   ? function<float, ScanOp::Sum>(__VA_ARGS__)       \
             : lanes == 1 ? function<double, ScanOp::Sum>(__VA_ARGS__)      \
                          : function<int64_t, ScanOp::Sum>(__VA_ARGS__);    \
    case ScanOp::Prod:                                                      \
      return lanes == 0   ? function<float, ScanOp::Prod>(__VA_ARGS__)      \
             : lanes == 1 ? function<double, ScanOp::Prod>(__VA_ARGS__)     \
                          : function<int64_t, ScanOp::Prod>(__VA_ARGS__);   \
    default:                                                                \
      return lanes == 0 ? function<float, ScanOp::LogSumExp>(__VA_ARGS__)   \
                        : function<double, ScanOp::LogSumExp>(__VA_ARGS__); \
  }

}  // namespace

void scan_run(int lanes, int op, bool reverse, const void* x, void* y, int64_t n) {
  TYCHO_PICK(run, reverse, x, y, n)
}
void scan_rows(int lanes, int op, bool reverse, const void* x, void* y, int64_t n, int64_t rows) {
  TYCHO_PICK(all_rows, reverse, x, y, n, rows)
}
void scan_columns(int lanes, int op, bool reverse, const void* x, int64_t x_step, void* y,
                  int64_t y_step, int64_t n, int64_t cols) {
  TYCHO_PICK(columns, reverse, x, x_step, y, y_step, n, cols)
}
}  // namespace tycho::cpu::TYCHO_LEVEL
