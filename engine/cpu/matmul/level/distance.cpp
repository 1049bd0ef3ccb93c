// Distances on lanes: one row of a against a panel of b's rows, which lie turned (element k of all of
// them together), so that lanes are distances and sums stay in registers.
#include "engine/cpu/matmul/distance.h"

#include "engine/cpu/lanes/math_basic.h"
#include "engine/cpu/lanes/math_exp.h"
#include "engine/cpu/matmul/level/gemm.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

template <int N>
struct Number {
  static constexpr int value = N;
};

// By p: how many elements differ, sums of absolutes or squares, the largest, sums of powers.
enum Kind { kCount, kSum, kSquares, kLargest, kPowers };

Kind kind_of(double p) {
  return p == 0                 ? kCount
         : p == 1               ? kSum
         : p == 2               ? kSquares
         : p == __builtin_inf() ? kLargest
                                : kPowers;
}

template <Kind K, class T>
TYCHO_INLINE Lane<T> join(Lane<T> sum, Lane<T> x, Lane<T> p) {
  if constexpr (K == kCount) return sum + number(x != Lane<T>(0));
  if constexpr (K == kSum) return sum + abs(x);
  if constexpr (K == kSquares) return fma(x, x, sum);
  if constexpr (K == kLargest) {
    const Lane<T> size = abs(x);
    return select((size > sum) | (size != size), size, sum);
  }
  if constexpr (K == kPowers) return sum + pow(abs(x), p);
}
template <Kind K, class T>
TYCHO_INLINE Lane<T> finish(Lane<T> sum, Lane<T> inverse) {
  if constexpr (K == kSquares) return square_root(sum);
  if constexpr (K == kPowers) return pow(sum, inverse);
  return sum;
}

template <class T>
TYCHO_INLINE int64_t place_of(const DistancePlace& at, int64_t i, int64_t j) {
  if (!at.pairs) return i * at.row + j * at.col;
  return i * (2 * at.pairs - i - 1) / 2 + j - i - 1;
}

constexpr int64_t kPart = 256;  // terms that are added up by themselves

// L lanes of distances of one row; the panel's rows are `cols` apart.
template <Kind K, class T, int L>
TYCHO_INLINE void distances(int64_t d, const T* a, const T* panel, int cols, Lane<T> p,
                            Lane<T> inverse, T* out) {
  constexpr int w = Lane<T>::size;
  Lane<T> total[L];
  for (int64_t from = 0; from < d; from += kPart) {
    const int64_t to = d < from + kPart ? d : from + kPart;
    Lane<T> sum[L];
#pragma GCC unroll 4
    for (int l = 0; l < L; ++l) sum[l] = K == kLargest && from ? total[l] : Lane<T>(0);
    for (int64_t k = from; k < to; ++k) {
      const Lane<T> x(a[k]);
#pragma GCC unroll 4
      for (int l = 0; l < L; ++l)
        sum[l] = join<K>(sum[l], x - Lane<T>::load(panel + k * cols + l * w), p);
    }
#pragma GCC unroll 4
    for (int l = 0; l < L; ++l) total[l] = K == kLargest || !from ? sum[l] : total[l] + sum[l];
  }
#pragma GCC unroll 4
  for (int l = 0; l < L; ++l) finish<K>(total[l], inverse).store(out + l * w);
}

template <Kind K, class T>
void panel_of(double p, int64_t i0, int64_t n, int64_t j0, int64_t cols, int64_t d, const T* a,
              const T* b, T* panel, T* out, const DistancePlace& place) {
  constexpr int w = Lane<T>::size, most = kDistanceCols;
  const int wide = static_cast<int>((cols + w - 1) / w * w);
  for (int64_t k = 0; k < d; ++k) {
    for (int64_t j = 0; j < cols; ++j) panel[k * wide + j] = b[j * d + k];
    for (int64_t j = cols; j < wide; ++j) panel[k * wide + j] = 0;
  }
  const Lane<T> power(static_cast<T>(p)), inverse(static_cast<T>(1 / p));
  T row[most];
  for (int64_t i = 0; i < n; ++i) {
    const int64_t first = !place.pairs || i0 + i < j0 ? 0 : i0 + i + 1 - j0;
    if (first >= cols) continue;
    T* to = out + place_of<T>(place, i0 + i, j0 + first);
    const bool straight = first == 0 && wide == cols && (place.pairs || place.col == 1);
    T* into = straight ? to : row;
    if (d == 0) __builtin_memset(into, 0, wide * sizeof(T));
    int64_t j = d == 0 ? wide : 0;
    for (; j + 4 * w <= wide; j += 4 * w)
      distances<K, T, 4>(d, a + i * d, panel + j, wide, power, inverse, into + j);
    for (; j < wide; j += w)
      distances<K, T, 1>(d, a + i * d, panel + j, wide, power, inverse, into + j);
    if (straight) continue;
    if (place.pairs || place.col == 1) {
      __builtin_memcpy(to, row + first, (cols - first) * sizeof(T));
    } else {
      for (j = first; j < cols; ++j) to[(j - first) * place.col] = row[j];
    }
  }
}

// How much of the gradient of a distance (which is c, divided by what it needs of the distance y)
// goes to an element that is x apart.
template <Kind K, class T>
TYCHO_INLINE Lane<T> share(Lane<T> x, Lane<T> c, Lane<T> y, Lane<T> p) {
  const Lane<T> zero(0);
  if constexpr (K == kCount) return zero;
  if constexpr (K == kSquares) return c * x;
  if constexpr (K == kPowers) {
    const Lane<T> slope = c * pow(abs(x), p);
    return select(x > zero, slope, select(x < zero, -slope, select(x == x, zero, x)));
  }
  if constexpr (K == kLargest) c = select(abs(x) == y, c, zero);
  return select(x > zero, c, zero) - select(x < zero, c, zero);
}

// Numbers of n rows against all m, those of a lane's worth of rows side by side; zeros beyond n, and
// where a row of pairs meets itself.
template <class T>
void turn(const T* from, const DistancePlace& at, int64_t i0, int64_t n, int64_t m, T* to) {
  constexpr int w = Lane<T>::size;
  if (!at.pairs)
    return pack_panel<T, w>(from + i0 * at.row, at.row, at.col, static_cast<int>(n), m, to);
  __builtin_memset(to, 0, m * w * sizeof(T));
  for (int64_t j = 0; j < i0; ++j)  // these lie side by side
    __builtin_memcpy(to + j * w, from + place_of<T>(at, j, i0), n * sizeof(T));
  const T* row[w];
  for (int64_t i = 0; i < n; ++i)
    row[i] = from + (place_of<T>(at, i0 + i, i0 + i + 1) - (i0 + i + 1));
  for (int64_t j = i0; j < m; ++j)
    for (int64_t i = 0; i < n; ++i)
      if (j > i0 + i)
        to[j * w + i] = row[i][j];
      else if (j < i0 + i)
        to[j * w + i] = row[j - i0][i0 + i];
}

template <Kind K, class T>
void grad_block(double p, int64_t i0, int64_t n, int64_t m, int64_t d, const T* a, const T* b,
                const T* g, const DistancePlace& g_at, const T* y, const DistancePlace& y_at,
                T* room, T* out) {
  constexpr int w = Lane<T>::size;
  T *share_of = room, *size_of = room + m * w, *turned = size_of + m * w;
  turn(g, g_at, i0, n, m, share_of);
  if constexpr (K != kCount && K != kSum) turn(y, y_at, i0, n, m, size_of);
  const Lane<T> less(static_cast<T>(p - 1)), zero(0), one(1);
  if constexpr (K == kSquares || K == kPowers)
    for (int64_t j = 0; j < m; ++j) {
      const Lane<T> c = Lane<T>::load(share_of + j * w), size = Lane<T>::load(size_of + j * w);
      const auto none = size == zero;
      const Lane<T> some = select(none, one, size);
      select(none, zero, c / (K == kSquares ? some : pow(some, less))).store(share_of + j * w);
    }
  // Where rows are few, lanes are elements of one.
  if (n * ((d + w - 1) / w) < d) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t k = 0; k < d; k += w) {
        const int some = static_cast<int>(d - k < w ? d - k : w);
        const Lane<T> x = load_part(a + (i0 + i) * d + k, some);
        Lane<T> sum(0);
        for (int64_t j = 0; j < m; ++j)
          sum += share<K>(x - load_part(b + j * d + k, some), Lane<T>(share_of[j * w + i]),
                          K == kLargest ? Lane<T>(size_of[j * w + i]) : zero, less);
        store_part(sum, out + (i0 + i) * d + k, some);
      }
    return;
  }
  pack_panel<T, w>(a + i0 * d, d, 1, static_cast<int>(n), d, turned);
  const auto columns = [&](int64_t k, auto count) __attribute__((always_inline)) {
    constexpr int c = decltype(count)::value;
    Lane<T> sum[c], x[c];
#pragma GCC unroll 8
    for (int q = 0; q < c; ++q) sum[q] = zero, x[q] = Lane<T>::load(turned + (k + q) * w);
    for (int64_t j = 0; j < m; ++j) {
      const Lane<T> part = Lane<T>::load(share_of + j * w);
      const Lane<T> size = K == kLargest ? Lane<T>::load(size_of + j * w) : zero;
#pragma GCC unroll 8
      for (int q = 0; q < c; ++q)
        sum[q] += share<K>(x[q] - Lane<T>(b[j * d + k + q]), part, size, less);
    }
    T column[w];
#pragma GCC unroll 8
    for (int q = 0; q < c; ++q) {
      sum[q].store(column);
      for (int64_t i = 0; i < n; ++i) out[(i0 + i) * d + k + q] = column[i];
    }
  };
  int64_t k = 0;
  for (; k + 8 <= d; k += 8) columns(k, Number<8>());
  for (; k + 2 <= d; k += 2) columns(k, Number<2>());
  if (k < d) columns(k, Number<1>());
}

template <class F>
TYCHO_INLINE void of_kind(double p, F&& f) {
  switch (kind_of(p)) {
    case kCount:
      return f(Number<kCount>());
    case kSum:
      return f(Number<kSum>());
    case kSquares:
      return f(Number<kSquares>());
    case kLargest:
      return f(Number<kLargest>());
    case kPowers:
      return f(Number<kPowers>());
  }
}

}  // namespace

void distance_panel(bool wide, double p, int64_t i0, int64_t n, int64_t j0, int64_t cols, int64_t d,
                    const void* a, const void* b, void* panel, void* out, DistancePlace place) {
  const auto run = [&](auto kind, auto zero) __attribute__((always_inline)) {
    using T = decltype(zero);
    panel_of<Kind(decltype(kind)::value), T>(p, i0, n, j0, cols, d, static_cast<const T*>(a),
                                             static_cast<const T*>(b), static_cast<T*>(panel),
                                             static_cast<T*>(out), place);
  };
  if (wide)
    of_kind(p, [&](auto kind) { run(kind, 0.0); });
  else
    of_kind(p, [&](auto kind) { run(kind, 0.0f); });
}

int distance_grad_rows(bool wide) { return wide ? Lane<double>::size : Lane<float>::size; }

void distance_grad_block(bool wide, double p, int64_t i0, int64_t n, int64_t m, int64_t d,
                         const void* a, const void* b, const void* g, DistancePlace g_place,
                         const void* y, DistancePlace y_place, void* room, void* out) {
  const auto run = [&](auto kind, auto zero) __attribute__((always_inline)) {
    using T = decltype(zero);
    grad_block<Kind(decltype(kind)::value), T>(p, i0, n, m, d, static_cast<const T*>(a),
                                               static_cast<const T*>(b), static_cast<const T*>(g),
                                               g_place, static_cast<const T*>(y), y_place,
                                               static_cast<T*>(room), static_cast<T*>(out));
  };
  if (wide)
    of_kind(p, [&](auto kind) { run(kind, 0.0); });
  else
    of_kind(p, [&](auto kind) { run(kind, 0.0f); });
}

}  // namespace tycho::cpu::TYCHO_LEVEL
