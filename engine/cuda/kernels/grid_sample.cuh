// grid_sample, as the host hands it to the kernels of grid_sample.cu: row-major tensors.
#pragma once
#include <stdint.h>

namespace tycho::cuda {

enum class GridMode : int32_t { Nearest, Linear, Cubic };
enum class GridPadding : int32_t { Zeros, Border, Reflection };

struct GridSample {
  const void *x, *grid;  // [n, channels, size..], [n, points, dims]: the last dimension first
  void* out;             // [n, channels, points]
  int32_t dtype, dims, corners;
  GridMode mode;
  GridPadding padding;
  int64_t size[3];
  int64_t channels, places, points, numel;
};

}  // namespace tycho::cuda
