// Norms of channels, as the host hands them to the kernels of norm.cu. A row is a channel, of group
// norm a channel of one sample; rows that are normalised together are a group of `inside` rows.
#pragma once
#include <stdint.h>

namespace tycho::cuda {

// Without a type's number: numbers in lanes.
struct ChannelFactors {
  int64_t rows, inside, channels;
  const double *moment_mean, *moment_var;  // per group
  const double *sum, *dot;                 // per row, of the gradient
  const void *weight, *bias;               // per channel, or null
  void* running[2];                        // mean and variance per channel, or null
  void *mean, *rstd;                       // per group
  void *at, *factor, *slope, *shift;       // per row
  int32_t weight_dtype, bias_dtype, running_dtype[2];
  int32_t training;
  double eps, momentum, count, unbiased;  // elements per group; n / (n - 1)
};

// Element i of dense memory is of row i / inner % rows.
struct ChannelApply {
  int64_t numel, inner, rows;
  const void *in, *grad;
  void* out;
  const void *at, *factor, *slope, *shift;
  int32_t in_dtype, grad_dtype, out_dtype;
};

}  // namespace tycho::cuda
