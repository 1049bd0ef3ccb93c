// Memory of the host that devices read and write by themselves, in bins over the driver's, and copies
// between it and a device that the host does not wait for.
#pragma once
#include "engine/cuda/context.h"

namespace tycho::cuda {

// As Backend's functions of these names.
void* allocate_pinned(size_t bytes);
void release_pinned(void* memory, size_t bytes);
void copy_later(const Tensor& to, const Tensor& from);

// Lets go of the host's tensors whose copies are done.
void forget_arrived(DeviceContext& d);

}  // namespace tycho::cuda
