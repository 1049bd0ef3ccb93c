// The gradients of attention_flash.cu's results. A block has 64 lines, of queries with their gradients or
// of keys with their values, in shared memory and walks over the others: weights come again from lse,
// and go to the sums from registers. Every sum has one order.
#include "engine/cuda/kernels/attention_flash.cuh"

using namespace tycho::cuda;

namespace {

template <class T, int depth>
struct FlashGrad {
  using Tile = FlashTile<depth>;
  using Rows = typename Tile::template Rows<4>;
  static constexpr int kRows = 64, kCols = 32;
  static constexpr int kOwn = kRows * Tile::chunks, kWalked = kCols * Tile::chunks;
  using Products = float[kCols / 8][4];
  using Sums = float[depth / 8][4];

  // p = own lines times walked lines.
  template <class Memory>
  __device__ static __forceinline__ void multiply(Products& p, Memory& memory, int own,
                                                  int walked) {
    const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
    // In parts, for places that are kept cost registers.
    TYCHO_ROLLED
    for (int part = 0; part < depth / 16; part += 4) {
      TYCHO_UNROLLED
      for (int j = 0; j < 4; ++j) {
        const int i = part + j;
        uint32_t x[4];
        take_matrices<false>(x, memory, own + Tile::at(warp * 16 + lane % 16, 2 * i + lane / 16));
        TYCHO_UNROLLED
        for (int n = 0; n < kCols / 16; ++n) {
          uint32_t y[4];
          take_matrices<false>(
              y, memory,
              walked + Tile::at(n * 16 + lane / 16 * 8 + lane % 8, 2 * i + lane / 8 % 2));
          mma<T>(p[2 * n], x, {y[0], y[1]});
          mma<T>(p[2 * n + 1], x, {y[2], y[3]});
        }
      }
    }
  }
  // sums += p times the walked lines.
  template <class Memory>
  __device__ static __forceinline__ void add(Sums& sums, const Products& p, Memory& memory,
                                             int walked) {
    const int lane = static_cast<int>(threadIdx.x);
    TYCHO_UNROLLED
    for (int i = 0; i < kCols / 16; ++i) {
      const uint32_t x[4] = {both_of<T>(p[2 * i][0], p[2 * i][1]),
                             both_of<T>(p[2 * i][2], p[2 * i][3]),
                             both_of<T>(p[2 * i + 1][0], p[2 * i + 1][1]),
                             both_of<T>(p[2 * i + 1][2], p[2 * i + 1][3])};
      TYCHO_UNROLLED
      for (int n = 0; n < depth / 16; ++n) {
        uint32_t y[4];
        take_matrices<true>(y, memory, walked + Tile::at(i * 16 + lane % 16, 2 * n + lane / 16));
        mma<T>(sums[2 * n], x, {y[0], y[1]});
        mma<T>(sums[2 * n + 1], x, {y[2], y[3]});
      }
    }
  }
  // Rows `row` and `row` + 8.
  __device__ static __forceinline__ void finish(const Heads& m, int64_t begin, int row, int rows,
                                                int64_t length, const Sums& sums, float factor) {
    const int t = static_cast<int>(threadIdx.x) % 4;
    TYCHO_UNROLLED
    for (int h = 0; h < 2; ++h) {
      if (row + 8 * h >= rows) continue;
      uint32_t* const to = static_cast<uint32_t*>(m.data) + (begin + (row + 8 * h) * m.row) / 2;
      TYCHO_UNROLLED
      for (int n = 0; n < depth / 8; ++n)
        if (n * 8 < length)
          to[n * 4 + t] = both_of<T>(sums[n][2 * h] * factor, sums[n][2 * h + 1] * factor);
    }
  }
};

template <class T, int depth, bool of_keys>
__device__ __forceinline__ void flash_grad(const Attention& a) {
  using F = FlashGrad<T, depth>;
  constexpr float kLog2 = 1.4426950408889634f;
  TYCHO_SHARED(Chunk, memory, 2 * F::kOwn + 2 * F::kWalked);
  const int g = static_cast<int>(threadIdx.x) / 4, t = static_cast<int>(threadIdx.x) % 4;
  const int queries = static_cast<int>(a.queries), keys = static_cast<int>(a.keys);
  const int lines = of_keys ? keys : queries, walked = of_keys ? queries : keys;
  const int tiles = (lines + F::kRows - 1) / F::kRows;
  const int head = static_cast<int>(blockIdx.x) / tiles;
  // Those that see most of the others come first.
  const int tile = static_cast<int>(blockIdx.x) % tiles;
  const int first = (of_keys ? tile : tiles - 1 - tile) * F::kRows;
  const int mine = first + static_cast<int>(threadIdx.y) * 16, row = mine + g;
  const int key_share = static_cast<int>(a.share), share = of_keys ? key_share : 1;
  const int first_head = head * share;
  {
    const Heads &x = of_keys ? a.k : a.q, &y = of_keys ? a.v : a.grad;
    const int by = of_keys ? key_share : 1;
    typename F::Rows(x, begin_of(a, x, first_head, by) + first * x.row, a.depth)
        .template stage<F::kRows>(memory, 0, lines - first);
    typename F::Rows(y, begin_of(a, y, first_head, by) + first * y.row, a.width)
        .template stage<F::kRows>(memory, F::kOwn, lines - first);
  }
  // Of the rows, or of the columns of a tile.
  constexpr int kQueries = of_keys ? F::kCols / 4 : 2;
  float lse[kQueries], delta[kQueries];
  const auto take = [&](const void* from, int of, int at, float none, float(&x)[kQueries]) {
    TYCHO_UNROLLED
    for (int i = 0; i < kQueries; ++i) {
      const int query = of_keys ? at + i / 2 * 8 + 2 * t + i % 2 : row + 8 * i;
      x[i] = query < queries ? element<float>(from, of * a.queries + query) : none;
    }
  };
  constexpr float kNone = -kNever<float>;
  if (!of_keys) {
    take(a.lse, head, 0, kNone, lse);
    take(a.delta, head, 0, 0, delta);
  }
  const float scale = static_cast<float>(a.scale) * kLog2;
  const int begin = of_keys && a.causal ? first : 0;
  const int end = !of_keys && a.causal && first + F::kRows < keys ? first + F::kRows : walked;
  typename F::Sums sums = {}, value_sums = {};
  for (int with = first_head; with < first_head + share; ++with) {
    const Heads &x = of_keys ? a.q : a.k, &y = of_keys ? a.grad : a.v;
    const int by = of_keys ? 1 : key_share;
    typename F::Rows left(x, begin_of(a, x, with, by) + begin * x.row, a.depth);
    typename F::Rows right(y, begin_of(a, y, with, by) + begin * y.row, a.width);
    for (int at = begin; at < end; at += F::kCols) {
      __syncthreads();  // nobody reads the last ones
      left.template stage<F::kCols>(memory, 2 * F::kOwn, walked - at);
      right.template stage<F::kCols>(memory, 2 * F::kOwn + F::kWalked, walked - at);
      all_copied();
      __syncthreads();
      // Queries that come before all keys.
      if (a.causal && (of_keys ? at + F::kCols <= mine : at > mine + 15)) continue;
      typename F::Products s = {}, d = {};
      F::multiply(s, memory, 0, 2 * F::kOwn);
      if (of_keys) take(a.lse, with, at, kNone, lse);
      const bool edge =
          at + F::kCols > walked || (a.causal && (of_keys ? at < mine + 15 : at + F::kCols > mine));
      TYCHO_UNROLLED
      for (int i = 0; i < F::kCols / 2; ++i) {
        const int n = i / 4, e = i % 4;
        s[n][e] = two_to(fused(s[n][e], scale, lse[of_keys ? n * 2 + e % 2 : e / 2] * -kLog2));
        if (!edge) continue;
        const int line = row + 8 * (e / 2), other = at + n * 8 + 2 * t + e % 2;
        const bool seen = !a.causal || (of_keys ? line <= other : other <= line);
        if (!seen || other >= walked) s[n][e] = 0;
      }
      if (of_keys) F::add(value_sums, s, memory, 2 * F::kOwn + F::kWalked);
      F::multiply(d, memory, F::kOwn, 2 * F::kOwn + F::kWalked);
      if (of_keys) take(a.delta, with, at, 0, delta);
      TYCHO_UNROLLED
      for (int i = 0; i < F::kCols / 2; ++i) {
        const int n = i / 4, e = i % 4;
        d[n][e] = s[n][e] * (d[n][e] - delta[of_keys ? n * 2 + e % 2 : e / 2]);
      }
      F::add(sums, d, memory, 2 * F::kOwn);
    }
  }
  const Heads& to = of_keys ? a.dk : a.dq;
  const int by = of_keys ? key_share : 1;
  F::finish(to, begin_of(a, to, first_head, by), row, lines, a.depth, sums,
            static_cast<float>(a.scale));
  if (of_keys)
    F::finish(a.dv, begin_of(a, a.dv, first_head, by), row, lines, a.width, value_sums, 1);
}

}  // namespace

#if defined(TYCHO_EMULATED) || !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define ATTENTION_FLASH_GRAD(suffix, T, depth, blocks)        \
  extern "C" __global__ void __launch_bounds__(128, blocks)   \
      attention_flash_query_##suffix##_##depth(Attention a) { \
    flash_grad<T, depth, false>(a);                           \
  }                                                           \
  extern "C" __global__ void __launch_bounds__(128, blocks)   \
      attention_flash_key_##suffix##_##depth(Attention a) {   \
    flash_grad<T, depth, true>(a);                            \
  }                                                           \
  TYCHO_KERNEL(attention_flash_query_##suffix##_##depth)      \
  TYCHO_KERNEL(attention_flash_key_##suffix##_##depth)
ATTENTION_FLASH_GRAD(f16, f16, 64, 3)
ATTENTION_FLASH_GRAD(f16, f16, 128, 2)
ATTENTION_FLASH_GRAD(bf16, bf16, 64, 3)
ATTENTION_FLASH_GRAD(bf16, bf16, 128, 2)
#endif
