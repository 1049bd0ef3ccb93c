// Attention of 16-bit heads by tensor cores at their pace (the order of Dao, "FlashAttention-2", 2023):
// a warp has 16 queries and keeps them, its scores and its sums in registers; keys and values come to
// shared memory while the products before them are computed. Rows are read in 16 bytes, there is no
// mask and no dropout, and scale is positive; all else is for the other kernels.
#include "engine/cuda/kernels/attention_flash.cuh"

using namespace tycho::cuda;

namespace {

// Over the four lanes that have a row.
__device__ inline float quad_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
__device__ inline float quad_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

template <class T, int depth, int kWarps>
__device__ __forceinline__ void flash(const Attention& a) {
  using Tile = FlashTile<depth>;
  constexpr int kRows = 16 * kWarps, kKeys = 64, kTile = kKeys * Tile::chunks;
  static_assert(kRows * Tile::chunks <= 2 * kTile, "queries pass where keys and values come");
  TYCHO_SHARED(Chunk, memory, 2 * kTile);
  const int lane = static_cast<int>(threadIdx.x), warp = static_cast<int>(threadIdx.y);
  const int g = lane / 4, t = lane % 4;
  const int queries = static_cast<int>(a.queries), keys = static_cast<int>(a.keys);
  const int tiles = (queries + kRows - 1) / kRows;
  const int head = static_cast<int>(blockIdx.x) / tiles;
  const int first = (tiles - 1 - static_cast<int>(blockIdx.x) % tiles) * kRows;
  const int mine = first + warp * 16, row = mine + g;
  const int seen = a.causal && first + kRows < keys ? first + kRows : keys;
  using Rows = typename Tile::template Rows<kWarps>;

  uint32_t query[depth / 16][4];
  Rows(a.q, begin_of(a, a.q, head) + first * a.q.row, a.depth)
      .template stage<kRows>(memory, 0, queries - first);
  all_copied();
  __syncthreads();
  TYCHO_UNROLLED
  for (int i = 0; i < depth / 16; ++i)
    take_matrices<false>(query[i], memory, Tile::at(warp * 16 + lane % 16, 2 * i + lane / 16));
  __syncthreads();

  float sum[depth / 8][4] = {}, top[2] = {kNever<float>, kNever<float>}, mass[2] = {};
  const float scale = static_cast<float>(a.scale) * 1.4426950408889634f;  // exp(x) is 2^(x log2 e)
  Rows k(a.k, begin_of(a, a.k, head, a.share), a.depth);
  Rows v(a.v, begin_of(a, a.v, head, a.share), a.width);
  if (seen > 0) k.template stage<kKeys>(memory, 0, keys);
  for (int key = 0; key < seen; key += kKeys) {
    all_copied();
    __syncthreads();  // the keys are there, and nobody reads the last values
    v.template stage<kKeys>(memory, kTile, keys - key);
    // Tiles that come after all queries of a warp.
    const bool active = !a.causal || key <= mine + 15;
    float s[kKeys / 8][4] = {};
    if (active) {
      TYCHO_UNROLLED
      for (int i = 0; i < depth / 16; ++i) {
        TYCHO_UNROLLED
        for (int n = 0; n < kKeys / 16; ++n) {
          uint32_t b[4];
          take_matrices<false>(b, memory,
                               Tile::at(n * 16 + lane / 16 * 8 + lane % 8, 2 * i + lane / 8 % 2));
          mma<T>(s[2 * n], query[i], {b[0], b[1]});
          mma<T>(s[2 * n + 1], query[i], {b[2], b[3]});
        }
      }
      if (key + kKeys > keys || (a.causal && key + kKeys > mine + 1)) {
        TYCHO_UNROLLED
        for (int h = 0; h < 2; ++h) {
          const int end = a.causal && row + 8 * h < keys ? row + 8 * h + 1 : keys;
          const int ends = end - key - 2 * t;
          TYCHO_UNROLLED
          for (int n = 0; n < kKeys / 8; ++n) {
            if (n * 8 >= ends) s[n][2 * h] = kNever<float>;
            if (n * 8 + 1 >= ends) s[n][2 * h + 1] = kNever<float>;
          }
        }
      }
      TYCHO_UNROLLED
      for (int h = 0; h < 2; ++h) {
        float most = top[h];
        TYCHO_UNROLLED
        for (int i = 0; i < kKeys / 4; ++i) most = fmaxf(most, s[i / 2][2 * h + i % 2]);
        most = quad_max(most);
        const float base = most == kNever<float> ? 0 : most * scale;
        const float shrink = two_to(fused(top[h], scale, -base));
        top[h] = most;
        mass[h] *= shrink;
        TYCHO_UNROLLED
        for (auto& block : sum) block[2 * h] *= shrink, block[2 * h + 1] *= shrink;
        TYCHO_UNROLLED
        for (int i = 0; i < kKeys / 4; ++i) {
          float& x = s[i / 2][2 * h + i % 2];
          x = two_to(fused(x, scale, -base));
          mass[h] += x;
        }
      }
    }
    all_copied();
    __syncthreads();  // the values are there, and nobody reads these keys
    if (key + kKeys < seen) k.template stage<kKeys>(memory, 0, keys - key - kKeys);
    if (!active) continue;
    TYCHO_UNROLLED
    for (int i = 0; i < kKeys / 16; ++i) {
      const uint32_t weight[4] = {both_of<T>(s[2 * i][0], s[2 * i][1]),
                                  both_of<T>(s[2 * i][2], s[2 * i][3]),
                                  both_of<T>(s[2 * i + 1][0], s[2 * i + 1][1]),
                                  both_of<T>(s[2 * i + 1][2], s[2 * i + 1][3])};
      TYCHO_UNROLLED
      for (int n = 0; n < depth / 16; ++n) {
        uint32_t b[4];
        take_matrices<true>(b, memory, kTile + Tile::at(i * 16 + lane % 16, 2 * n + lane / 16));
        mma<T>(sum[2 * n], weight, {b[0], b[1]});
        mma<T>(sum[2 * n + 1], weight, {b[2], b[3]});
      }
    }
  }

  const int64_t out = begin_of(a, a.out, head);
  TYCHO_UNROLLED
  for (int h = 0; h < 2; ++h) {
    const float all = quad_sum(mass[h]);
    const bool none = all == 0;  // no key: zeros
    const float share = none ? 0 : 1 / all;
    const int at = row + 8 * h;
    if (at >= queries) continue;
    if (t == 0)
      static_cast<float*>(a.lse)[head * a.queries + at] =
          none ? -kNever<float> : top[h] * static_cast<float>(a.scale) + log_of(all);
    uint32_t* const to = static_cast<uint32_t*>(a.out.data) + (out + at * a.out.row) / 2;
    TYCHO_UNROLLED
    for (int n = 0; n < depth / 8; ++n)
      if (n * 8 < a.width)
        to[n * 4 + t] = none ? 0 : both_of<T>(sum[n][2 * h] * share, sum[n][2 * h + 1] * share);
  }
}

}  // namespace

#if defined(TYCHO_EMULATED) || !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
// `blocks` of them share a multiprocessor's registers.
#define ATTENTION_FLASH(suffix, T, depth, warps, blocks)           \
  extern "C" __global__ void __launch_bounds__(32 * warps, blocks) \
      attention_flash_##suffix##_##depth(Attention a) {            \
    flash<T, depth, warps>(a);                                     \
  }                                                                \
  TYCHO_KERNEL(attention_flash_##suffix##_##depth)
ATTENTION_FLASH(f16, f16, 64, 4, 3)
ATTENTION_FLASH(f16, f16, 128, 8, 1)
ATTENTION_FLASH(bf16, bf16, 64, 4, 3)
ATTENTION_FLASH(bf16, bf16, 128, 8, 1)
#endif
