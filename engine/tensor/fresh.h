// Tensors that hold zeros because the system has just given their memory.
#pragma once
#include "engine/tensor/tensor.h"

namespace tycho {

// Is this tensor of the host, which the calling thread has just made, in memory that holds zeros?
bool holds_fresh_zeros(const Tensor& t);

}  // namespace tycho
