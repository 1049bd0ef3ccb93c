// Memory that holds zeros because the system has just given it, so that nobody need write them.
#pragma once
#include <cstddef>

namespace tycho {

// Was this block mapped for the calling thread's last allocation of its kind (above 128 KB)? Asked
// right after that allocation, before anything is written to it.
bool is_fresh(const void* block, size_t bytes);

}  // namespace tycho
