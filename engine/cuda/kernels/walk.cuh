// A walk over several tensors of one shape, as the host hands it to kernels: the addresses, types and
// strides of a result and its operands (cuda/walk.cpp fills it).
#pragma once
#include "engine/cuda/kernels/elements.cuh"

namespace tycho::cuda {

constexpr int kWalkDims = 8, kWalkTensors = 5;

// A number in the lanes' type takes the place of a tensor whose address is null.
struct Operands {
  int64_t numel;
  int32_t rank;  // 0: all are contiguous, or one element that repeats (stride[k][0] 1 or 0)
  int32_t count;
  int64_t size[kWalkDims];
  int64_t stride[kWalkTensors][kWalkDims];  // in elements
  void* data[kWalkTensors];
  int32_t dtype[kWalkTensors];
  double number[kWalkTensors];
  int64_t integer[kWalkTensors];
};

// The quotient; divisions of 64 bits take several times as long.
__device__ inline int64_t over(int64_t a, int64_t b) {
  if (((a | b) >> 31) == 0) return static_cast<uint32_t>(a) / static_cast<uint32_t>(b);
  return a / b;
}
// Where element i of the walk lies in each of its tensors.
template <int count>
__device__ inline void places(const Operands& w, int64_t i, int64_t (&at)[count]) {
  if (w.rank == 0) {
    for (int k = 0; k < count; ++k) at[k] = w.stride[k][0] * i;
    return;
  }
  for (int k = 0; k < count; ++k) at[k] = 0;
  for (int d = w.rank - 1; d >= 0; --d) {
    const int64_t rest = over(i, w.size[d]), index = i - rest * w.size[d];
    for (int k = 0; k < count; ++k) at[k] += index * w.stride[k][d];
    i = rest;
  }
}

// The last index of element i, which becomes the number of what is left.
__device__ inline int64_t take_last(int64_t& i, int64_t size) {
  if (size == 1) return 0;
  const int64_t rest = over(i, size), index = i - rest * size;
  i = rest;
  return index;
}

__device__ inline int64_t first_element() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ inline int64_t all_threads() { return static_cast<int64_t>(gridDim.x) * blockDim.x; }

}  // namespace tycho::cuda
