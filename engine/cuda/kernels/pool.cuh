// Windows over images, as the host hands them to the kernels of pool.cu.
#pragma once
#include <stdint.h>

namespace tycho::cuda {

struct PoolAxis {
  int64_t in, out, kernel, dilation, pad;
  int64_t stride;  // 0: windows of adaptive pooling, which differ in size
};

// Strides in elements: batch, channel, and the three axes (those that are not there have size 1).
struct PoolTensor {
  void* data;
  int32_t dtype;
  int64_t stride[5];
};

struct Pooling {
  int64_t batch, channels;
  PoolAxis axis[3];
  PoolTensor image, pooled, taps;
  int32_t channels_last;  // neighbouring threads take neighbouring channels, not columns
  int32_t padded;         // an average counts padding
  int64_t divisor;        // of averages; 0: the number of taps
};

}  // namespace tycho::cuda
