// One row of numbers along a dimension, as the host hands it to kernels that read a row, fold it and
// write it again: softmax and its kin, norms of rows.
#pragma once
#include <stdint.h>

namespace tycho::cuda {

enum class AlongWay : int32_t {
  Warps,    // a warp for each row
  Blocks,   // a block for each row
  Columns,  // 32 neighbouring rows for each block, 8 threads for each
};

// Row-major tensors of outer x n x inner elements. Threads are 32 x 8; blocks: Warps rows / 8,
// Blocks rows, Columns rows / 32.
struct Along {
  AlongWay way;
  int32_t log;      // log_softmax
  int32_t centred;  // layer_norm
  int32_t in_dtype, grad_dtype, out_dtype, weight_dtype, bias_dtype;
  const void *in, *grad;
  const void *weight, *bias;  // of n elements, or null
  void *mean, *rstd;          // per row, in lanes
  void* out;
  double eps;
  int64_t rows, n, inner;
};

}  // namespace tycho::cuda
