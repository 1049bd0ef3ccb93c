// The folds of cpu/reduce/fold.h whose state is more than a number: extremes with positions,
// moments.
#pragma once
#include "engine/cpu/reduce/level/fold.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// ArgMax and ArgMin.
template <class T, bool Largest>
struct Arg {
  using Value = Extreme<T, Itself, Largest>;
  using S = typename SlotOf<T>::S;

  static void init(Slot* s, int64_t cap, int64_t n) {
    for (int64_t j = 0; j < n; ++j) {
      slot<T>(s[j]) = 0;
      s[cap + j].i = -1;
    }
  }
  static TYCHO_INLINE bool wins(S x, const Slot* s, int64_t cap) {
    return s[cap].i < 0 || better<Largest, S>(x, slot<T>(*s));
  }
  // Of equal ones, the first.
  static void merge(Slot* to, int64_t to_cap, const Slot* from, int64_t from_cap, int64_t n) {
    for (int64_t j = 0; j < n; ++j) {
      const int64_t position = from[from_cap + j].i;
      if (position < 0) continue;
      const bool earlier =
          position < to[to_cap + j].i && !better<Largest, S>(slot<T>(to[j]), slot<T>(from[j]));
      if (!earlier && !wins(slot<T>(from[j]), to + j, to_cap)) continue;
      slot<T>(to[j]) = slot<T>(from[j]);
      to[to_cap + j].i = from[from_cap + j].i;
    }
  }
  // Position of the first element that is `value`, or the first nan.
  static int64_t find(const T* x, int64_t n, T value) {
    constexpr int w = Lane<T>::size;
    const Lane<T> v(value);
    const bool nan = value != value;
    int64_t i = 0;
    for (; i + w <= n; i += w) {
      const Lane<T> l = Lane<T>::load(x + i);
      if (any(nan ? l != l : l == v)) break;
    }
    while (i < n && !(nan ? x[i] != x[i] : x[i] == value)) ++i;
    return i;
  }
  // The extreme of a block first; its position is looked for only when it wins.
  static void run(const void* px, int64_t n, int64_t at, Slot* s, int64_t cap) {
    const T* x = static_cast<const T*>(px);
    while (n > 0) {
      const int64_t m = n < run_block<T> ? n : run_block<T>;
      Slot one;
      slot<T>(one) = Value::worst;
      Value::fold(accumulate<Value>(x, m), &one);
      const T best = static_cast<T>(slot<T>(one));
      if (wins(best, s, cap)) {
        slot<T>(*s) = best;
        s[cap].i = at + find(x, m, best);
      }
      x += m;
      n -= m;
      at += m;
    }
  }

  struct A {
    Lane<T> v, position;
  };
  static TYCHO_INLINE void step(A& a, Lane<T> x, Lane<T> row) {
    Mask<T> take = Largest ? x > a.v : x < a.v;
    if constexpr (!is_int<T>) take = (Largest ? ~(x <= a.v) : ~(x >= a.v)) & (a.v == a.v);
    a.v = select(take, x, a.v);
    a.position = select(take, row, a.position);
  }
  static TYCHO_INLINE Lane<T> row_number(int64_t r) {
    return from_bits<T>(typename Raw<T>::Bits{} + static_cast<typename Raw<T>::Bit>(r));
  }
  static void rows(const void* px, int64_t stride, int64_t count, int64_t cols, int64_t at, Slot* s,
                   int64_t cap) {
    constexpr int w = Lane<T>::size;
    const int64_t full = cols / w;
    const int rest = static_cast<int>(cols % w);
    A tile[kFoldCols / w + 1];
    const T* x = static_cast<const T*>(px);
    bool fresh = s[cap].i < 0;  // the columns have seen equally many elements
    for (; count > 0; fresh = false) {
      const int64_t m = count < 1 << 20 ? count : 1 << 20;
      for (int64_t j = 0; j < full; ++j) tile[j] = {Lane<T>::load(x + j * w), row_number(0)};
      if (rest) tile[full] = {load_part<T>(x + full * w, rest, 0), row_number(0)};
      int64_t r = 1;
      for (; r + 4 <= m; r += 4) {
        const T *p = x + r * stride, *q = p + stride, *u = q + stride, *v = u + stride;
        const Lane<T> i0 = row_number(r), i1 = row_number(r + 1), i2 = row_number(r + 2),
                      i3 = row_number(r + 3);
        for (int64_t j = 0; j < full; ++j) {
          A a = tile[j];
          step(a, Lane<T>::load(p + j * w), i0);
          step(a, Lane<T>::load(q + j * w), i1);
          step(a, Lane<T>::load(u + j * w), i2);
          step(a, Lane<T>::load(v + j * w), i3);
          tile[j] = a;
        }
        if (rest)
          for (int k = 0; k < 4; ++k)
            step(tile[full], load_part<T>(p + k * stride + full * w, rest, 0), row_number(r + k));
      }
      for (; r < m; ++r) {
        const T* p = x + r * stride;
        for (int64_t j = 0; j < full; ++j) step(tile[j], Lane<T>::load(p + j * w), row_number(r));
        if (rest) step(tile[full], load_part<T>(p + full * w, rest, 0), row_number(r));
      }
      for (int64_t j = 0; j < full + (rest != 0); ++j) {
        T v[w];
        typename Raw<T>::Bit position[w];
        tile[j].v.store(v);
        __builtin_memcpy(position, &tile[j].position.v, sizeof position);
        Slot* const to = s + j * w;
        const int n = j < full ? w : rest;
        if (fresh) {
          for (int k = 0; k < n; ++k) {
            slot<T>(to[k]) = v[k];
            to[cap + k].i = at + static_cast<int64_t>(position[k]);
          }
          continue;
        }
        for (int k = 0; k < n; ++k) {
          if (!wins(v[k], to + k, cap)) continue;
          slot<T>(to[k]) = v[k];
          to[cap + k].i = at + static_cast<int64_t>(position[k]);
        }
      }
      x += m * stride;
      at += m;
      count -= m;
    }
  }
};
template <class T, bool Largest>
constexpr Fold make_arg() {
  using F = Arg<T, Largest>;
  return {2, F::init, F::run, each<T, F::run>, F::rows, F::merge, nullptr};
}

// Count, mean and squared differences. A block that fits the first-level cache is read twice: for
// its mean, then for the differences, which so are small and exact; blocks join by Chan's formula.
template <class T>
struct MomentsOf {
  static void init(Slot* s, int64_t cap, int64_t n) {
    for (int c = 0; c < 3; ++c)
      for (int64_t j = 0; j < n; ++j) s[c * cap + j].d = 0;
  }
  // Joins equally many elements into each of `n` columns.
  static TYCHO_INLINE void join(Slot* s, int64_t cap, int64_t n, double more, const double* mean,
                                const double* squares) {
    Slot *m = s + cap, *q = s + 2 * cap;
    for (int64_t j = 0; j < n; ++j) {
      const double have = s[j].d, share = more / (have + more), d = mean[j] - m[j].d;
      m[j].d += d * share;
      q[j].d += squares[j] + d * d * (have * share);
      s[j].d = have + more;
    }
  }
  static void merge(Slot* to, int64_t to_cap, const Slot* from, int64_t from_cap, int64_t n) {
    for (int64_t j = 0; j < n; ++j)
      if (from[j].d > 0)
        join(to + j, to_cap, 1, from[j].d, &from[from_cap + j].d, &from[2 * from_cap + j].d);
  }

  static TYCHO_INLINE double total(Lane<T> a) {
    Slot sum;
    sum.d = 0;
    Add<T, Itself>::fold(a, &sum);
    return sum.d;
  }
  static void run(const void* px, int64_t n, int64_t, Slot* s, int64_t cap) {
    constexpr int w = Lane<T>::size;
    const T* x = static_cast<const T*>(px);
    while (n > 0) {
      const int64_t m = n < run_block<T> ? n : run_block<T>;
      const double mean = total(accumulate<Add<T, Itself>>(x, m)) / static_cast<double>(m);
      const T middle = static_cast<T>(mean);
      const Lane<T> center(middle);
      Lane<T> d[4], q[4];
      for (int k = 0; k < 4; ++k) d[k] = q[k] = Lane<T>(0);
      int64_t i = 0;
      for (; i + 4 * w <= m; i += 4 * w)
#pragma GCC unroll 4
        for (int k = 0; k < 4; ++k) {
          const Lane<T> e = Lane<T>::load(x + i + k * w) - center;
          d[k] += e;
          q[k] = fma(e, e, q[k]);
        }
      for (; i < m; i += w) {
        const Lane<T> e = i + w <= m
                              ? Lane<T>::load(x + i) - center
                              : load_part<T>(x + i, static_cast<int>(m - i), middle) - center;
        d[0] += e;
        q[0] = fma(e, e, q[0]);
      }
      // The differences' own mean corrects what rounding `middle` left.
      const double off = total((d[0] + d[1]) + (d[2] + d[3])),
                   squares = total((q[0] + q[1]) + (q[2] + q[3])),
                   exact = static_cast<double>(middle) + off / static_cast<double>(m),
                   least = squares - off * off / static_cast<double>(m),
                   positive = least < 0 ? 0 : least;
      join(s, cap, 1, static_cast<double>(m), &exact, &positive);
      x += m;
      n -= m;
    }
  }
  static void rows(const void* px, int64_t step, int64_t count, int64_t cols, int64_t, Slot* s,
                   int64_t cap) {
    constexpr int w = Lane<T>::size, block = 256;
    const T* x = static_cast<const T*>(px);
    for (; count > 0; count -= 32, x += 32 * step) {
      const int64_t m = count < 32 ? count : 32;
      const double one = 1 / static_cast<double>(m);
      for (int64_t j0 = 0; j0 < cols; j0 += block) {
        const int64_t n = cols - j0 < block ? cols - j0 : block, full = n / w;
        const int rest = static_cast<int>(n % w);
        Lane<T> center[block / w + 1], off[block / w + 1], squares[block / w + 1];
        for (int64_t j = 0; j < full + (rest != 0); ++j)
          center[j] = off[j] = squares[j] = Lane<T>(0);
        const auto at = [&](int64_t r, int64_t j) __attribute__((always_inline)) {
          const T* p = x + r * step + j0 + j * w;
          return j < full ? Lane<T>::load(p) : load_part<T>(p, rest, 0);
        };
        for (int64_t r = 0; r < m; ++r) {
          for (int64_t j = 0; j < full; ++j) center[j] += at(r, j);
          if (rest) center[full] += at(r, full);
        }
        for (int64_t j = 0; j < full + (rest != 0); ++j) center[j] *= Lane<T>(one);
        for (int64_t r = 0; r < m; ++r)
          for (int64_t j = 0; j < full + (rest != 0); ++j) {
            const Lane<T> e = at(r, j) - center[j];
            off[j] += e;
            squares[j] = fma(e, e, squares[j]);
          }
        double mean[block + w], least[block + w];
        for (int64_t j = 0; j < full + (rest != 0); ++j) {
          T c[w], o[w], q[w];
          center[j].store(c);
          off[j].store(o);
          squares[j].store(q);
          for (int k = 0; k < w; ++k) {
            const double d = o[k], e = q[k] - d * d * one;
            mean[j * w + k] = static_cast<double>(c[k]) + d * one;
            least[j * w + k] = e < 0 ? 0 : e;
          }
        }
        join(s + j0, cap, n, static_cast<double>(m), mean, least);
      }
    }
  }
};
template <class T>
constexpr Fold make_moments() {
  using F = MomentsOf<T>;
  if constexpr (is_int<T>)
    return {};
  else
    return {3, F::init, F::run, each<T, F::run>, F::rows, F::merge, nullptr};
}

// Every fold in lanes of T, by FoldOp.
template <class T>
constexpr Fold folds[static_cast<int>(FoldOp::Count_)] = {
#define FOLD(name, ...) row_fold<T, FoldOp::name, Value_##name>(),
#include "engine/ops/reduce/reduce.def"
    make_arg<T, true>(), make_arg<T, false>(), make_moments<T>()};

}  // namespace
}  // namespace tycho::cpu::TYCHO_LEVEL
