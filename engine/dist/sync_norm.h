// Batch norm whose statistics are those of all ranks' batches together (nn.SyncBatchNorm).
#pragma once
#include "engine/dist/group.h"

namespace tycho::dist {

// x [N, C, ..], N different on each rank and 0 on some; the rest [C] or undefined. The running
// statistics move towards those of the whole batch. Collective, and so is its backward pass. First
// derivatives only.
Tensor sync_batch_norm(const Ref<Group>& group, const Tensor& x, const Tensor& weight,
                       const Tensor& bias, const Tensor& running_mean, const Tensor& running_var,
                       double momentum, double eps);

}  // namespace tycho::dist
