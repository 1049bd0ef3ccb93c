// Fusion: large elementwise rows are held back and run as one program over tiles when something needs
// their values (tensor/defer.h says who that is). Results have the same bits as computed at once
// (but for the sign of a nan that two others make, which lanes decide also without fusion).
// What nobody can see any more is never written: temporaries of a chain, or what is only summed.
#pragma once
#include <cstdint>

namespace tycho::fuse {

constexpr int64_t kLeast = 8192;

// Rows with at least so many elements are held back; 0 turns fusion off. At start kLeast, or the
// environment's TYCHO_FUSE (0: off, n: from n elements).
void set_least(int64_t elements);
int64_t least();

}  // namespace tycho::fuse
