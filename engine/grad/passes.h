// How many backward passes a gradient sums, and how many of them an optimiser's step has used: what
// tells a gradient that was forgotten to be zeroed from one that is summed on purpose.
#pragma once
#include "engine/tensor/storage.h"

namespace tycho::grad {

inline constexpr char kPass[] = "backward";  // Storage::changed_by of a gradient that was added to

struct Passes {
  uint32_t count;
  Storage::Stepped stepped;
};
Passes passes_of(const Storage& s);
void pass_added(Storage& s, Passes before);                 // one more, after what there was before
void counted_gradient_changed(Storage& s, const char* op);  // by an operation
// An optimiser is about to use the gradient: the number of passes it sums when an earlier step has
// used some of them and nothing zeroed it in between, else 0.
uint32_t use_gradient(Storage& s);

}  // namespace tycho::grad
