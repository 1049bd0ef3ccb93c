// The sequences of a ctc_loss, on the host: what kernels read of lengths and targets.
#pragma once
#include <span>
#include <vector>

#include "engine/ops/table/op.h"

namespace tycho {

struct CtcSequences {
  std::vector<int64_t> steps;   // of each sequence
  std::vector<int64_t> begin;   // of its labels, and at last their number
  std::vector<int64_t> labels;  // from 0
  std::span<const int64_t> labels_of(int64_t i) const {
    const auto k = static_cast<size_t>(i);
    return std::span(labels).subspan(static_cast<size_t>(begin[k]),
                                     static_cast<size_t>(begin[k + 1] - begin[k]));
  }
};
// Of a call of _ctc; raises where lengths, targets and labels do not fit together.
CtcSequences ctc_sequences(const Call& c);

}  // namespace tycho
