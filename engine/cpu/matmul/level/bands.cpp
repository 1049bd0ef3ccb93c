// Matrices condensed to bands; see engine/cpu/matmul/bands.h.
#include "engine/cpu/matmul/bands.h"

#include "engine/cpu/lanes/math_basic.h"
#include "engine/cpu/lanes/parts.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

#if defined(TYCHO_LEVEL_v4)
constexpr int kRows = 4;  // at once
#else
constexpr int kRows = 2;
#endif
static_assert(kRows <= kBandRows);

// All vectors begin at a multiple of a lane and are 0 behind their end: [from, to) is whole lanes.
template <class T>
int64_t whole(int64_t at) {
  return at / Lane<T>::size * Lane<T>::size;
}
template <class T>
T product(int64_t from, int64_t to, const T* x, const T* y) {
  using L = Lane<T>;
  L even(0), odd(0);
  int64_t c = whole<T>(from);
  for (; c + L::size < to; c += 2 * L::size) {
    even = fma(L::load(x + c), L::load(y + c), even);
    odd = fma(L::load(x + c + L::size), L::load(y + c + L::size), odd);
  }
  if (c < to) even = fma(L::load(x + c), L::load(y + c), even);
  return total(even + odd);
}
// y = by * y + add * x
template <class T>
void combine(int64_t from, int64_t to, T by, T* y, T add, const T* x) {
  using L = Lane<T>;
  for (int64_t c = whole<T>(from); c < to; c += L::size)
    fma(L(add), L::load(x + c), L(by) * L::load(y + c)).store(y + c);
}
// What comes before a vector in its first lane.
template <class T>
void clear(int64_t from, T* x) {
  for (int64_t c = whole<T>(from); c < from; ++c) x[c] = 0;
}

// x[from, to), 0 before it, becomes the vector of a reflection that leaves *end of it; all 0 where
// there is nothing to reflect. Returns tau.
template <class T>
T reflection(int64_t from, int64_t to, T* x, T* end) {
  constexpr T kNothing = sizeof(T) == 4 ? T(0x1p-100) : T(0x1p-900);
  const T first = x[from];
  x[from] = 0;
  const T below = product(from, to, x, x);
  if (!(below > kNothing)) {
    combine(from, to, T(0), x, T(0), x);
    *end = first;
    return 0;
  }
  const T size = __builtin_sqrt(first * first + below);
  *end = first < 0 ? size : -size;
  combine(from, to, 1 / (first - *end), x, T(0), x);
  x[from] = 1;
  return (*end - first) / *end;
}

// Rows and columns from `from` on of the upper triangle: a -= v w' + w v'; y = a next.
template <class T>
void pass_symmetric(int64_t from, int64_t n, T* a, int64_t row, const T* v, const T* w,
                    const T* next, T* y) {
  using L = Lane<T>;
  for (int64_t c = whole<T>(from); c < n; c += L::size) L(0).store(y + c);
  for (int64_t i = from / kRows * kRows; i < n; i += kRows) {
    T* const p = a + i * row;
    L vi[kRows], wi[kRows], ni[kRows], dot[kRows];
    for (int r = 0; r < kRows; ++r) {
      const bool live = i + r >= from;
      vi[r] = L(live ? -v[i + r] : T(0));
      wi[r] = L(live ? -w[i + r] : T(0));
      ni[r] = L(live ? next[i + r] : T(0));
      dot[r] = L(0);
    }
    int64_t c = whole<T>(i);
    L vc = L::load(v + c), wc = L::load(w + c), nc = L::load(next + c), sum = L::load(y + c);
    for (int r = 0; r < kRows; ++r) {  // through the diagonal
      T* const at = p + r * row + c;
      const L x = fma(vi[r], wc, fma(wi[r], vc, L::load(at)));
      x.store(at);
      const int before = static_cast<int>(i + r - c);
      sum = fma(ni[r], select(first<T>(before), L(0), x), sum);
      dot[r] = nc * select(first<T>(before + 1), L(0), x);
    }
    sum.store(y + c);
    for (c += L::size; c < n; c += L::size) {
      vc = L::load(v + c), wc = L::load(w + c), nc = L::load(next + c), sum = L::load(y + c);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        T* const at = p + r * row + c;
        const L x = fma(vi[r], wc, fma(wi[r], vc, L::load(at)));
        x.store(at);
        sum = fma(ni[r], x, sum);
        dot[r] = fma(nc, x, dot[r]);
      }
      sum.store(y + c);
    }
    for (int r = 0; r < kRows; ++r) y[i + r] += total(dot[r]);
  }
}

// Rows [from, m), columns from `column` on: a -= v y' + x u'; sum = a' next.
template <class T>
void pass_rows(int64_t from, int64_t m, int64_t column, int64_t n, T* a, int64_t row, const T* v,
               const T* y, const T* x, const T* u, const T* next, T* sums) {
  using L = Lane<T>;
  for (int64_t c = whole<T>(column); c < n; c += L::size) L(0).store(sums + c);
  for (int64_t i = from; i < m; i += kRows) {
    T* const p = a + i * row;
    L vi[kRows], xi[kRows], ni[kRows];
    for (int r = 0; r < kRows; ++r)
      vi[r] = L(-v[i + r]), xi[r] = L(-x[i + r]), ni[r] = L(next[i + r]);
    for (int64_t c = whole<T>(column); c < n; c += L::size) {
      const L yc = L::load(y + c), uc = L::load(u + c);
      L sum = L::load(sums + c);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        T* const at = p + r * row + c;
        const L t = fma(vi[r], yc, fma(xi[r], uc, L::load(at)));
        t.store(at);
        sum = fma(ni[r], t, sum);
      }
      sum.store(sums + c);
    }
  }
}
// out[i] = a[i] u for these rows
template <class T>
void multiply_rows(int64_t from, int64_t m, int64_t column, int64_t n, const T* a, int64_t row,
                   const T* u, T* out) {
  using L = Lane<T>;
  for (int64_t i = from; i < m; i += 4) {
    const T* const p = a + i * row;
    L dot[4] = {L(0), L(0), L(0), L(0)};
    for (int64_t c = whole<T>(column); c < n; c += L::size) {
      const L uc = L::load(u + c);
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) dot[r] = fma(uc, L::load(p + r * row + c), dot[r]);
    }
    for (int r = 0; r < 4; ++r) out[i + r] = total(dot[r]);
  }
}

template <class T>
void tridiagonal_of(int64_t n, T* a, int64_t row, T* d, T* e, T* tau, T* room) {
  const T* v = room + 2 * row;  // of the step before
  T *w = room, *next = room + row;
  __builtin_memset(room, 0, 3 * row * sizeof(T));
  for (int64_t j = 0; j < n; ++j) {
    T* const own = a + j * row;
    const T vj = v[j], wj = w[j];
    combine(j, n, T(1), own, -vj, static_cast<const T*>(w));
    combine(j, n, T(1), own, -wj, v);
    d[j] = own[j];
    if (j + 1 == n) break;
    clear(j + 1, own);
    tau[j] = reflection(j + 1, n, own, e + j);
    pass_symmetric(j + 1, n, a, row, v, static_cast<const T*>(w), static_cast<const T*>(own), next);
    clear(j + 1, next);
    const T half = tau[j] *
                   product(j + 1, n, static_cast<const T*>(next), static_cast<const T*>(own)) *
                   tau[j] / 2;
    combine(j + 1, n, tau[j], next, -half, static_cast<const T*>(own));
    v = own;
    T* const last = w;
    w = next;
    next = last;
  }
}

template <class T>
void bidiagonal_of(int64_t m, int64_t n, T* a, int64_t row, T* vectors, int64_t v_row, T* d, T* e,
                   T* tau_q, T* tau_p, T* room) {
  T *y = room, *next = room + row, *x = room + 3 * row;
  const T *u = room + 2 * row, *v = x;  // of the step before; all are 0 now
  __builtin_memset(room, 0, (3 * row + v_row) * sizeof(T));
  for (int64_t j = 0; j < n; ++j) {
    T *const left = vectors + j * v_row, *const own = a + j * row;
    const T yj = y[j], uj = u[j];
    for (int64_t i = j; i < m; ++i) left[i] = a[i * row + j] - v[i] * yj - x[i] * uj;
    tau_q[j] = reflection(j, m, left, d + j);
    if (j + 1 == n) break;
    pass_rows(j, m, j + 1, n, a, row, v, static_cast<const T*>(y), static_cast<const T*>(x), u,
              static_cast<const T*>(left), next);
    clear(j + 1, next);
    clear(j + 1, own);
    combine(j + 1, n, tau_q[j], next, T(0), static_cast<const T*>(next));
    combine(j + 1, n, T(1), own, T(-1), static_cast<const T*>(next));
    tau_p[j] = reflection(j + 1, n, own, e + j);
    multiply_rows(j + 1, m, j + 1, n, a, row, static_cast<const T*>(own), x);
    const T along = product(j + 1, n, static_cast<const T*>(next), static_cast<const T*>(own));
    combine(j + 1, m, tau_p[j], x, -tau_p[j] * along, static_cast<const T*>(left));
    u = own;
    v = left;
    T* const last = y;
    y = next;
    next = last;
  }
}

}  // namespace

void tridiagonal(int type, int64_t n, void* a, int64_t row, void* d, void* e, void* tau,
                 void* room) {
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    tridiagonal_of(n, static_cast<T*>(a), row, static_cast<T*>(d), static_cast<T*>(e),
                   static_cast<T*>(tau), static_cast<T*>(room));
  };
  type == 0 ? run(float{}) : run(double{});
}

void bidiagonal(int type, int64_t m, int64_t n, void* a, int64_t row, void* v, int64_t v_row,
                void* d, void* e, void* tau_q, void* tau_p, void* room) {
  const auto run = [&](auto zero) {
    using T = decltype(zero);
    bidiagonal_of(m, n, static_cast<T*>(a), row, static_cast<T*>(v), v_row, static_cast<T*>(d),
                  static_cast<T*>(e), static_cast<T*>(tau_q), static_cast<T*>(tau_p),
                  static_cast<T*>(room));
  };
  type == 0 ? run(float{}) : run(double{});
}

}  // namespace tycho::cpu::TYCHO_LEVEL
