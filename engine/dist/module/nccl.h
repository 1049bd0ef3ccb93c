// NCCL over a given transport of the host's bytes, which may be none where there is one rank.
#pragma once
#include "engine/dist/transport.h"

namespace tycho::dist {

std::unique_ptr<Transport> make_nccl_over(const Members& members, std::unique_ptr<Transport> host);

}  // namespace tycho::dist
