// Spectra and QR of small matrices in lanes: a number of every matrix is one lane. A matrix that is
// done is turned by nothing until its neighbours are done too, so it does not depend on them.
#include "engine/cpu/matmul/spectra.h"

#include "engine/cpu/lanes/math_basic.h"
#include "engine/cpu/lanes/parts.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

constexpr int kMostSweeps = 30;  // six to ten are usual

template <class T>
constexpr T kEpsilon = sizeof(T) == 4 ? T(0x1p-23) : T(0x1p-52);

// Number (i, j) of `count` matrices, the last one again where there is none.
template <class T>
TYCHO_INLINE Lane<T> take(const T* from, int64_t step, int64_t count) {
  T v[Lane<T>::size];
  for (int64_t k = 0; k < Lane<T>::size; ++k) v[k] = from[(k < count ? k : count - 1) * step];
  return Lane<T>::load(v);
}
template <class T>
TYCHO_INLINE void give(Lane<T> x, T* to, int64_t step, int64_t count) {
  T v[Lane<T>::size];
  x.store(v);
  for (int64_t k = 0; k < count; ++k) to[k * step] = v[k];
}

// Brings matrices whose squares would leave the type's range to a largest number of 1; returns what
// to multiply results by.
template <class T>
Lane<T> to_range(Lane<T>* m, int64_t n) {
  using L = Lane<T>;
  constexpr T low = sizeof(T) == 4 ? T(0x1p-30) : T(0x1p-300), high = 1 / low;
  L most(0);
  for (int64_t i = 0; i < n; ++i) most = maximum(most, abs_float(m[i]));
  const auto inside = (most == 0) | ((most > low) & (most < high));
  if (!any(~inside)) return L(1);
  const L scale = select(inside, L(1), most);
  for (int64_t i = 0; i < n; ++i) m[i] = m[i] / scale;
  return scale;
}

// The rotation that makes two directions of squared lengths `a` and `b` with product `ab`
// orthogonal, where `wanted`.
template <class T>
struct Turn {
  Lane<T> c, s, t;
  TYCHO_INLINE Turn(Lane<T> a, Lane<T> b, Lane<T> ab, Mask<T> wanted) {
    using L = Lane<T>;
    const L z = (b - a) / (ab + ab), size = abs_float(z);
    const L angle = L(1) / (size + sqrt(fma(z, z, L(1))));
    t = select(wanted, select(z < 0, -angle, angle), L(0));
    c = L(1) / sqrt(fma(t, t, L(1)));
    s = c * t;
  }
  TYCHO_INLINE void operator()(Lane<T>& x, Lane<T>& y) const {
    const Lane<T> was = x;
    x = fma(c, was, -(s * y));
    y = fma(s, was, c * y);
  }
};

// Directions [first, end) of `length` numbers, unit vectors at right angles to each other and to those
// before, where `wanted`: of every axis, what is left of the one that has most left.
template <class T>
void complete(Lane<T>* m, int64_t length, int64_t first, int64_t end, Mask<T> wanted) {
  using L = Lane<T>;
  for (int64_t j = first; j < end; ++j) {
    L best[kSmallSide], most(-1);
    for (int64_t axis = 0; axis < length; ++axis) {
      L x[kSmallSide];
      for (int64_t i = 0; i < length; ++i) x[i] = L(i == axis ? 1 : 0);
      for (int again = 0; again < 2; ++again)
        for (int64_t k = 0; k < j; ++k) {
          L along(0);
          for (int64_t i = 0; i < length; ++i) along = fma(m[k * length + i], x[i], along);
          for (int64_t i = 0; i < length; ++i) x[i] = fma(-along, m[k * length + i], x[i]);
        }
      L left(0);
      for (int64_t i = 0; i < length; ++i) left = fma(x[i], x[i], left);
      const auto more = left > most;
      most = select(more, left, most);
      for (int64_t i = 0; i < length; ++i) best[i] = select(more, x[i], best[i]);
    }
    const L by = L(1) / sqrt(most);
    for (int64_t i = 0; i < length; ++i)
      m[j * length + i] = select(wanted, best[i] * by, m[j * length + i]);
  }
}

// u and vh (or neither) are column by column.
template <class T>
void singular_group(int64_t rows, int64_t columns, int64_t u_columns, int64_t vh_rows,
                    int64_t count, const T* a, T* values, T* u, T* vh) {
  using L = Lane<T>;
  const bool wide = columns > rows;  // then the rows are turned
  const int64_t n = wide ? rows : columns, length = wide ? columns : rows;
  L m[kSmallSide * kSmallSide];  // n directions of `length` numbers
  L v[kSmallSide * kSmallSide];  // how the directions were turned
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      m[wide ? i * length + j : j * length + i] = take(a + i * columns + j, rows * columns, count);
  for (int64_t i = 0; i < n * n && u; ++i) v[i] = L(i % (n + 1) == 0 ? 1 : 0);
  const L scale = to_range(m, n * length);
  const T least = kEpsilon<T> * kEpsilon<T> * static_cast<T>(length);
  bool more = n > 1;
  for (int sweep = 0; sweep < kMostSweeps && more; ++sweep) {
    more = false;
    for (int64_t p = 0; p < n - 1; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        L *const x = m + p * length, *const y = m + q * length;
        L xx(0), yy(0), xy(0);
        for (int64_t i = 0; i < length; ++i) {
          xx = fma(x[i], x[i], xx);
          yy = fma(y[i], y[i], yy);
          xy = fma(x[i], y[i], xy);
        }
        const auto wanted = xy * xy > xx * yy * L(least);
        if (!any(wanted)) continue;
        more = true;
        const Turn<T> turn(xx, yy, xy, wanted);
        for (int64_t i = 0; i < length; ++i) turn(x[i], y[i]);
        for (int64_t i = 0; i < n && u; ++i) turn(v[p * n + i], v[q * n + i]);
      }
  }
  L found[kSmallSide];
  for (int64_t j = 0; j < n; ++j) {
    L sum(0);
    for (int64_t i = 0; i < length; ++i) sum = fma(m[j * length + i], m[j * length + i], sum);
    found[j] = sqrt(sum);
  }
  const auto swap = [](Mask<T> turned, L* x, L* y, int64_t size) {
    for (int64_t i = 0; i < size; ++i) {
      const L was = x[i];
      x[i] = select(turned, y[i], was);
      y[i] = select(turned, was, y[i]);
    }
  };
  for (int64_t j = 0; j < n; ++j)
    for (int64_t k = j + 1; k < n; ++k) {
      const auto turned = found[k] > found[j];
      if (!any(turned)) continue;
      swap(turned, found + j, found + k, 1);
      if (!u) continue;
      swap(turned, m + j * length, m + k * length, length);
      swap(turned, v + j * n, v + k * n, n);
    }
  for (int64_t j = 0; j < n; ++j) give(found[j] * scale, values + j, n, count);
  if (!u) return;
  // What is left of dependent directions is noise, whose squares may leave the type's range.
  const L none = found[0] * L(kEpsilon<T> / 256);
  for (int64_t j = 0; j < n; ++j) {
    const auto some = found[j] > none;
    for (int64_t i = 0; i < length; ++i) m[j * length + i] = m[j * length + i] / found[j];
    if (any(~some)) complete(m, length, j, j + 1, ~some);
  }
  const int64_t directions = wide ? vh_rows : u_columns;
  if (directions > n) complete(m, length, n, directions, m[0] == m[0]);
  for (int64_t j = 0; j < directions; ++j)
    for (int64_t i = 0; i < length; ++i)
      wide ? give(m[j * length + i], vh + i * vh_rows + j, vh_rows * columns, count)
           : give(m[j * length + i], u + j * rows + i, rows * u_columns, count);
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < n; ++i)
      wide ? give(v[j * n + i], u + j * rows + i, rows * u_columns, count)
           : give(v[j * n + i], vh + i * vh_rows + j, vh_rows * columns, count);
}

template <class T>
void eigen_group(int64_t n, bool upper, int64_t count, const T* a, T* values, T* vectors) {
  using L = Lane<T>;
  L m[kSmallSide * kSmallSide], v[kSmallSide * kSmallSide];  // v's rows are the vectors
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j <= i; ++j)
      m[i * n + j] = m[j * n + i] = take(a + (upper ? j * n + i : i * n + j), n * n, count);
  const L scale = to_range(m, n * n);
  L most(0);
  for (int64_t i = 0; i < n * n; ++i) {
    most = maximum(most, abs_float(m[i]));
    v[i] = L(i % (n + 1) == 0 ? 1 : 0);
  }
  const L least = most * L(kEpsilon<T> / 8);
  bool more = n > 1;
  for (int sweep = 0; sweep < kMostSweeps && more; ++sweep) {
    more = false;
    for (int64_t p = 0; p < n - 1; ++p)
      for (int64_t q = p + 1; q < n; ++q) {
        const L off = m[p * n + q];
        const auto wanted = abs_float(off) > least;
        if (!any(wanted)) continue;
        more = true;
        const L pp = m[p * n + p], qq = m[q * n + q];
        const Turn<T> turn(pp, qq, off, wanted);
        for (int64_t i = 0; i < n; ++i) turn(m[p * n + i], m[q * n + i]);
        for (int64_t i = 0; i < n; ++i) {
          m[i * n + p] = m[p * n + i];
          m[i * n + q] = m[q * n + i];
        }
        m[p * n + p] = fma(-turn.t, off, pp);
        m[q * n + q] = fma(turn.t, off, qq);
        m[p * n + q] = m[q * n + p] = select(wanted, L(0), off);
        for (int64_t i = 0; i < n && vectors; ++i) turn(v[p * n + i], v[q * n + i]);
      }
  }
  L found[kSmallSide];
  for (int64_t j = 0; j < n; ++j) found[j] = m[j * (n + 1)];
  for (int64_t j = 0; j < n; ++j)
    for (int64_t k = j + 1; k < n; ++k) {
      const auto turned = found[k] < found[j];
      if (!any(turned)) continue;
      const L small = select(turned, found[k], found[j]);
      found[k] = select(turned, found[j], found[k]);
      found[j] = small;
      for (int64_t i = 0; i < n && vectors; ++i) {
        const L x = v[j * n + i], y = v[k * n + i];
        v[j * n + i] = select(turned, y, x);
        v[k * n + i] = select(turned, x, y);
      }
    }
  for (int64_t j = 0; j < n; ++j) give(found[j] * scale, values + j, n, count);
  for (int64_t i = 0; i < n * n && vectors; ++i) give(v[i], vectors + i, n * n, count);
}

template <class T>
void qr_group(int64_t rows, int64_t columns, int64_t q_columns, int64_t r_rows, int64_t count,
              const T* a, T* q, T* r) {
  using L = Lane<T>;
  L m[kSmallSide * kSmallSide], to[kSmallSide * kSmallSide];  // column by column
  L taus[kSmallSide];
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      m[j * rows + i] = take(a + i * columns + j, rows * columns, count);
  const L scale = to_range(m, rows * columns);
  const int64_t k = rows < columns ? rows : columns;
  // column -= tau * v * (v' column); v begins with 1, which is not stored.
  const auto reflect = [&](int64_t at, L * column) __attribute__((always_inline)) {
    const L* const v = m + at * rows;
    L sum = column[at];
    for (int64_t i = at + 1; i < rows; ++i) sum = fma(v[i], column[i], sum);
    sum = -(sum * taus[at]);
    column[at] += sum;
    for (int64_t i = at + 1; i < rows; ++i) column[i] = fma(v[i], sum, column[i]);
  };
  for (int64_t j = 0; j < k; ++j) {
    L* const x = m + j * rows;
    const L part = to_range(x + j, rows - j);  // what is left of dependent columns is tiny
    L below(0);
    for (int64_t i = j + 1; i < rows; ++i) below = fma(x[i], x[i], below);
    const L first = x[j], size = sqrt(fma(first, first, below));
    const auto some = below > 0;
    const L end = select(some, select(first < 0, size, -size), first);
    taus[j] = select(some, (end - first) / end, L(0));
    const L by = select(some, L(1) / (first - end), L(0));
    for (int64_t i = j + 1; i < rows; ++i) x[i] = x[i] * by;
    x[j] = end * part;
    for (int64_t c = j + 1; c < columns; ++c) reflect(j, m + c * rows);
  }
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = 0; i < r_rows; ++i)
      give(j >= i ? m[j * rows + i] * scale : L(0), r + j * r_rows + i, r_rows * columns, count);
  if (!q) return;
  for (int64_t j = 0; j < q_columns; ++j) {
    L* const column = to + j * rows;
    for (int64_t i = 0; i < rows; ++i) column[i] = L(i == j ? 1 : 0);
    for (int64_t at = (j < k - 1 ? j : k - 1); at >= 0; --at) reflect(at, column);
  }
  for (int64_t i = 0; i < rows * q_columns; ++i) give(to[i], q + i, rows * q_columns, count);
}

// Calls f(zero of the type, first matrix, how many) for as many as the lanes hold.
template <class F>
void each_group(int type, int64_t count, F&& f) {
  const auto run = [&](auto zero) {
    constexpr int64_t size = Lane<decltype(zero)>::size;
    for (int64_t k = 0; k < count; k += size) f(zero, k, count - k < size ? count - k : size);
  };
  type == 0 ? run(0.f) : run(0.0);
}

}  // namespace

void small_singular(int type, int64_t rows, int64_t columns, int64_t u_columns, int64_t vh_rows,
                    int64_t count, const void* a, void* values, void* u, void* vh) {
  const int64_t n = rows < columns ? rows : columns;
  each_group(type, count, [&](auto zero, int64_t k, int64_t some) {
    using T = decltype(zero);
    singular_group(rows, columns, u_columns, vh_rows, some,
                   static_cast<const T*>(a) + k * rows * columns, static_cast<T*>(values) + k * n,
                   u ? static_cast<T*>(u) + k * rows * u_columns : nullptr,
                   u ? static_cast<T*>(vh) + k * vh_rows * columns : nullptr);
  });
}

void small_eigen(int type, int64_t n, bool upper, int64_t count, const void* a, void* values,
                 void* vectors) {
  each_group(type, count, [&](auto zero, int64_t k, int64_t some) {
    using T = decltype(zero);
    eigen_group(n, upper, some, static_cast<const T*>(a) + k * n * n,
                static_cast<T*>(values) + k * n,
                vectors ? static_cast<T*>(vectors) + k * n * n : nullptr);
  });
}

void small_qr(int type, int64_t rows, int64_t columns, int64_t q_columns, int64_t r_rows,
              int64_t count, const void* a, void* q, void* r) {
  each_group(type, count, [&](auto zero, int64_t k, int64_t some) {
    using T = decltype(zero);
    qr_group(rows, columns, q_columns, r_rows, some, static_cast<const T*>(a) + k * rows * columns,
             q ? static_cast<T*>(q) + k * rows * q_columns : nullptr,
             static_cast<T*>(r) + k * r_rows * columns);
  });
}

}  // namespace tycho::cpu::TYCHO_LEVEL
