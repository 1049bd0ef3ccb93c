// Tiles of matrices in shared memory, and their products: what attention.cu computes with. A warp has
// 16 rows of a product, spread over its lanes as tensor cores spread them: of each 8 columns a lane has
// columns 2 t and 2 t + 1 of rows g and g + 8, where g = lane / 4 and t = lane % 4. Both operands lie
// by lines along the dimension that is summed over, in packs that are read as one; what pads a line
// spreads neighbouring lines over the banks.
#pragma once
#include "engine/cuda/kernels/attention_parts.cuh"

namespace tycho::cuda {

// A tile to be: line i, place k lies at `at` + i * i_step + k * k_step; beyond `lines` and `length`
// are zeros.
struct Side {
  const void* data;
  int32_t dtype;
  bool whole;
  int64_t at, i_step, k_step, lines, length;
  __device__ Side from(int64_t k) const {
    return {data, dtype, whole, at + k * k_step, i_step, k_step, lines, length - k};
  }
};

// Sizes of tiles, in packs, of lanes L that have per, kPad, kChunk, kColumns and kWide.
template <class L>
struct TileSizes {
  static constexpr int chunk_pitch = L::kChunk / L::per + L::kPad;
  static constexpr int column_pitch = L::kColumns / L::per + L::kPad;
  static constexpr int left = kAttentionRows * chunk_pitch;
  static constexpr int weights = kAttentionRows * column_pitch;
  static constexpr int right = L::kColumns * chunk_pitch > L::kWide* column_pitch
                                   ? L::kColumns* chunk_pitch
                                   : L::kWide* column_pitch;
};

// In floats or doubles, elements of any type, by multiplications of lanes.
template <class T>
struct FmaLanes {
  using Lane = T;
  static constexpr int per = 16 / sizeof(T), kPad = 1, kStep = per;
  static constexpr int kColumns = sizeof(T) == 4 ? 32 : 16;  // of a tile of scores
  static constexpr int kChunk = sizeof(T) == 4 ? 64 : 32;    // of a line that is staged at a time
  static constexpr int kWide = sizeof(T) == 4 ? 128 : 64;    // columns that a block sums up
  using Packed = Pack<T, per>;
  using Sizes = TileSizes<FmaLanes>;

  __device__ static __forceinline__ Packed take(const Side& m, int64_t at, int64_t left) {
    if (m.whole && left >= per) return static_cast<const Packed*>(m.data)[at / per];
    Packed p;
    TYCHO_UNROLLED
    for (int e = 0; e < per; ++e)
      p.x[e] = e < left ? load_floating<T>(m.data, m.dtype, at + e * m.k_step) : T(0);
    return p;
  }
  // The scores of block n in the rows `row` and `row` + 8.
  template <class Tile>
  __device__ static __forceinline__ void put(Tile& tile, int row, int t, int n, const T (&s)[4]) {
    constexpr int pitch = Sizes::column_pitch;
    if constexpr (per == 2) {
      tile[row * pitch + n * 4 + t] = Packed{{s[0], s[1]}};
      tile[(row + 8) * pitch + n * 4 + t] = Packed{{s[2], s[3]}};
    } else {
      // Two lanes have the two halves of two packs.
      const bool odd = t & 1;
      const T x = __shfl_xor_sync(0xffffffffu, odd ? s[0] : s[2], 1);
      const T y = __shfl_xor_sync(0xffffffffu, odd ? s[1] : s[3], 1);
      tile[(row + 8 * odd) * pitch + n * 2 + t / 2] =
          odd ? Packed{{x, y, s[2], s[3]}} : Packed{{s[0], s[1], x, y}};
    }
  }
  // c += the products of lines `row` and `row` + 8 of `left` with the first 8 `blocks` lines of
  // `right`.
  template <int n, class Left, class Right>
  __device__ static __forceinline__ void multiply(T (&c)[n][4], Left& left, int left_pitch, int row,
                                                  Right& right, int right_pitch, int t, int,
                                                  int packs, int blocks) {
    TYCHO_ROLLED
    for (int p = 0; p < packs; ++p) {
      const Packed a = left[row * left_pitch + p], d = left[(row + 8) * left_pitch + p];
      TYCHO_UNROLLED
      for (int k = 0; k < n; ++k) {
        if (k >= blocks) break;
        const Packed x = right[(k * 8 + 2 * t) * right_pitch + p];
        const Packed y = right[(k * 8 + 2 * t + 1) * right_pitch + p];
        TYCHO_UNROLLED
        for (int e = 0; e < per; ++e) {
          c[k][0] = fused(a.x[e], x.x[e], c[k][0]);
          c[k][1] = fused(a.x[e], y.x[e], c[k][1]);
          c[k][2] = fused(d.x[e], x.x[e], c[k][2]);
          c[k][3] = fused(d.x[e], y.x[e], c[k][3]);
        }
      }
    }
  }
};

// c += a b of 16 x 16 and 16 x 8 elements by a warp's tensor core (PTX ISA, mma.m16n8k16).
template <class T>
__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#ifdef TYCHO_EMULATED
  ::tycho::cuda::emulated::mma_m16n8k16(c, a, b, [](uint16_t x) { return to_float(T{x}); });
#elif __CUDA_ARCH__ >= 800
  if constexpr (same_type<T, f16>) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
#endif
}

// 16-bit elements of one type T, by tensor cores (sm_80 and newer); sums are floats.
template <class T, int columns>
struct MmaLanes {
  using Lane = float;
  static constexpr int per = 2, kPad = 4, kStep = 16, kColumns = columns, kChunk = 128, kWide = 128;
  using Packed = uint32_t;
  using Sizes = TileSizes<MmaLanes>;

  __device__ static __forceinline__ Packed take(const Side& m, int64_t at, int64_t left) {
    if (m.whole && left >= per) return static_cast<const Packed*>(m.data)[at / per];
    const Packed low = element<uint16_t>(m.data, at);
    return left < per ? low : low | Packed{element<uint16_t>(m.data, at + m.k_step)} << 16;
  }
  __device__ static __forceinline__ Packed both(float x, float y) {
    return from_float<T>(x).bits | Packed{from_float<T>(y).bits} << 16;
  }
  template <class Tile>
  __device__ static __forceinline__ void put(Tile& tile, int row, int t, int n,
                                             const float (&s)[4]) {
    constexpr int pitch = Sizes::column_pitch;
    tile[row * pitch + n * 4 + t] = both(s[0], s[1]);
    tile[(row + 8) * pitch + n * 4 + t] = both(s[2], s[3]);
  }
  template <int n, class Left, class Right>
  __device__ static __forceinline__ void multiply(float (&c)[n][4], Left& left, int left_pitch,
                                                  int row, Right& right, int right_pitch, int t,
                                                  int g, int packs, int blocks) {
    TYCHO_ROLLED
    for (int p = t; p < packs; p += 8) {
      const uint32_t a[4] = {left[row * left_pitch + p], left[(row + 8) * left_pitch + p],
                             left[row * left_pitch + p + 4], left[(row + 8) * left_pitch + p + 4]};
      TYCHO_UNROLLED
      for (int k = 0; k < n; ++k) {
        if (k >= blocks) break;
        const uint32_t b[2] = {right[(k * 8 + g) * right_pitch + p],
                               right[(k * 8 + g) * right_pitch + p + 4]};
        mma<T>(c[k], a, b);
      }
    }
  }
};

// `lines` lines of `packs` packs; `across`: neighbouring lanes have neighbouring lines.
template <class L, class Tile>
__device__ __forceinline__ void stage(Tile& tile, int pitch, const Side& m, int lines, int packs,
                                      bool across) {
  constexpr int per = L::per, kThreads = 128;
  const int thread = static_cast<int>(threadIdx.y * 32 + threadIdx.x);
  const int shift = across || packs > 16 ? 5 : packs > 8 ? 4 : 3;
  const int inner = thread & ((1 << shift) - 1), outer = thread >> shift;
  const int inner_count = across ? lines : packs, outer_count = across ? packs : lines;
  for (int o = outer; o < outer_count; o += kThreads >> shift)
    for (int n = inner; n < inner_count; n += 1 << shift) {
      const int i = across ? n : o, p = across ? o : n, k = p * per;
      typename L::Packed x{};
      if (i < m.lines && k < m.length)
        x = L::take(m, m.at + i * m.i_step + k * m.k_step, m.length - k);
      tile[i * pitch + p] = x;
    }
}

}  // namespace tycho::cuda
