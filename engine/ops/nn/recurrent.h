// The recurrent kernels that cpu/ defines, and the steps that both halves walk.
#pragma once
#include <string_view>
#include <vector>

#include "engine/ops/nn/recurrence.h"
#include "engine/ops/table/op.h"

namespace tycho {

// The steps of a layer over time: step t takes the first count[t] sequences, whose rows lie from
// first[t] on. Counts never grow (the longest sequences come first).
struct TimeSteps {
  std::vector<int64_t> count, first;
  int64_t rows = 0;
  bool reverse = false;

  int64_t size() const { return static_cast<int64_t>(count.size()); }
  int64_t at(int64_t k) const { return reverse ? size() - 1 - k : k; }  // the k-th to be taken
  // Row of the step before t of sequence i; -1: its first.
  int64_t row_before(int64_t t, int64_t i) const {
    const int64_t before = reverse ? t + 1 : t - 1;
    if (before < 0 || before >= size() || i >= count[static_cast<size_t>(before)]) return -1;
    return first[static_cast<size_t>(before)] + i;
  }
};
// From the argument (a list, or none: all sequences in every step).
TimeSteps time_steps(const Value& counts, int64_t rows, int64_t sequences, bool reverse);

int recurrence_kind(std::string_view name);  // a Recurrence; -1 when there is none
int recurrence_gates(int kind);              // 1, 4 or 3

}  // namespace tycho
