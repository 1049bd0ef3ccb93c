// Copies across a source whose nearest elements have gaps.
#pragma once
#include "engine/cpu/walk.h"
#include "engine/tensor/tensor.h"

namespace tycho::cpu {

// Would the destination's order read a line of the cache for each element, where lines hold some of them?
// `w`: the destination, and the source.
bool crosses_steps(const Walk& w, int64_t source_bytes);
// Parts are laid out in the source's order first, each line read once, and turned while they are near.
void copy_in_order(const Tensor& to, const Tensor& from);

}  // namespace tycho::cpu
