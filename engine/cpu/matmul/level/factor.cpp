// The small blocks of factorisations; see engine/cpu/matmul/factor.h.
#include "engine/cpu/matmul/factor.h"

#include "engine/cpu/lanes/math_basic.h"
#include "engine/cpu/lanes/parts.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

template <class T>
TYCHO_INLINE T magnitude(T x) {
  return static_cast<T>(__builtin_fabs(x));
}

template <class T>
int64_t panel_lu(T* panel, int64_t m, int64_t w, int* swaps) {
  using L = Lane<T>;
  constexpr int kLanes = kFactorBlock / L::size ? kFactorBlock / L::size : 1;
  static_assert(kFactorBlock % L::size == 0);
  int64_t missing = 0, at = 0;
  for (int64_t i = 1; i < m; ++i)
    if (magnitude(panel[i * kFactorBlock]) > magnitude(panel[at * kFactorBlock])) at = i;
  for (int64_t j = 0; j < w; ++j) {
    T* const top = panel + j * kFactorBlock;
    swaps[j] = static_cast<int>(at);
    L row[kLanes];
    for (int k = 0; k < kLanes; ++k) {
      const L below = L::load(top + k * L::size);
      row[k] = L::load(panel + at * kFactorBlock + k * L::size);
      below.store(panel + at * kFactorBlock + k * L::size);
      row[k].store(top + k * L::size);
      const int64_t done = j + 1 - k * L::size;  // of these lanes
      row[k] = done <= 0         ? row[k]
               : done >= L::size ? L(0)
                                 : select(first<T>(static_cast<int>(done)), L(0), row[k]);
    }
    const T pivot = top[j];
    if (pivot == 0 && missing == 0) missing = j + 1;
    const T inverse = 1 / pivot;
    const bool normal = magnitude(pivot) >= Format<T>::smallest_normal;  // so is the inverse
    // The largest of the next column is sought in two chains, so that a row does not wait for the
    // last.
    T most[2] = {-1, -1};
    int64_t place[2] = {j + 1, j + 1};
    const auto eliminate = [&](int64_t i, int chain) {
      T* const p = panel + i * kFactorBlock;
      if (pivot != 0) {
        const T factor = normal ? p[j] * inverse : p[j] / pivot;
        for (int k = 0; k < kLanes; ++k)
          fma(L(-factor), row[k], L::load(p + k * L::size)).store(p + k * L::size);
        p[j] = factor;
      }
      const T next = j + 1 < w ? magnitude(p[j + 1]) : T(-1);
      if (next > most[chain]) most[chain] = next, place[chain] = i;
    };
    int64_t i = j + 1;
    for (; i + 2 <= m; i += 2) eliminate(i, 0), eliminate(i + 1, 1);
    if (i < m) eliminate(i, 0);
    const bool second = most[1] > most[0] || (most[1] == most[0] && place[1] < place[0]);
    at = place[second];
  }
  return missing;
}

// Each finished row is taken from all that wait for it, so that the chains are short.
template <class T>
void solve(bool upper, bool unit, int64_t n, const T* t, int64_t row, int64_t col, T* b,
           int64_t b_row, int64_t width) {
  using L = Lane<T>;
  T inverse[kFactorBlock];
  bool normal = true;  // no inverse overflows
  for (int64_t i = 0; i < n && !unit; ++i) {
    const T d = t[i * (row + col)];
    inverse[i] = 1 / d;
    normal = normal && (magnitude(d) >= Format<T>::smallest_normal || d == 0);
  }
  for (int64_t c = 0; c < width; c += L::size) {
    const int count = static_cast<int>(width - c < L::size ? width - c : L::size);
    L x[kFactorBlock];
    for (int64_t i = 0; i < n; ++i)
      x[i] = count == L::size ? L::load(b + i * b_row + c) : load_part(b + i * b_row + c, count);
    for (int64_t k = 0; k < n; ++k) {
      const int64_t i = upper ? n - 1 - k : k;
      if (!unit) x[i] = normal ? x[i] * L(inverse[i]) : x[i] / L(t[i * (row + col)]);
      const L done = -x[i];
      for (int64_t j = upper ? 0 : i + 1; j < (upper ? i : n); ++j)
        x[j] = fma(L(t[j * row + i * col]), done, x[j]);
    }
    for (int64_t i = 0; i < n; ++i)
      if (count == L::size)
        x[i].store(b + i * b_row + c);
      else
        store_part(x[i], b + i * b_row + c, count);
  }
}

template <class T>
void negate(const T* from, int64_t row, int64_t col, T* to, int64_t m, int64_t n) {
  using L = Lane<T>;
  for (int64_t i = 0; i < m; ++i, from += row, to += n) {
    int64_t j = 0;
    if (col == 1)
      for (; j + L::size <= n; j += L::size) (-L::load(from + j)).store(to + j);
    for (; j < n; ++j) to[j] = -from[j * col];
  }
}

// As many small matrices as the lanes hold: m(i, j) of all of them is one lane, rows of n + sides.
template <class T>
void small_group(int64_t n, int64_t sides, int64_t count, const T* a, T* b, T* diagonal, T* signs) {
  using L = Lane<T>;
  const int64_t width = n + sides;
  L m[kSmallSystem * (kSmallSystem + kSmallSides)];
  const auto take = [&](const T* from, int64_t columns, int64_t begin) {
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        T v[L::size];
        for (int64_t k = 0; k < L::size; ++k)  // the last one again where there is none
          v[k] = from[((k < count ? k : count - 1) * n + i) * columns + j];
        m[i * width + begin + j] = L::load(v);
      }
  };
  take(a, n, 0);
  if (sides) take(b, sides, n);
  L sign(1);
  for (int64_t j = 0; j < n; ++j) {
    L* const top = m + j * width;
    for (int64_t i = j + 1; i < n; ++i) {
      L* const row = m + i * width;
      const auto larger = abs_float(row[j]) > abs_float(top[j]);
      for (int64_t c = j; c < width; ++c) {
        const L upper = select(larger, row[c], top[c]);
        row[c] = select(larger, top[c], row[c]);
        top[c] = upper;
      }
      sign = select(larger, -sign, sign);
    }
    for (int64_t i = j + 1; i < n; ++i) {
      L* const row = m + i * width;
      const L factor = select(top[j] == 0, L(0), row[j] / top[j]), off = -factor;
      for (int64_t c = j + 1; c < width; ++c) row[c] = fma(off, top[c], row[c]);
    }
  }
  for (int64_t i = n - 1; i >= 0 && sides; --i)
    for (int64_t c = n; c < width; ++c) {
      L x = m[i * width + c];
      for (int64_t k = i + 1; k < n; ++k) x = fma(-m[i * width + k], m[k * width + c], x);
      m[i * width + c] = x / m[i * width + i];
    }
  const auto give = [&](L x, T* to, int64_t step) {
    T v[L::size];
    x.store(v);
    for (int64_t k = 0; k < count; ++k) to[k * step] = v[k];
  };
  for (int64_t i = 0; i < n; ++i) {
    give(m[i * width + i], diagonal + i, n);
    for (int64_t c = 0; c < sides; ++c) give(m[i * width + n + c], b + i * sides + c, n * sides);
  }
  give(sign, signs, 1);
}

template <class T>
void small(int64_t n, int64_t sides, int64_t count, const T* a, T* b, T* diagonal, T* signs) {
  for (int64_t k = 0; k < count; k += Lane<T>::size)
    small_group(n, sides, count - k < Lane<T>::size ? count - k : Lane<T>::size, a + k * n * n,
                b + k * n * sides, diagonal + k * n, signs + k);
}

}  // namespace

void small_systems(int type, int64_t n, int64_t sides, int64_t count, const void* a, void* b,
                   void* diagonal, void* signs) {
  type == 0 ? small(n, sides, count, static_cast<const float*>(a), static_cast<float*>(b),
                    static_cast<float*>(diagonal), static_cast<float*>(signs))
            : small(n, sides, count, static_cast<const double*>(a), static_cast<double*>(b),
                    static_cast<double*>(diagonal), static_cast<double*>(signs));
}

int64_t factor_panel(int type, void* panel, int64_t m, int64_t w, int* swaps) {
  return type == 0 ? panel_lu(static_cast<float*>(panel), m, w, swaps)
                   : panel_lu(static_cast<double*>(panel), m, w, swaps);
}

void solve_block(int type, bool upper, bool unit, int64_t n, const void* t, int64_t row,
                 int64_t col, void* b, int64_t b_row, int64_t width) {
  type == 0 ? solve(upper, unit, n, static_cast<const float*>(t), row, col, static_cast<float*>(b),
                    b_row, width)
            : solve(upper, unit, n, static_cast<const double*>(t), row, col,
                    static_cast<double*>(b), b_row, width);
}

void negate_into(int type, const void* from, int64_t row, int64_t col, void* to, int64_t m,
                 int64_t n) {
  type == 0 ? negate(static_cast<const float*>(from), row, col, static_cast<float*>(to), m, n)
            : negate(static_cast<const double*>(from), row, col, static_cast<double*>(to), m, n);
}

}  // namespace tycho::cpu::TYCHO_LEVEL
