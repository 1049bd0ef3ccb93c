// What the losses share: reductions and the shape of class labels.
#pragma once
#include "engine/ops/table/op.h"

namespace tycho {

enum class Reduction : uint8_t { None, Mean, Sum };
// From "none", "mean" or "sum"; raises Kind::Argument.
Reduction parse_reduction(const char* text);
Tensor reduce_loss(const Tensor& each, const char* reduction);
// Losses, one each, reduced as asked.
Tensor reduce_loss(const Tensor& each, Reduction r);

// Scores of C classes for each of N samples and S places (pixels, words): x is [N, C, S], or [C].
struct Classes {
  int64_t samples, classes, places;
};
Classes classes_of(const Tensor& x);

// What labels say, with the shape `each`: which are not to be ignored, and which class; 1 for the others.
struct Labels {
  Tensor keep, at;
};
Labels labels_of(const Tensor& target, const Sizes& each, int64_t ignored);

}  // namespace tycho
