// Convolutions: what the ops and their kernels share.
#pragma once
#include <atomic>

#include "engine/ops/table/op.h"
#include "engine/tensor/layout.h"

namespace tycho {

// Uninitialised [images, channels, spatial...] whose channels lie side by side in memory: the
// layout in which convolution, pooling and batch norm are fast. The user sees a row-major tensor
// (the inner layout of tensor/tensor.h), or with `shown` these strides.
Tensor empty_channels_last(const Sizes& shape, DType dtype, Device device, bool shown = false);

// What a script says of convolutions on devices that have a library for them (torch.backends.cudnn).
struct ConvolutionSettings {
  std::atomic<bool> enabled = true;           // the library is used where it is there
  std::atomic<bool> benchmark = false;        // its ways are timed, the fastest one stays
  std::atomic<int64_t> benchmark_limit = 10;  // of so many; 0: of all
  std::atomic<bool> deterministic = false;    // only ways that give the same bits every time
  std::atomic<bool> allow_tf32 = true;        // float32 may be multiplied with 11 bits
};
extern constinit ConvolutionSettings convolution_settings;

}  // namespace tycho
