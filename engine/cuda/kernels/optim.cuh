// Optimiser steps over many parameters at once, as the host hands them to the kernels of optim.cu.
#pragma once
#include <stdint.h>

namespace tycho::cuda {

constexpr int kOptimTensors = 40, kOptimLists = 5;
constexpr int64_t kOptimChunk = 4096;  // elements of one block

// Tensors that lie dense, each list in the same order. Block b works on the tensor t with
// first_block[t] <= b < first_block[t + 1].
struct OptimLists {
  int32_t count;
  int32_t first_block[kOptimTensors + 1];
  int64_t numel[kOptimTensors];
  void* data[kOptimLists][kOptimTensors];  // parameters, gradients, state; null: none
  uint8_t dtype[kOptimLists][kOptimTensors];
};

}  // namespace tycho::cuda
