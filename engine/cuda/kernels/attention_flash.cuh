// Tiles of 16-bit elements in shared memory, as copies and tensor cores like them: 16 bytes are a chunk,
// a row's chunks lie in an order that its number turns, so that eight rows' are on different banks.
#pragma once
#include "engine/cuda/kernels/attention_tile.cuh"

namespace tycho::cuda {

struct alignas(16) Chunk {
  uint32_t word[4];
};
constexpr int kOfChunk = 8;  // elements

// 2^x.
__device__ inline float two_to(float x) {
#ifdef TYCHO_EMULATED
  return exp2f(x);
#else
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#endif
}

// A chunk comes to tile[at], or zeros do; who reads it waits for all_copied, and for the others.
template <class Tile>
__device__ __forceinline__ void copy_chunk(Tile& tile, int at, const Chunk* from, bool there) {
#if defined(TYCHO_EMULATED)
  tile[at] = there ? *from : Chunk{};
#elif __CUDA_ARCH__ >= 800
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(&tile[at]));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from),
               "r"(there ? 16 : 0)
               : "memory");
#endif
}
__device__ __forceinline__ void all_copied() {
#if !defined(TYCHO_EMULATED) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Four matrices of 8 x 8 elements, spread over the lanes as mma takes them (PTX ISA, ldmatrix): lane l
// says where row l % 8 of matrix l / 8 is.
template <bool turned, class Tile>
__device__ __forceinline__ void take_matrices(uint32_t (&x)[4], Tile& tile, int at) {
#if defined(TYCHO_EMULATED)
  const int lane = static_cast<int>(threadIdx.x), g = lane / 4, t = lane % 4;
  for (int m = 0; m < 4; ++m) {
    if (!turned) {
      const Chunk row = tile[__shfl_sync(0xffffffffu, at, 8 * m + g)];
      x[m] = row.word[t];
      continue;
    }
    x[m] = 0;
    for (int h = 0; h < 2; ++h) {
      const Chunk row = tile[__shfl_sync(0xffffffffu, at, 8 * m + 2 * t + h)];
      x[m] |= (row.word[g / 2] >> (16 * (g % 2)) & 0xffffu) << (16 * h);
    }
  }
#elif __CUDA_ARCH__ >= 800
  const auto from = static_cast<uint32_t>(__cvta_generic_to_shared(&tile[at]));
  if constexpr (turned) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(from)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(from)
                 : "memory");
  }
#endif
}

// Rows of so many elements.
template <int depth>
struct FlashTile {
  static constexpr int chunks = depth / kOfChunk;
  __device__ static __forceinline__ int at(int row, int chunk) {
    return row * chunks + (chunk ^ (row & 7));
  }
  // A thread's chunks of rows that come one piece after the other.
  template <int warps>
  struct Rows {
    static constexpr int kEach = 32 * warps / chunks;  // rows at a time
    const Chunk* from;
    int step, first, to;
    bool inside;
    __device__ Rows(const Heads& m, int64_t begin, int64_t length)
        : step(static_cast<int>(m.row / kOfChunk)) {
      const int thread = static_cast<int>(threadIdx.y * 32 + threadIdx.x), chunk = thread % chunks;
      static_assert(kEach % 8 == 0);
      first = thread / chunks;
      to = at(first, chunk);
      inside = chunk * kOfChunk < length;
      from = static_cast<const Chunk*>(m.data) + begin / kOfChunk + int64_t{step} * first + chunk;
    }
    // The next `rows`, of which `left` are there, to the tile that begins at `tile`.
    template <int rows, class Memory>
    __device__ __forceinline__ void stage(Memory& memory, int tile, int left) {
      TYCHO_UNROLLED
      for (int row = 0; row < rows; row += kEach) {
        copy_chunk(memory, tile + to + row * chunks, from, inside && row + first < left);
        from += kEach * step;
      }
    }
  };
};

}  // namespace tycho::cuda
