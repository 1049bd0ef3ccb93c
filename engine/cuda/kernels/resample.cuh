// Weighted sums of neighbours along a dimension, as the host hands them to the kernels of resample.cu.
#pragma once
#include <stdint.h>

namespace tycho::cuda {

// Output i is the sum of weight[i][k] times input first[i] + k (from 0), which never falls.
struct Resample {
  const void *in, *weight;
  const int64_t* first;
  void* out;
  int32_t in_dtype, weight_dtype, out_dtype;
  int32_t back;  // from outputs to inputs
  int64_t numel, inputs, outputs, inner, taps;
};

struct ResampleTaps {
  int64_t* first;
  double* weight;
  int64_t inputs, outputs, taps;
  double scale;
  int32_t cubic, corners, antialias;
};

}  // namespace tycho::cuda
