// Steps of recurrent layers on lanes: all gates of a row in one pass, forward and backward.
#include "engine/cpu/nn/recurrent.h"

#include "engine/cpu/lanes/fold_lanes.h"
#include "engine/cpu/lanes/math_exp.h"
#include "engine/cpu/matmul/level/gemm.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// A lane's place in every row: at(p) loads there, at.put(p, x) stores.
template <class T>
struct At {
  int64_t j;
  int m;
  TYCHO_INLINE Lane<T> operator()(const T* p) const {
    return m == Lane<T>::size ? Lane<T>::load(p + j) : load_part<T>(p + j, m, T(0));
  }
  TYCHO_INLINE void put(T* p, Lane<T> x) const {
    if (m == Lane<T>::size)
      x.store(p + j);
    else
      store_part<T>(x, p + j, m);
  }
};
template <class T, class F>
TYCHO_INLINE void each_lane(int64_t n, F&& f) {
  constexpr int w = Lane<T>::size;
  int64_t j = 0;
  for (; j + w <= n; j += w) f(At<T>{j, w});
  if (j < n) f(At<T>{j, static_cast<int>(n - j)});
}

// 1 / (1 + e^-x): where e^-x is infinite, 0.
template <class T>
TYCHO_INLINE Lane<T> gate(Lane<T> x) {
  return Lane<T>(T(1)) / (Lane<T>(T(1)) + exp(-x));
}
// The gradient before a gate that has the value y.
template <class T>
TYCHO_INLINE Lane<T> gate_grad(Lane<T> g, Lane<T> y) {
  return g * y * (Lane<T>(T(1)) - y);
}
template <class T>
TYCHO_INLINE Lane<T> tanh_grad(Lane<T> g, Lane<T> y) {
  return g * (Lane<T>(T(1)) - y * y);
}

template <class T, bool Relu>
void plain_step(const RecurrentStep& s) {
  const int64_t all = s.rows * s.n;
  const T* sum = static_cast<const T*>(s.gates);
  T *h = static_cast<T*>(s.h), *out = static_cast<T*>(s.out);
  each_lane<T>(
      all, [&](At<T> at) __attribute__((always_inline)) {
        const Lane<T> x = at(sum), y = Relu ? select(x < Lane<T>(T(0)), Lane<T>(T(0)), x) : tanh(x);
        at.put(h, y);
        at.put(out, y);
      });
}

template <class T>
void lstm_step(const RecurrentStep& s) {
  const int64_t n = s.n;
  for (int64_t i = 0; i < s.rows; ++i) {
    T *const a = static_cast<T*>(s.gates) + i * 4 * n, *const f = a + n, *const g = f + n,
             *const o = g + n;
    T *const h = static_cast<T*>(s.h) + i * n, *const c = static_cast<T*>(s.c) + i * n,
             *const out = static_cast<T*>(s.out) + i * n;
    T* const cells = s.cells ? static_cast<T*>(s.cells) + i * n : nullptr;
    each_lane<T>(
        n, [&](At<T> at) __attribute__((always_inline)) {
          const Lane<T> iv = gate(at(a)), fv = gate(at(f)), gv = tanh(at(g)), ov = gate(at(o));
          const Lane<T> cv = fv * at(c) + iv * gv, hv = ov * tanh(cv);
          at.put(c, cv);
          at.put(h, hv);
          at.put(out, hv);
          if (!cells) return;
          at.put(cells, cv);
          at.put(a, iv);
          at.put(f, fv);
          at.put(g, gv);
          at.put(o, ov);
        });
  }
}

template <class T>
void gru_step(const RecurrentStep& s) {
  const int64_t n = s.n;
  for (int64_t i = 0; i < s.rows; ++i) {
    const T *const x = static_cast<const T*>(s.x) + i * 3 * n, *const y =
                                                                   static_cast<const T*>(s.gates) +
                                                                   i * 3 * n;
    T *const h = static_cast<T*>(s.h) + i * n, *const out = static_cast<T*>(s.out) + i * n;
    T* const saved = s.saved ? static_cast<T*>(s.saved) + i * 4 * n : nullptr;
    each_lane<T>(
        n, [&](At<T> at) __attribute__((always_inline)) {
          const Lane<T> r = gate(at(x) + at(y)), z = gate(at(x + n) + at(y + n)), u = at(y + 2 * n);
          const Lane<T> v = tanh(at(x + 2 * n) + r * u), hv = v + z * (at(h) - v);
          at.put(h, hv);
          at.put(out, hv);
          if (!saved) return;
          at.put(saved, r);
          at.put(saved + n, z);
          at.put(saved + 2 * n, v);
          at.put(saved + 3 * n, u);
        });
  }
}

// The gradient of h after the step: what later steps sent, and what the result got.
template <class T>
TYCHO_INLINE Lane<T> arrived(At<T> at, const T* dh, const T* g) {
  return g ? at(dh) + at(g) : at(dh);
}

template <class T, bool Relu>
void plain_grad(const RecurrentGrad& s) {
  const T *g = static_cast<const T*>(s.g), *out = static_cast<const T*>(s.out);
  T *dh = static_cast<T*>(s.dh), *dx = static_cast<T*>(s.dx);
  each_lane<T>(
      s.rows * s.n, [&](At<T> at) __attribute__((always_inline)) {
        const Lane<T> d = arrived(at, dh, g), y = at(out);
        at.put(dx, Relu ? select(y > Lane<T>(T(0)), d, Lane<T>(T(0))) : tanh_grad(d, y));
      });
}

template <class T>
void lstm_grad(const RecurrentGrad& s) {
  const int64_t n = s.n;
  for (int64_t i = 0; i < s.rows; ++i) {
    const T *const a = static_cast<const T*>(s.saved) + i * 4 * n, *const f = a + n,
                   *const g = f + n, *const o = g + n;
    const T* const grad = s.g ? static_cast<const T*>(s.g) + i * n : nullptr;
    const T *const c = static_cast<const T*>(s.cells) + i * n, *const before =
                                                                   static_cast<const T*>(
                                                                       s.c_before[i]);
    T *const dh = static_cast<T*>(s.dh) + i * n, *const dc = static_cast<T*>(s.dc) + i * n,
             *const dx = static_cast<T*>(s.dx) + i * 4 * n;
    each_lane<T>(
        n, [&](At<T> at) __attribute__((always_inline)) {
          const Lane<T> d = arrived(at, dh, grad), t = tanh(at(c)), ov = at(o);
          const Lane<T> e = at(dc) + tanh_grad(d * ov, t), iv = at(a), fv = at(f), gv = at(g);
          at.put(dx, gate_grad(e * gv, iv));
          at.put(dx + n, gate_grad(e * at(before), fv));
          at.put(dx + 2 * n, tanh_grad(e * iv, gv));
          at.put(dx + 3 * n, gate_grad(d * t, ov));
          at.put(dc, e * fv);
        });
  }
}

template <class T>
void gru_grad(const RecurrentGrad& s) {
  const int64_t n = s.n;
  for (int64_t i = 0; i < s.rows; ++i) {
    const T *const saved = static_cast<const T*>(s.saved) + i * 4 * n, *const before =
                                                                           static_cast<const T*>(
                                                                               s.h_before[i]);
    const T* const grad = s.g ? static_cast<const T*>(s.g) + i * n : nullptr;
    T *const dh = static_cast<T*>(s.dh) + i * n, *const dx = static_cast<T*>(s.dx) + i * 3 * n,
             *const dhx = static_cast<T*>(s.dhx) + i * 3 * n;
    each_lane<T>(
        n, [&](At<T> at) __attribute__((always_inline)) {
          const Lane<T> d = arrived(at, dh, grad), r = at(saved), z = at(saved + n),
                        v = at(saved + 2 * n), u = at(saved + 3 * n);
          const Lane<T> dv = tanh_grad(d * (Lane<T>(T(1)) - z), v),
                        dz = gate_grad(d * (at(before) - v), z), dr = gate_grad(dv * u, r);
          at.put(dx, dr);
          at.put(dx + n, dz);
          at.put(dx + 2 * n, dv);
          at.put(dhx, dr);
          at.put(dhx + n, dz);
          at.put(dhx + 2 * n, dv * r);
          at.put(dh, d * z);
        });
  }
}

// R rows (at most 3) meet P panels of b at once: the sums of one alone would wait for each other. Each
// sum is as panel() makes it.
template <class T, int R, int P>
int64_t few_rows_times(int64_t n, int64_t k, const T* a, int64_t lda, const T* b, T* c, int64_t ldc,
                       int begin, const T* bias) {
  using L = Lane<T>;
  constexpr int N = P * kBlockLanes;
  constexpr int64_t width = N * L::size;
  int64_t j = 0;
  for (; j + width <= n; j += width) {
    const T* const from = b + j * k;
    L sum[R][N];
    for (int r = 0; r < R; ++r)
      for (int i = 0; i < N; ++i) sum[r][i] = L(0);
    for (int64_t p = 0; p < k; ++p) {
      L x[R];
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) x[r] = L(a[r * lda + p]);
#pragma GCC unroll 8
      for (int i = 0; i < N; ++i) {
        const L y = L::load(from + (i / kBlockLanes * k + p) * kBlockLanes * L::size +
                            i % kBlockLanes * L::size);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) sum[r][i] = muladd(x[r], y, sum[r][i]);
      }
    }
    for (int r = 0; r < R; ++r)
      for (int i = 0; i < N; ++i) {
        T* const to = c + r * ldc + j + i * L::size;
        if (begin == kAdd)
          sum[r][i] += L::load(to);
        else if (begin != kZero)
          sum[r][i] += L::load(bias + (begin == kRows ? r * ldc : 0) + j + i * L::size);
        sum[r][i].store(to);
      }
  }
  return j;
}

template <class T>
void times(int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* b, T* c, int64_t ldc,
           int begin, const T* bias) {
  constexpr int64_t width = kBlockLanes * Lane<T>::size;
  int64_t j = 0;
  if constexpr (kManyBlocks) {
    if (m == 1) j = few_rows_times<T, 1, 4>(n, k, a, lda, b, c, ldc, begin, bias);
    if (m == 2) j = few_rows_times<T, 2, 2>(n, k, a, lda, b, c, ldc, begin, bias);
    if (m == 3) j = few_rows_times<T, 3, 2>(n, k, a, lda, b, c, ldc, begin, bias);
  }
  for (; j < n; j += width)
    panel<T, kManyBlocks>(m, static_cast<int>(n - j < width ? n - j : width), k, a, lda, 1,
                          b + j * k, width, c + j, ldc, begin, bias + (begin >= kBias ? j : 0));
}

template <class T>
void step(int kind, const RecurrentStep& s) {
  switch (static_cast<Recurrence>(kind)) {
    case Recurrence::Tanh:
      return plain_step<T, false>(s);
    case Recurrence::Relu:
      return plain_step<T, true>(s);
    case Recurrence::Lstm:
      return lstm_step<T>(s);
    case Recurrence::Gru:
      return gru_step<T>(s);
  }
}
template <class T>
void grad(int kind, const RecurrentGrad& s) {
  switch (static_cast<Recurrence>(kind)) {
    case Recurrence::Tanh:
      return plain_grad<T, false>(s);
    case Recurrence::Relu:
      return plain_grad<T, true>(s);
    case Recurrence::Lstm:
      return lstm_grad<T>(s);
    case Recurrence::Gru:
      return gru_grad<T>(s);
  }
}

}  // namespace

void recurrent_step(int type, int kind, const RecurrentStep* s) {
  if (type == 0)
    step<float>(kind, *s);
  else
    step<double>(kind, *s);
}

void recurrent_grad(int type, int kind, const RecurrentGrad* s) {
  if (type == 0)
    grad<float>(kind, *s);
  else
    grad<double>(kind, *s);
}

void recurrent_times(int type, int64_t m, int64_t n, int64_t k, const void* a, int64_t lda,
                     const void* b, void* c, int64_t ldc, int begin, const void* bias) {
  if (type == 0)
    times(m, n, k, static_cast<const float*>(a), lda, static_cast<const float*>(b),
          static_cast<float*>(c), ldc, begin, static_cast<const float*>(bias));
  else
    times(m, n, k, static_cast<const double*>(a), lda, static_cast<const double*>(b),
          static_cast<double*>(c), ldc, begin, static_cast<const double*>(bias));
}

}  // namespace tycho::cpu::TYCHO_LEVEL
