// Fusion: large elementwise rows are held back and run as one program over tiles when something needs
// their values (tensor/defer.h says who that is). Results have the same bits as computed at once
// (but for the sign of a nan that two others make, which lanes decide also without fusion).
// An activation that follows a matrix product on a device may be computed in the product's own pass,
// before its sum is rounded. What nobody can see any more is never written: temporaries of a chain, or
// what is only summed.
#pragma once
#include <cstdint>

namespace tycho::fuse {

// On the CPU tiles pay from some thousand elements on. A device's launch costs microseconds however
// small it is, and holding a row back a tenth of one: there rows are held from the first element.
constexpr int64_t kLeast = 8192, kLeastOnDevices = 1;

// Rows with at least so many elements are held back, on devices as well; 0 turns fusion off. kLeast,
// as at the start, means kLeastOnDevices there. The environment's TYCHO_FUSE (0: off, n: from n
// elements) is another start.
void set_least(int64_t elements);
int64_t least();

}  // namespace tycho::fuse
