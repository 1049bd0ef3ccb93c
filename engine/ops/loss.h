// What the losses share: reductions, the shape of class labels, and the kernels of loss.cpp.
#pragma once
#include "engine/ops/op.h"

namespace tycho {

enum class Reduction : uint8_t { None, Mean, Sum };
// From "none", "mean" or "sum"; raises Kind::Argument.
Reduction parse_reduction(const char* text);
// Losses, one each, reduced as asked.
Tensor reduce_loss(const Tensor& each, Reduction r);

// Scores of C classes for each of N samples and S places (pixels, words): x is [N, C, S], or [C].
struct Classes {
  int64_t samples, classes, places;
};
Classes classes_of(const Tensor& x);

}  // namespace tycho

namespace tycho::cpu {

void softmax_nll(Call& c);
void softmax_nll_backward(Call& c);
void nll_forward(Call& c);
void nll_terms(Call& c);

}  // namespace tycho::cpu
