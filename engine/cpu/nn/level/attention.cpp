// Attention on lanes: the scores of a few rows against a block of keys stay in the first-level
// cache while they become weights and meet the values (Dao et al., "FlashAttention", 2022: the
// softmax is kept as a running maximum and sum, so that no row of scores is ever held whole).
#include "engine/cpu/nn/attention.h"

#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/lanes/fold_lanes.h"
#include "engine/cpu/lanes/math_exp.h"
#include "engine/cpu/lanes/storage.h"
#include "engine/cpu/matmul/level/gemm.h"
#include "engine/cpu/matmul/level/gemv.h"

namespace tycho::cpu::TYCHO_LEVEL {
namespace {

// A row of a tile lies apart from the next by this much more, so that rows do not share cache sets.
constexpr int64_t kGap = 16;
constexpr int64_t kRowsStep = kAttentionKeys + kGap, kGradStep = kAttentionGradKeys + kGap;

template <class T>
TYCHO_INLINE T low() {
  return -infinity<T>;
}

TYCHO_INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

template <class T>
TYCHO_INLINE T top_of(Lane<T> x) {
  return across(
             x, [](Lane<T> a, Lane<T> b) __attribute__((always_inline)) { return larger(a, b); })
      .v[0];
}

template <class T>
TYCHO_INLINE Lane<T> read(const T* p, int m, T pad) {
  return m == Lane<T>::size ? Lane<T>::load(p) : load_part<T>(p, m, pad);
}
template <class T>
TYCHO_INLINE void write(T* p, int m, Lane<T> x) {
  if (m == Lane<T>::size)
    x.store(p);
  else
    store_part<T>(x, p, m);
}
// f(first, count) for lanes over n elements.
template <class T, class F>
TYCHO_INLINE void each_lane(int64_t n, F&& f) {
  constexpr int w = Lane<T>::size;
  int64_t j = 0;
  for (; j + w <= n; j += w) f(j, w);
  if (j < n) f(j, static_cast<int>(n - j));
}

// Scores s[0, n) of query i, keys from `key`, with the mask's part; `line` is room for n elements.
template <class T>
void add_mask(const AttentionMask& mask, int64_t i, int64_t key, T* s, int64_t n, T* line) {
  const Lanes lanes = sizeof(T) == 4 ? Lanes::F32 : Lanes::F64;
  const char* const from = mask.data + (i * mask.row + key * mask.col) * mask.bytes;
  const T* part = line;
  if (mask.col == 1 && mask.dtype == static_cast<int>(lane_type_of(lanes)))
    part = reinterpret_cast<const T*>(from);  // as it lies
  else
    load_tile(static_cast<int>(lanes), mask.dtype, line, from, mask.col, n);
  if (mask.truth)
    each_lane<T>(
        n, [&](int64_t j, int m) __attribute__((always_inline)) {
          const Lane<T> keep = read<T>(part + j, m, T(0)), x = read<T>(s + j, m, T(0));
          write<T>(s + j, m, select(keep != Lane<T>(0), x, Lane<T>(low<T>())));
        });
  else
    each_lane<T>(
        n, [&](int64_t j, int m) __attribute__((always_inline)) {
          write<T>(s + j, m, read<T>(s + j, m, T(0)) + read<T>(part + j, m, T(0)));
        });
}

template <class T>
TYCHO_INLINE void zero(T* p, int64_t n) {
  memset(p, 0, static_cast<size_t>(n) * sizeof(T));
}

// e^x for x <= 0: without what large x take.
template <class T>
TYCHO_INLINE Lane<T> shrinking_exp(Lane<T> x) {
  const Lane<T> least(Constants<T>::exp_low);
  const auto a = reduce_exp(larger(least, x));
  return scale_where(~(x < least), exp_of_reduced(a.r), a.shifted);
}

// One row's scores become weights exp(s - top); the running maximum and sum take them in. Gives
// the factor by which earlier sums shrink.
template <class T>
TYCHO_INLINE T weigh(T* s, int64_t n, T& top, T& sum) {
  using L = Lane<T>;
  constexpr int w = L::size;
  L most[2] = {L(low<T>()), L(low<T>())};
  int64_t j = 0;
  for (; j + 2 * w <= n; j += 2 * w) {
    most[0] = larger(L::load(s + j), most[0]);
    most[1] = larger(L::load(s + j + w), most[1]);
  }
  for (; j < n; j += w)
    most[0] = larger(read<T>(s + j, static_cast<int>(least(w, n - j)), low<T>()), most[0]);
  const T before = top, here = top_of(larger(most[0], most[1]));
  top = here > before ? here : before;
  const T base = top == low<T>() ? T(0) : top;
  L sums[2] = {L(T(0)), L(T(0))};
  const L b(base);
  j = 0;
  for (; j + 2 * w <= n; j += 2 * w) {
    const L x = shrinking_exp(L::load(s + j) - b), y = shrinking_exp(L::load(s + j + w) - b);
    x.store(s + j);
    y.store(s + j + w);
    sums[0] += x;
    sums[1] += y;
  }
  for (; j < n; j += w) {
    const int m = static_cast<int>(least(w, n - j));
    const L x = shrinking_exp(read<T>(s + j, m, low<T>()) - b);
    write<T>(s + j, m, x);
    sums[0] += x;
  }
  const T shrink = before == top ? T(1) : before == low<T>() ? T(0) : exp(L(before - base)).v[0];
  sum = sum * shrink + total(sums[0] + sums[1]);
  return shrink;
}

// c[m, cols] (+)= a b over b's panels; `a` strided by rs and cs, b's panels `depth` rows each, of
// which k are used.
template <class T>
TYCHO_INLINE void times(int64_t m, int64_t cols, int64_t k, const T* a, int64_t rs, int64_t cs,
                        const T* b, int64_t depth, T* c, int64_t ldc, int begin) {
  constexpr int64_t width = kBlockLanes * Lane<T>::size;
  for (int64_t j = 0; j < cols; j += width)
    panel<T, kManyBlocks>(m, static_cast<int>(least(width, cols - j)), k, a, rs, cs, b + j * depth,
                          width, c + j, ldc, begin, nullptr);
}

template <class T>
TYCHO_INLINE void scale_all(T* x, int64_t n, T by) {
  each_lane<T>(
      n, [&](int64_t j, int c) __attribute__((always_inline)) {
        write<T>(x + j, c, read<T>(x + j, c, T(0)) * Lane<T>(by));
      });
}

// f(rows, step, j, count) for rows [key + j, key + j + count) of a matrix that lies in place: all n of them, or
// where they are of another type some at a time.
template <class T, class F>
TYCHO_INLINE void each_stored(const AttentionRows& a, const void* from, int64_t row, int64_t cols,
                              int64_t key, int64_t n, F&& f) {
  if (a.stored < 0) return f(static_cast<const T*>(from) + key * row, row, int64_t{0}, n);
  const Lanes lanes = sizeof(T) == 4 ? Lanes::F32 : Lanes::F64;
  T* const room = static_cast<T*>(a.room);
  for (int64_t j = 0; j < n; j += kAttentionStored) {
    const int64_t count = least(kAttentionStored, n - j);
    for (int64_t i = 0; i < count; i += row == cols ? count : 1)
      load_tile(static_cast<int>(lanes), a.stored, room + i * cols,
                static_cast<const char*>(from) + (key + j + i) * row * a.stored_bytes, 1,
                row == cols ? count * cols : cols);
    f(static_cast<const T*>(room), cols, j, count);
  }
}

// Scores of m queries from q against n keys from `key`.
template <class T>
TYCHO_INLINE void score(const AttentionRows& a, const T* q, int64_t m, int64_t key, int64_t n,
                        T* s) {
  if (a.k_turned)
    return times<T>(m, n, a.depth, q, a.q_row, 1, static_cast<const T*>(a.k_turned) + key * a.depth,
                    a.depth, s, kRowsStep, kZero);
  each_stored<T>(
      a, a.k, a.k_row, a.depth, key, n, [&](const T* k, int64_t row, int64_t j, int64_t some) {
        for (int64_t i = 0; i < m; ++i)
          gemv_by_rows<T>(some, a.depth, k, row, q + i * a.q_row, s + i * kRowsStep + j, 1);
      });
  for (int64_t i = 0; i < m; ++i) scale_all(s + i * kRowsStep, n, static_cast<T>(a.scale));
}

// One query's weights s[0, n) times the values in place: every row of v is read once, in order.
template <class T>
TYCHO_INLINE void add_values(const AttentionRows& a, const T* v, int64_t row, int64_t n, const T* s,
                             T* to, bool add) {
  int64_t j = 0;
  for (; j + 8 <= n; j += 8)
    add_columns<T, 8>(a.width, v + j * row, row, s + j, 1, to, add || j > 0);
  for (; j < n; ++j) add_columns<T, 1>(a.width, v + j * row, row, s + j, 1, to, add || j > 0);
}

// lse of rows with these maxima and sums, and their sums of values divided by the sums of weights.
template <class T>
void finish_rows(int64_t rows, const T* top, T* sum, T* lse, T* out, int64_t out_row,
                 int64_t width) {
  each_lane<T>(
      rows, [&](int64_t i, int m) __attribute__((always_inline)) {
        const Lane<T> t = read<T>(top + i, m, T(0)), u = read<T>(sum + i, m, T(1));
        const auto none = (t == Lane<T>(low<T>())) & (u == Lane<T>(T(0)));
        write<T>(lse + i, m, select(none, Lane<T>(infinity<T>), t + log(u)));
        // What the sums of values are multiplied by: nothing where there is no key.
        write<T>(sum + i, m, select(none, Lane<T>(T(0)), Lane<T>(T(1)) / u));
      });
  for (int64_t i = 0; i < rows; ++i) {
    T* const o = out + i * out_row;
    if (sum[i] == T(0)) {
      zero(o, width);
      continue;
    }
    scale_all(o, width, sum[i]);
  }
}

template <class T>
void rows(const AttentionRows& a) {
  const T *q = static_cast<const T*>(a.q), *v = static_cast<const T*>(a.v);
  T *out = static_cast<T*>(a.out), *lse = static_cast<T*>(a.lse), *s = static_cast<T*>(a.scratch);
  T* const line = s + kBlockRows * kRowsStep;
  constexpr int64_t width = kBlockLanes * Lane<T>::size;
  T top[kAttentionRows], sum[kAttentionRows];
  for (int64_t i = 0; i < a.rows; ++i) {
    top[i] = low<T>();
    sum[i] = T(0);
  }
  const int64_t seen = a.causal ? least(a.keys, a.first + a.rows) : a.keys;
  for (int64_t key = 0; key < seen; key += kAttentionKeys)
    for (int64_t r = 0; r < a.rows; r += kBlockRows) {
      const int64_t m = least(kBlockRows, a.rows - r), i0 = a.first + r;
      int64_t n = least(kAttentionKeys, a.keys - key);
      if (a.causal) n = least(n, i0 + m - key);
      if (n <= 0) continue;
      score<T>(a, q + r * a.q_row, m, key, n, s);
      for (int64_t i = 0; i < m; ++i) {
        T* const p = s + i * kRowsStep;
        int64_t valid = n;
        if (a.causal) valid = least(n, i0 + i + 1 - key);
        if (valid <= 0) {
          zero(p, n);
          continue;
        }
        if (a.mask.data) add_mask<T>(a.mask, i0 + i, key, p, valid, line);
        const T shrink = weigh<T>(p, valid, top[r + i], sum[r + i]);
        zero(p + valid, n - valid);
        if (key > 0 && shrink != T(1)) scale_all(out + (r + i) * a.out_row, a.width, shrink);
      }
      T* const to = out + r * a.out_row;
      if (a.v_row)
        each_stored<T>(a, a.v, a.v_row, a.width, key, n,
                       [&](const T* here, int64_t row, int64_t j, int64_t some) {
                         const bool add = key + j > 0;
                         if (m == 1) return add_values<T>(a, here, row, some, s + j, to, add);
                         gemm_direct<T, false>(m, a.width, some, s + j, kRowsStep, 1, here, row, to,
                                               a.out_row, add ? kAdd : kZero, nullptr);
                       });
      else
        times<T>(m, a.width, n, s, kRowsStep, 1, v + key * width, a.keys, to, a.out_row,
                 key ? kAdd : kZero);
    }
  finish_rows(a.rows, top, sum, lse, out, a.out_row, a.width);
}

// Of one row of a tile, which sees n keys: scores p become weights, and e, which holds dp, becomes ds.
template <class T>
TYCHO_INLINE void slopes(const AttentionTile& a, int64_t row, int64_t n, T* p, T* e, T* line) {
  const T *lse = static_cast<const T*>(a.lse), *delta = static_cast<const T*>(a.delta);
  int64_t valid = a.causal ? least(n, a.first + row + 1 - a.key) : n;
  if (valid < 0) valid = 0;
  if (a.mask.data && valid) add_mask<T>(a.mask, a.first + row, a.key, p, valid, line);
  const Lane<T> base(lse[row]);
  Lane<T> dots(T(0)), all(T(0));
  each_lane<T>(
      valid, [&](int64_t j, int c) __attribute__((always_inline)) {
        const Lane<T> x = shrinking_exp(read<T>(p + j, c, low<T>()) - base);
        write<T>(p + j, c, x);
        all += x;
        dots += x * read<T>(e + j, c, T(0));
      });
  // The tile that has all keys takes out the rounding of lse; without a key all is 0.
  const T most = delta ? T(1) : total(all), norm = most == T(0) ? T(1) : T(1) / most;
  const Lane<T> by(norm), scale(static_cast<T>(a.scale)),
      sums(delta ? delta[row] : total(dots) * norm);
  each_lane<T>(
      valid, [&](int64_t j, int c) __attribute__((always_inline)) {
        const Lane<T> x = read<T>(p + j, c, T(0)) * by;
        write<T>(p + j, c, x);
        write<T>(e + j, c, x * scale * (read<T>(e + j, c, T(0)) - sums));
      });
  zero(p + valid, a.keys - valid);
  zero(e + valid, a.keys - valid);
}

// With weights p and dp = g v^T: ds = p (dp - delta), where delta = sum(p dp) of the row; then
// dv += p^T g, dk += scale ds^T q, dq += scale ds k.
template <class T>
void grad(const AttentionTile& a) {
  const auto in = [](const void* p) { return static_cast<const T*>(p); };
  const T *q = in(a.q), *g = in(a.g);
  T *s = static_cast<T*>(a.scratch), *d = s + kAttentionGradRows * kGradStep;
  T* const line = d + kAttentionGradRows * kGradStep;
  for (int64_t r = 0; r < a.rows; r += kBlockRows) {
    const int64_t m = least(kBlockRows, a.rows - r), i0 = a.first + r;
    T *const sr = s + r * kGradStep, *const dr = d + r * kGradStep;
    int64_t n = a.causal ? least(a.keys, i0 + m - a.key) : a.keys;
    if (n < 0) n = 0;
    if (n > 0 && !a.k_turned) {
      for (int64_t i = 0; i < m; ++i) {
        gemv_by_rows<T>(n, a.depth, in(a.k), a.k_row, q + (r + i) * a.q_row, sr + i * kGradStep, 1);
        scale_all(sr + i * kGradStep, n, static_cast<T>(a.scale));
        gemv_by_rows<T>(n, a.width, in(a.v), a.v_row, g + (r + i) * a.g_row, dr + i * kGradStep, 1);
      }
    } else if (n > 0) {
      times<T>(m, n, a.depth, q + r * a.q_row, a.q_row, 1, in(a.k_turned), a.depth, sr, kGradStep,
               kZero);
      times<T>(m, n, a.width, g + r * a.g_row, a.g_row, 1, in(a.v_turned), a.width, dr, kGradStep,
               kZero);
    }
    for (int64_t i = 0; i < m; ++i)
      slopes<T>(a, r + i, n, sr + i * kGradStep, dr + i * kGradStep, line);
    if (a.dq && n > 0)
      gemm_direct<T, false>(m, a.depth, n, dr, kGradStep, 1, in(a.k), a.k_row,
                            static_cast<T*>(a.dq) + r * a.dq_row, a.dq_row, kAdd, nullptr);
  }
  if (!a.dk && !a.dv) return;
  const int begin = a.begins ? kZero : kAdd;
  for (int64_t j = 0; j < a.keys; j += kBlockRows) {
    const int64_t m = least(kBlockRows, a.keys - j);
    int64_t from = a.causal ? a.key + j - a.first : 0;  // the first query that sees these keys
    if (from < 0) from = 0;
    if (from >= a.rows) break;
    const int64_t k = a.rows - from;
    if (a.dv)
      gemm_direct<T, false>(m, a.width, k, s + from * kGradStep + j, 1, kGradStep,
                            g + from * a.g_row, a.g_row, static_cast<T*>(a.dv) + j * a.dv_row,
                            a.dv_row, begin, nullptr);
    if (a.dk)
      gemm_direct<T, false>(m, a.depth, k, d + from * kGradStep + j, 1, kGradStep,
                            q + from * a.q_row, a.q_row, static_cast<T*>(a.dk) + j * a.dk_row,
                            a.dk_row, begin, nullptr);
  }
}

}  // namespace

int64_t attention_scratch() {
  const int64_t forward = kBlockRows * kRowsStep + kAttentionKeys;
  const int64_t backward = 2 * kAttentionGradRows * kGradStep + kAttentionGradKeys;
  return forward > backward ? forward : backward;
}

void attention_rows(int type, const AttentionRows* a) {
  if (type == 0)
    rows<float>(*a);
  else
    rows<double>(*a);
}

void attention_grad(int type, const AttentionTile* a) {
  if (type == 0)
    grad<float>(*a);
  else
    grad<double>(*a);
}

void attention_scale(int type, void* x, int64_t n, double scale) {
  if (type == 0)
    scale_all(static_cast<float*>(x), n, static_cast<float>(scale));
  else
    scale_all(static_cast<double*>(x), n, scale);
}

#ifdef TYCHO_LEVEL_v4
// 2^x for x <= 0 with an error below 2^-17, of which rounding to bfloat16 leaves nothing: x = n + f with
// |f| <= 1/2, and 2^f by Taylor's polynomial of degree 5. Subnormal results, which are slow, are 0.
TYCHO_INLINE Lane<float> short_power(__m512 x) {
  const __m512 lowest = _mm512_set1_ps(-126.f);
  const __mmask16 kept = _mm512_cmp_ps_mask(x, lowest, _CMP_NLT_UQ);  // NaN is
  x = _mm512_max_ps(lowest, x);                                       // NaN stays
  const __m512 n = _mm512_maskz_roundscale_ps(-1, x, _MM_FROUND_TO_NEAREST_INT);
  const __m512 f = _mm512_sub_ps(x, n);
  __m512 p = _mm512_set1_ps(1.33335581e-3f);
  for (const float c : {9.61812911e-3f, 5.55041087e-2f, 2.40226507e-1f, 6.93147181e-1f, 1.f})
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(c));
  return Lane<float>((typename Raw<float>::V)_mm512_maskz_scalef_ps(kept, p, n));
}

// As `weigh`, of scores to be multiplied by `scale` > 0; the weights go to `to` in bfloat16.
float weigh_rounded(const float* s, int64_t n, float scale, float& top, float& sum, uint16_t* to) {
  constexpr int size = Lane<float>::size;
  constexpr float kLog2E = 1.44269504f;
  Lane<float> most[2] = {Lane<float>(low<float>()), Lane<float>(low<float>())};
  int64_t j = 0;
  for (; j + 2 * size <= n; j += 2 * size) {
    most[0] = larger(Lane<float>::load(s + j), most[0]);
    most[1] = larger(Lane<float>::load(s + j + size), most[1]);
  }
  for (; j < n; j += size)
    most[0] =
        larger(read<float>(s + j, static_cast<int>(least(size, n - j)), low<float>()), most[0]);
  const float before = top, here = scale * top_of(larger(most[0], most[1]));
  top = here > before ? here : before;
  const float base = top == low<float>() ? 0.f : top;
  const __m512 by = _mm512_set1_ps(scale * kLog2E), less = _mm512_set1_ps(-base * kLog2E);
  const auto weight = [&](Lane<float> x) __attribute__((always_inline)) {
    return short_power(_mm512_fmadd_ps((__m512)x.v, by, less));
  };
  Lane<float> sums[2] = {Lane<float>(0.f), Lane<float>(0.f)};
  j = 0;
  for (; j + 2 * size <= n; j += 2 * size) {
    const Lane<float> x = weight(Lane<float>::load(s + j)),
                      y = weight(Lane<float>::load(s + j + size));
    put(x, to + j);
    put(y, to + j + size);
    sums[0] += x;
    sums[1] += y;
  }
  for (; j < n; j += size) {
    const Lane<float> x =
        weight(read<float>(s + j, static_cast<int>(least(size, n - j)), low<float>()));
    put(x, to + j);
    sums[0] += x;
  }
  const float shrink = before == top            ? 1.f
                       : before == low<float>() ? 0.f
                                                : exp(Lane<float>(before - base)).v[0];
  sum = sum * shrink + total(sums[0] + sums[1]);
  return shrink;
}

void attention_weights(const AttentionWeights& a) {
  for (int64_t i = 0; i < a.rows; ++i) {
    float* const s = a.scores + i * a.scores_row;
    uint16_t* const to = a.weights + i * a.weights_row;
    const int64_t here = a.causal ? least(a.keys, a.first + i + 1 - a.key) : a.keys;
    const int64_t valid = here > 0 ? here : 0;
    if (valid > 0) {
      float scale = static_cast<float>(a.scale);
      if (a.mask.data || !(scale > 0)) {
        scale_all(s, valid, scale);
        scale = 1;
      }
      if (a.mask.data) add_mask<float>(a.mask, a.first + i, a.key, s, valid, a.line);
      const float shrink = weigh_rounded(s, valid, scale, a.top[i], a.sum[i], to);
      if (a.key > 0 && shrink != 1.f) scale_all(a.out + i * a.out_row, a.width, shrink);
    }
    for (int64_t j = valid; j < a.filled; ++j) to[j] = 0;
  }
}

void attention_rows_end(int64_t rows, const float* top, float* sum, float* lse, float* out,
                        int64_t out_row, int64_t width) {
  finish_rows(rows, top, sum, lse, out, out_row, width);
}

void attention_slopes(const AttentionTile& a, int64_t row, int64_t rows, int64_t n, float* scores,
                      float* slope, int64_t step, float* line) {
  for (int64_t i = 0; i < rows; ++i) {
    if (n > 0) scale_all(scores + i * step, n, static_cast<float>(a.scale));
    slopes<float>(a, row + i, n, scores + i * step, slope + i * step, line);
  }
}
#endif

}  // namespace tycho::cpu::TYCHO_LEVEL
