// Products of integer matrices, which no library has: tiles of 16 x 16 through shared memory.
#include "engine/cuda/kernels/matmul.cuh"
#include "engine/cuda/kernels/prelude.cuh"

using namespace tycho::cuda;

extern "C" __global__ void matmul_i64(IntegerProduct p) {
  TYCHO_SHARED(int64_t, a, 256);
  TYCHO_SHARED(int64_t, b, 256);
  const int x = static_cast<int>(threadIdx.x), y = static_cast<int>(threadIdx.y);
  const int64_t row = static_cast<int64_t>(blockIdx.x) * 16 + y;
  const int64_t col = static_cast<int64_t>(blockIdx.y) * 16 + x;
  for (int64_t i = blockIdx.z; i < p.batch; i += gridDim.z) {
    const int64_t *const pa = p.a + i * p.a_step, *const pb = p.b + i * p.b_step;
    uint64_t sum = 0;  // wraps around
    for (int64_t k = 0; k < p.k; k += 16) {
      a[y * 16 + x] = row < p.m && k + x < p.k ? pa[row * p.k + k + x] : 0;
      b[y * 16 + x] = col < p.n && k + y < p.k ? pb[(k + y) * p.n + col] : 0;
      __syncthreads();
      for (int j = 0; j < 16; ++j)
        sum += static_cast<uint64_t>(int64_t(a[y * 16 + j])) *
               static_cast<uint64_t>(int64_t(b[j * 16 + x]));
      __syncthreads();
    }
    if (row < p.m && col < p.n) p.out[(i * p.m + row) * p.n + col] = static_cast<int64_t>(sum);
  }
}
TYCHO_KERNEL(matmul_i64)
