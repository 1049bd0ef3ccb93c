// Plans of cuDNN for a convolution: a graph of it and maybe its bias, the ways that the library's heuristics
// name for it, and of these the ones that a script allows.
#pragma once
#include <vector>

#include "engine/cuda/conv.h"
#include "engine/cuda/cudnn.h"

namespace tycho::cuda {

// All that a plan depends on, as numbers: the key of those that are kept.
struct ConvQuestion {
  int64_t kind, type;  // ConvKind, DType
  int64_t tf32, deterministic;
  int64_t aligned[4];  // addresses of x, w, y and the bias, in bytes; 0: there is no bias
  ConvShape shape;
};

// Whom a plan is for: the handle of a device that is there, or the description of one.
struct PlanTarget {
  dnn::Handle handle = nullptr;
  const Descriptor* device = nullptr;
};

struct ConvPlan {
  Descriptor plan;
  size_t workspace = 0;
};

constexpr int64_t kUidX = 'x', kUidW = 'w', kUidY = 'y', kUidBias = 'b', kUidSum = 's';

// At most `count`, the best by the library's judgement first; none where it has no way, or only ways
// that need more memory than `workspace`.
std::vector<ConvPlan> plans_of(const ConvQuestion& q, const PlanTarget& target, size_t count,
                               size_t workspace);

// The questions whose plans are kept, for tests.
std::vector<ConvQuestion> questions_asked();

}  // namespace tycho::cuda
