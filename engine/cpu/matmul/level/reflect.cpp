// Householder's reflections of rows of 16 columns, or of few columns in lanes along them; see
// engine/cpu/matmul/reflect.h.
#include "engine/cpu/matmul/reflect.h"

#include "engine/cpu/lanes/math_basic.h"
#include "engine/cpu/lanes/parts.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// Largest numbers of a matrix that it is safe to square, and the least sum of squares that is exact
// enough to be a length; what is below lies far beyond the rounding of the rest.
template <class T>
constexpr T kLow = sizeof(T) == 4 ? T(0x1p-20) : T(0x1p-200);
template <class T>
constexpr T kHigh = sizeof(T) == 4 ? T(0x1p+50) : T(0x1p+450);
template <class T>
constexpr T kNothing = sizeof(T) == 4 ? T(0x1p-100) : T(0x1p-900);

template <class T>
bool in_range(const T* a, int64_t n) {
  constexpr int size = Lane<T>::size;
  Lane<T> most(0), sum(0);
  for (int64_t i = 0; i < n; i += size) {
    const Lane<T> x = load_part(a + i, static_cast<int>(n - i < size ? n - i : size));
    most = maximum(most, abs_float(x));
    sum += x * Lane<T>(0);  // nan and infinity make it nan
  }
  T v[size], largest = 0;
  most.store(v);
  for (const T x : v) largest = x > largest ? x : largest;
  return total(sum) == 0 && (largest == 0 || (largest > kLow<T> && largest < kHigh<T>));
}

// C columns -= tau * v * (v' column), all of them of n numbers.
template <int C, class T>
TYCHO_INLINE void reflect(int64_t n, const T* v, T tau, T* column, int64_t step) {
  using L = Lane<T>;
  constexpr int size = L::size;
  L sum[C];
  for (L& s : sum) s = L(0);
  int64_t i = 0;
  for (; i + size <= n; i += size) {
    const L x = L::load(v + i);
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sum[c] = fma(x, L::load(column + c * step + i), sum[c]);
  }
  const int last = static_cast<int>(n - i);
  const L end = load_part(v + i, last);
  if (last)
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) sum[c] = fma(end, load_part(column + c * step + i, last), sum[c]);
  for (L& s : sum) s = L(-tau * total(s));
  for (i = 0; i + size <= n; i += size) {
    const L x = L::load(v + i);
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c)
      fma(x, sum[c], L::load(column + c * step + i)).store(column + c * step + i);
  }
  if (last)
#pragma GCC unroll 4
    for (int c = 0; c < C; ++c) {
      T* const to = column + c * step + i;
      store_part(fma(end, sum[c], load_part(to, last)), to, last);
    }
}

template <class T>
void reflect_all(int64_t n, const T* v, T tau, T* column, int64_t step, int64_t count) {
  if (tau == 0) return;
  for (; count >= 4; count -= 4, column += 4 * step) reflect<4>(n, v, tau, column, step);
  for (; count > 0; --count, column += step) reflect<1>(n, v, tau, column, step);
}

template <class T>
void few(int64_t rows, int64_t columns, int64_t k, int64_t q_columns, T* a, T* q) {
  using L = Lane<T>;
  T taus[kFewColumns], diagonal[kFewColumns];
  for (int64_t j = 0; j < k; ++j) {
    T* const x = a + j * (rows + 1);
    const int64_t n = rows - j;
    L sum(0);
    for (int64_t i = 1; i < n; i += L::size) {
      const L v = load_part(x + i, static_cast<int>(n - i < L::size ? n - i : L::size));
      sum = fma(v, v, sum);
    }
    const T below = total(sum), first = x[0];
    taus[j] = 0;
    diagonal[j] = first;
    if (below > kNothing<T>) {
      const T size = __builtin_sqrt(first * first + below), end = first < 0 ? size : -size;
      const T by = 1 / (first - end);
      for (int64_t i = 1; i < n; ++i) x[i] *= by;
      taus[j] = (end - first) / end;
      diagonal[j] = end;
    }
    x[0] = 1;
    reflect_all(n, x, taus[j], x + rows, rows, columns - j - 1);
  }
  if (q) {
    __builtin_memset(q, 0, rows * q_columns * sizeof(T));
    for (int64_t j = 0; j < q_columns; ++j) q[j * (rows + 1)] = 1;
    for (int64_t j = k - 1; j >= 0; --j)
      reflect_all(rows - j, a + j * (rows + 1), taus[j], q + j * (rows + 1), rows, q_columns - j);
  }
  for (int64_t j = 0; j < k; ++j) a[j * (rows + 1)] = diagonal[j];
}

// Each pass over the rows applies one reflection and meanwhile sums the products of the next column
// with all columns: with those to its right they are what its reflection needs, with those to its
// left what T needs. The vectors wait for their scale until the end, so that rows are stored whole.
template <class T>
void panel(int64_t m, int64_t steps, T* a, T* u) {
  using L = Lane<T>;
  constexpr int kLanes = kPanel / L::size, kSets = kLanes > 2 ? 2 : 4;  // enough chains of sums
  L sums[kSets][kLanes];
  T scale[kPanel];
  for (T& x : scale) x = 1;
  for (auto& set : sums)
    for (L& s : set) s = L(0);
  for (int64_t i = 1; i < m; ++i)
    for (int k = 0; k < kLanes; ++k)
      sums[0][k] = fma(L(a[i * kPanel]), L::load(a + i * kPanel + k * L::size), sums[0][k]);
  for (int64_t j = 0; j < steps; ++j) {
    T *const top = a + j * kPanel, *const own = u + j;
    T dots[kPanel], off[kPanel];  // v' times each column; what each loses, for 1 of this column
    for (int k = 0; k < kLanes; ++k) {
      L sum = sums[0][k];
      for (int set = 1; set < kSets; ++set) sum += sums[set][k];
      sum.store(dots + k * L::size);
    }
    const T below = dots[j], first = top[j];
    T by = 0, tau = 0, end = first;
    if (below > kNothing<T>) {
      const T size = __builtin_sqrt(first * first + below);
      end = first < 0 ? size : -size;
      by = 1 / (first - end);
      tau = (end - first) / end;
    }
    for (int c = 0; c < kPanel; ++c) dots[c] = (top[c] + dots[c] * by) * scale[c];
    for (int64_t i = 0; i < j; ++i) own[i * kPanel] = tau == 0 ? T(0) : dots[i];
    own[j * kPanel] = tau == 0 ? T(0) : 1 / tau;
    for (int c = 0; c < kPanel; ++c) off[c] = c > j ? -tau * dots[c] : T(0);
    for (int c = 0; c < kPanel; ++c) top[c] += off[c];
    for (int c = 0; c < kPanel; ++c) off[c] *= by;
    top[j] = end;
    scale[j] = by;
    L lose[kLanes];
    for (int k = 0; k < kLanes; ++k) lose[k] = L::load(off + k * L::size);
    for (auto& set : sums)
      for (L& s : set) s = L(0);
    const int64_t next = j + 1 < steps ? j + 1 : j;
    const auto update = [&](T* p, L* sum) {
      const L x(p[j]);
      L y[kLanes];
      for (int k = 0; k < kLanes; ++k) {
        y[k] = fma(x, lose[k], L::load(p + k * L::size));
        y[k].store(p + k * L::size);
      }
      const L z(p[next]);
      for (int k = 0; k < kLanes; ++k) sum[k] = fma(z, y[k], sum[k]);
    };
    L none[kLanes];  // the next row is above what the next reflection sums
    for (L& x : none) x = L(0);
    if (j + 1 < m) update(top + kPanel, none);
    int64_t i = j + 2;
    for (; i + kSets <= m; i += kSets)
#pragma GCC unroll 4
      for (int set = 0; set < kSets; ++set) update(a + (i + set) * kPanel, sums[set]);
    for (; i < m; ++i) update(a + i * kPanel, sums[0]);
  }
  for (int64_t i = 1; i < m; ++i)
    for (int c = 0; c < kPanel; ++c)
      if (c < i) a[i * kPanel + c] *= scale[c];
}

}  // namespace

bool squares_in_range(int type, int64_t n, const void* a) {
  return type == 0 ? in_range(static_cast<const float*>(a), n)
                   : in_range(static_cast<const double*>(a), n);
}

void reflect_few(int type, int64_t rows, int64_t columns, int64_t steps, int64_t q_columns, void* a,
                 void* q) {
  type == 0
      ? few(rows, columns, steps, q_columns, static_cast<float*>(a), static_cast<float*>(q))
      : few(rows, columns, steps, q_columns, static_cast<double*>(a), static_cast<double*>(q));
}

void reflect_panel(int type, int64_t m, int64_t steps, void* a, void* u) {
  type == 0 ? panel(m, steps, static_cast<float*>(a), static_cast<float*>(u))
            : panel(m, steps, static_cast<double*>(a), static_cast<double*>(u));
}

}  // namespace tycho::cpu::TYCHO_LEVEL
