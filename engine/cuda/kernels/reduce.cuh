// One reduction, as the host hands it to the kernels of reduce.cu: results that are left ("kept") and
// elements that meet in each ("depth"). Parts of the depth may go to blocks of their own; a second
// launch folds what they left in `partial`. How it is cut depends on shapes alone, so every chip
// gives the same bits.
#pragma once
#include <stdint.h>

namespace tycho::cuda {

constexpr int kReduceDims = 8;

enum class ReduceWay : int32_t {
  Warps,    // a warp for each result
  Blocks,   // a block for each part of a result
  Columns,  // 32 neighbouring results for each block, which reads them row by row
  Merge,    // a warp for each result folds its parts
};

// Threads are 32 x 8 in every way. Blocks: Warps and Merge kept / 8, Blocks kept x parts,
// Columns kept / 32 x parts.
struct Reduction {
  const void* in;
  void* out[2];   // row-major; the second is a position or a mean, or null
  void* partial;  // [parts][kept] states; null when there is one part
  int32_t in_dtype, out_dtype[2];
  int32_t row;  // of reduce.def
  ReduceWay way;
  int32_t kept_rank, depth_rank;
  int32_t root;       // of a variance: whether its root is wanted
  double correction;  // of a variance
  int64_t kept, depth;
  int64_t parts, part;                                       // how many, and the elements of one
  int64_t kept_size[kReduceDims], kept_stride[kReduceDims];  // in elements
  // Of sums of a gradient that lies as `in` does: means and 1 / deviations in lanes, of result
  // k / unit_step, or with 0 of the element in the depth.
  const void *grad, *mean, *rstd;
  int32_t grad_dtype, unit_step;
  int64_t depth_size[kReduceDims], depth_stride[kReduceDims];
};

}  // namespace tycho::cuda
