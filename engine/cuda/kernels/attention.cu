// Attention without the matrix of scores (online softmax: Milakov and Gimelshein, 2018; in tiles, with
// its gradient: Dao et al., "FlashAttention", 2022). A block has 64 queries of a head and walks over
// its keys; for the gradients of key and value it has 64 keys and walks over queries. Every sum has
// one order: results have the same bits each time.
#include "engine/base/philox.h"
#include "engine/cuda/kernels/attention_tile.cuh"

using namespace tycho::cuda;

namespace {

// Over the four lanes that have a row.
template <class T>
__device__ inline T row_sum(T x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
template <class T>
__device__ inline T row_max(T x) {
  T y = __shfl_xor_sync(0xffffffffu, x, 1);
  x = y > x ? y : x;
  y = __shfl_xor_sync(0xffffffffu, x, 2);
  return y > x ? y : x;
}

// Where a block and a thread are: the first of the block's 64 lines, the first of the thread's two.
struct Place {
  int64_t head, first;
  int row, g, t;
  __device__ Place(int64_t tiles)
      : head(blockIdx.x / tiles), first((tiles - 1 - blockIdx.x % tiles) * kAttentionRows) {
    g = static_cast<int>(threadIdx.x) / 4;
    t = static_cast<int>(threadIdx.x) % 4;
    row = static_cast<int>(threadIdx.y) * 16 + g;
  }
};
__device__ inline int64_t tiles_of(int64_t lines) {
  return (lines + kAttentionRows - 1) / kAttentionRows;
}

// Rows from `row` on, as lines; and columns from `col` on, as lines along the rows.
__device__ inline Side rows_of(const Heads& m, int64_t begin, int64_t row, int64_t rows,
                               int64_t length) {
  return {m.data, m.dtype, m.whole != 0, begin + row * m.row, m.row, m.col, rows - row, length};
}
__device__ inline Side columns_of(const Heads& m, int64_t begin, int64_t row, int64_t rows,
                                  int64_t col, int64_t cols) {
  return {m.data, m.dtype, false,      begin + row * m.row + col * m.col,
          m.col,  m.row,   cols - col, rows - row};
}

template <class T>
__device__ inline T score_of(const Attention& a, int64_t mask, T s, int64_t query, int64_t key) {
  if (query >= a.queries || key >= a.keys || (a.causal && key > query)) return kNever<T>;
  s *= static_cast<T>(a.scale);
  if (!a.mask.data) return s;
  const int64_t at = mask + query * a.mask.row + key * a.mask.col;
  if (a.mask.dtype == kBool) return element<uint8_t>(a.mask.data, at) ? s : kNever<T>;
  return s + load<T>(a.mask.data, a.mask.dtype, at);
}

// What dropout makes of a weight: a factor.
template <class T>
struct Dropout {
  const Attention& a;
  int64_t block = -1;
  tycho::PhiloxBlock words{};
  __device__ explicit Dropout(const Attention& of) : a(of) {}
  __device__ T factor(int64_t head, int64_t query, int64_t key) {
    const int64_t i = (head * a.queries + query) * a.keys + key;
    if (i / 4 != block) {
      block = i / 4;
      words = tycho::philox(a.seed, a.first + static_cast<uint64_t>(block));
    }
    const int e = static_cast<int>(i % 4);
    const uint32_t word = e == 0   ? words.word[0]
                          : e == 1 ? words.word[1]
                          : e == 2 ? words.word[2]
                                   : words.word[3];
    return word < a.limit ? static_cast<T>(a.gain) : T(0);
  }
};

// s = the products of 64 lines with L::kColumns lines, over all of `depth`. `staged`: those on the left
// are in their tile already.
template <class L, class Left, class Right>
__device__ __forceinline__ void products(typename L::Lane (&s)[L::kColumns / 8][4], Left& left,
                                         Right& right, const Side& x, const Side& y, int64_t depth,
                                         const Place& at, bool staged) {
  constexpr int pitch = L::Sizes::chunk_pitch;
  TYCHO_UNROLLED
  for (int i = 0; i < L::kColumns / 2; ++i) s[i / 4][i % 4] = 0;
  int64_t d = 0;
  do {
    const int n = static_cast<int>(least(L::kChunk, depth - d));
    const int packs = (n + L::kStep - 1) / L::kStep * (L::kStep / L::per);
    __syncthreads();  // who read the tiles is done
    if (!staged) stage<L>(left, pitch, x.from(d), kAttentionRows, packs, false);
    stage<L>(right, pitch, y.from(d), L::kColumns, packs, false);
    __syncthreads();
    L::multiply(s, left, pitch, at.row, right, pitch, at.t, at.g, packs, L::kColumns / 8);
    d += L::kChunk;
  } while (d < depth);
}

// sum += weights times `columns` columns.
template <class L, class Weights, class Right>
__device__ __forceinline__ void weigh(typename L::Lane (&sum)[L::kWide / 8][4], Weights& weights,
                                      Right& right, const Side& y, int columns, const Place& at) {
  constexpr int pitch = L::Sizes::column_pitch, packs = L::kColumns / L::per;
  const int blocks = (columns + 7) / 8;
  __syncthreads();
  stage<L>(right, pitch, y, blocks * 8, packs, true);
  __syncthreads();
  L::multiply(sum, weights, pitch, at.row, right, pitch, at.t, at.g, packs, blocks);
}

// The columns of this block out of so many.
struct Columns {
  int64_t first;
  int count;
  template <class L>
  __device__ static Columns of(int64_t all, L) {
    const int64_t first = static_cast<int64_t>(blockIdx.y) * L::kWide;
    const int64_t left = all - first;
    return {first, static_cast<int>(left < 0 ? 0 : least(left, L::kWide))};
  }
};

// Rows `row` and `row` + 8 of the sums, times a factor each.
template <class L>
__device__ __forceinline__ void store_sums(const Heads& m, int64_t begin, int64_t rows,
                                           const Columns& columns,
                                           const typename L::Lane (&sum)[L::kWide / 8][4],
                                           const typename L::Lane (&factor)[2], const Place& at) {
  TYCHO_UNROLLED
  for (int h = 0; h < 2; ++h) {
    const int64_t row = at.first + at.row + 8 * h;
    if (row >= rows) continue;
    TYCHO_UNROLLED
    for (int i = 0; i < L::kWide / 4; ++i) {
      const int n = i / 2, e = i % 2, col = n * 8 + 2 * at.t + e;
      if (col < columns.count)
        store_floating<typename L::Lane>(
            m.data, m.dtype, begin + row * m.row + (columns.first + col) * m.col,
            factor[h] == 0 ? typename L::Lane(0) : sum[n][2 * h + e] * factor[h]);
    }
  }
}

template <class L>
__device__ __forceinline__ void forward(const Attention& a) {
  using T = typename L::Lane;
  TYCHO_SHARED(typename L::Packed, left, L::Sizes::left);
  TYCHO_SHARED(typename L::Packed, right, L::Sizes::right);
  TYCHO_SHARED(typename L::Packed, weights, L::Sizes::weights);
  const Place at(tiles_of(a.queries));
  const Columns columns = Columns::of(a.width, L{});
  const int64_t q = begin_of(a, a.q, at.head), k = begin_of(a, a.k, at.head, a.share);
  const int64_t v = begin_of(a, a.v, at.head, a.share), mask = begin_of(a, a.mask, at.head);
  const int64_t seen = a.causal ? least(a.keys, at.first + kAttentionRows) : a.keys;
  const Side queries = rows_of(a.q, q, at.first, a.queries, a.depth);
  Dropout<T> dropout(a);
  T sum[L::kWide / 8][4] = {}, top[2] = {kNever<T>, kNever<T>}, mass[2] = {};
  for (int64_t key = 0; key < seen; key += L::kColumns) {
    T s[L::kColumns / 8][4];
    products<L>(s, left, right, queries, rows_of(a.k, k, key, a.keys, a.depth), a.depth, at,
                key > 0 && a.depth <= L::kChunk);
    TYCHO_UNROLLED
    for (int h = 0; h < 2; ++h) {
      const int64_t query = at.first + at.row + 8 * h;
      T most = top[h];
      TYCHO_UNROLLED
      for (int i = 0; i < L::kColumns / 4; ++i) {
        const int n = i / 2, e = i % 2;
        T& x = s[n][2 * h + e];
        x = score_of(a, mask, x, query, key + n * 8 + 2 * at.t + e);
        if (x > most) most = x;
      }
      most = row_max(most);
      const T base = most == kNever<T> ? T(0) : most, shrink = exp_of(top[h] - base);
      top[h] = most;
      mass[h] *= shrink;
      TYCHO_UNROLLED
      for (auto& block : sum) block[2 * h] *= shrink, block[2 * h + 1] *= shrink;
      TYCHO_UNROLLED
      for (int i = 0; i < L::kColumns / 4; ++i) {
        const int n = i / 2, e = i % 2;
        T& x = s[n][2 * h + e];
        x = exp_of(x - base);
        mass[h] += x;
        if (a.limit) x *= dropout.factor(at.head, query, key + n * 8 + 2 * at.t + e);
      }
    }
    TYCHO_UNROLLED
    for (int n = 0; n < L::kColumns / 8; ++n) L::put(weights, at.row, at.t, n, s[n]);
    weigh<L>(sum, weights, right,
             columns_of(a.v, v, key, a.keys, columns.first, columns.first + columns.count),
             columns.count, at);
  }
  T factor[2];
  TYCHO_UNROLLED
  for (int h = 0; h < 2; ++h) {
    const int64_t row = at.first + at.row + 8 * h;
    const T all = row_sum(mass[h]);
    const bool none = all == 0;  // no key: zeros
    factor[h] = none ? T(0) : 1 / all;
    if (at.t == 0 && blockIdx.y == 0 && row < a.queries)
      static_cast<T*>(a.lse)[at.head * a.queries + row] = none ? -kNever<T> : top[h] + log_of(all);
  }
  store_sums<L>(a.out, begin_of(a, a.out, at.head), a.queries, columns, sum, factor, at);
}

// dq = ds k, where ds = weights * (g v^T - delta) * scale.
template <class L>
__device__ __forceinline__ void query_grad(const Attention& a) {
  using T = typename L::Lane;
  TYCHO_SHARED(typename L::Packed, left, L::Sizes::left);
  TYCHO_SHARED(typename L::Packed, right, L::Sizes::right);
  TYCHO_SHARED(typename L::Packed, weights, L::Sizes::weights);
  const Place at(tiles_of(a.queries));
  const Columns columns = Columns::of(a.depth, L{});
  const int64_t q = begin_of(a, a.q, at.head), k = begin_of(a, a.k, at.head, a.share);
  const int64_t v = begin_of(a, a.v, at.head, a.share), mask = begin_of(a, a.mask, at.head);
  const int64_t g = begin_of(a, a.grad, at.head), o = begin_of(a, a.out, at.head);
  T lse[2], delta[2];
  TYCHO_UNROLLED
  for (int h = 0; h < 2; ++h) {
    const int64_t row = at.first + at.row + 8 * h, i = at.head * a.queries + row;
    T s = 0;
    if (row < a.queries)
      for (int64_t c = at.t; c < a.width; c += 4)
        s = fused(
            load_floating<T>(a.grad.data, a.grad.dtype, g + row * a.grad.row + c * a.grad.col),
            load_floating<T>(a.out.data, a.out.dtype, o + row * a.out.row + c * a.out.col), s);
    delta[h] = row_sum(s);
    lse[h] = row < a.queries ? static_cast<const T*>(a.lse)[i] : -kNever<T>;
    if (at.t == 0 && blockIdx.y == 0 && row < a.queries) static_cast<T*>(a.delta)[i] = delta[h];
  }
  const int64_t seen = a.causal ? least(a.keys, at.first + kAttentionRows) : a.keys;
  const Side queries = rows_of(a.q, q, at.first, a.queries, a.depth);
  const Side grads = rows_of(a.grad, g, at.first, a.queries, a.width);
  Dropout<T> dropout(a);
  T sum[L::kWide / 8][4] = {};
  for (int64_t key = 0; key < seen; key += L::kColumns) {
    T s[L::kColumns / 8][4], d[L::kColumns / 8][4];
    products<L>(s, left, right, queries, rows_of(a.k, k, key, a.keys, a.depth), a.depth, at, false);
    products<L>(d, left, right, grads, rows_of(a.v, v, key, a.keys, a.width), a.width, at, false);
    TYCHO_UNROLLED
    for (int n = 0; n < L::kColumns / 8; ++n) {
      TYCHO_UNROLLED
      for (int e = 0; e < 4; ++e) {
        const int64_t query = at.first + at.row + 8 * (e / 2), to = key + n * 8 + 2 * at.t + e % 2;
        const T x = score_of(a, mask, s[n][e], query, to);
        if (a.limit) d[n][e] *= dropout.factor(at.head, query, to);
        s[n][e] = exp_of(x - lse[e / 2]) * (d[n][e] - delta[e / 2]);
      }
      L::put(weights, at.row, at.t, n, s[n]);
    }
    weigh<L>(sum, weights, right,
             columns_of(a.k, k, key, a.keys, columns.first, columns.first + columns.count),
             columns.count, at);
  }
  const T factor[2] = {static_cast<T>(a.scale), static_cast<T>(a.scale)};
  store_sums<L>(a.dq, begin_of(a, a.dq, at.head), a.queries, columns, sum, factor, at);
}

// dv = weights^T g and dk = ds^T q, over the heads that share them.
template <class L>
__device__ __forceinline__ void key_grad(const Attention& a) {
  using T = typename L::Lane;
  TYCHO_SHARED(typename L::Packed, left, L::Sizes::left);
  TYCHO_SHARED(typename L::Packed, right, L::Sizes::right);
  TYCHO_SHARED(typename L::Packed, weights, L::Sizes::weights);
  const Place at(tiles_of(a.keys));
  const Columns depth = Columns::of(a.depth, L{}), width = Columns::of(a.width, L{});
  const int64_t first_head = at.head * a.share;
  const int64_t k = begin_of(a, a.k, first_head, a.share),
                v = begin_of(a, a.v, first_head, a.share);
  const Side keys = rows_of(a.k, k, at.first, a.keys, a.depth);
  const Side values = rows_of(a.v, v, at.first, a.keys, a.width);
  Dropout<T> dropout(a);
  T key_sum[L::kWide / 8][4] = {}, value_sum[L::kWide / 8][4] = {};
  for (int64_t head = first_head; head < first_head + a.share; ++head) {
    const int64_t q = begin_of(a, a.q, head), g = begin_of(a, a.grad, head);
    const int64_t mask = begin_of(a, a.mask, head);
    for (int64_t query = a.causal ? at.first / L::kColumns * L::kColumns : 0; query < a.queries;
         query += L::kColumns) {
      T s[L::kColumns / 8][4], d[L::kColumns / 8][4];
      products<L>(s, left, right, keys, rows_of(a.q, q, query, a.queries, a.depth), a.depth, at,
                  false);
      products<L>(d, left, right, values, rows_of(a.grad, g, query, a.queries, a.width), a.width,
                  at, false);
      TYCHO_UNROLLED
      for (int n = 0; n < L::kColumns / 8; ++n) {
        T kept[4];
        TYCHO_UNROLLED
        for (int e = 0; e < 4; ++e) {
          const int64_t from = query + n * 8 + 2 * at.t + e % 2;
          const int64_t key = at.first + at.row + 8 * (e / 2), i = head * a.queries + from;
          const bool there = from < a.queries;
          const T lse = there ? static_cast<const T*>(a.lse)[i] : -kNever<T>;
          const T delta = there ? static_cast<const T*>(a.delta)[i] : T(0);
          const T weight = exp_of(score_of(a, mask, s[n][e], from, key) - lse);
          const T factor = a.limit && there ? dropout.factor(head, from, key) : T(1);
          kept[e] = weight * factor;
          s[n][e] = weight * (d[n][e] * factor - delta);
        }
        L::put(weights, at.row, at.t, n, kept);
      }
      weigh<L>(value_sum, weights, right,
               columns_of(a.grad, g, query, a.queries, width.first, width.first + width.count),
               width.count, at);
      __syncwarp();  // the weights have been read
      TYCHO_UNROLLED
      for (int n = 0; n < L::kColumns / 8; ++n) L::put(weights, at.row, at.t, n, s[n]);
      weigh<L>(key_sum, weights, right,
               columns_of(a.q, q, query, a.queries, depth.first, depth.first + depth.count),
               depth.count, at);
    }
  }
  const T one[2] = {1, 1}, scale[2] = {static_cast<T>(a.scale), static_cast<T>(a.scale)};
  store_sums<L>(a.dv, begin_of(a, a.dv, first_head, a.share), a.keys, width, value_sum, one, at);
  store_sums<L>(a.dk, begin_of(a, a.dk, first_head, a.share), a.keys, depth, key_sum, scale, at);
}

}  // namespace

#define ATTENTION(suffix, lanes, grad_lanes)                                                   \
  extern "C" __global__ void __launch_bounds__(128, 2) attention_##suffix(Attention a) {       \
    forward<lanes>(a);                                                                         \
  }                                                                                            \
  extern "C" __global__ void __launch_bounds__(128, 2) attention_query_##suffix(Attention a) { \
    query_grad<grad_lanes>(a);                                                                 \
  }                                                                                            \
  extern "C" __global__ void __launch_bounds__(128, 2) attention_key_##suffix(Attention a) {   \
    key_grad<grad_lanes>(a);                                                                   \
  }                                                                                            \
  TYCHO_KERNEL(attention_##suffix)                                                             \
  TYCHO_KERNEL(attention_query_##suffix)                                                       \
  TYCHO_KERNEL(attention_key_##suffix)

using F32 = FmaLanes<float>;
using F64 = FmaLanes<double>;
ATTENTION(f32, F32, F32)
ATTENTION(f64, F64, F64)
#if defined(TYCHO_EMULATED) || !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
using F16 = MmaLanes<f16, 64>;
using F16Grad = MmaLanes<f16, 32>;
using BF16 = MmaLanes<bf16, 64>;
using BF16Grad = MmaLanes<bf16, 32>;
ATTENTION(f16, F16, F16Grad)
ATTENTION(bf16, BF16, BF16Grad)
#endif
