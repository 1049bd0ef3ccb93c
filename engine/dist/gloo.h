// Gloo alone, as if every member were on a host of its own: for tests, and to measure it.
#pragma once
#include "engine/dist/transport.h"

namespace tycho::dist {

std::unique_ptr<Transport> make_flat_gloo(const Members& members);

}  // namespace tycho::dist
