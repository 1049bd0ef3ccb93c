// The three products of a convolution on a device, over images with their channels side by side: by
// cuDNN, or by own kernels and matrix products.
#pragma once
#include "engine/cuda/kernels/conv.cuh"
#include "engine/tensor/tensor.h"

namespace tycho::cuda {

// What is made: the result, the input's gradient, the weight's.
enum class ConvKind { Forward, Input, Weight };

// x, w and y have one type and lie with their channels last; the one that `kind` names is written.
// `bias` has their type, or is none, and is for Forward. False where cuDNN is not there or has no way
// to do it; nothing is written then.
bool convolve_by_library(ConvKind kind, const ConvShape& s, const Tensor& x, const Tensor& w,
                         const Tensor& y, const Tensor& bias = {});
void convolve_by_products(ConvKind kind, const ConvShape& s, const Tensor& x, const Tensor& w,
                          const Tensor& y);

// Bytes of windows that are written at a time; tests make it small.
extern int64_t most_conv_windows;

}  // namespace tycho::cuda
