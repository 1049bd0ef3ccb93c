// NCCL without a GPU: ranks are threads, collectives are work in their emulated streams that waits for
// that of the others; communicators answer late, as non-blocking ones do.
#pragma once
#include "engine/cuda/nccl.h"

namespace tycho::cuda::emulated {

const Nccl& nccl_on_cpu();
int nccl_comms();  // that are there

}  // namespace tycho::cuda::emulated
