// TYCHO_GUARD=1: an allocator for tests. Every block of tensor data and of working memory ends at a
// page that nobody may touch and begins behind one; gaps that alignment leaves hold canaries, which
// are looked at on release; fresh blocks hold NaN. What a library's kernel writes or reads outside
// of its block ends the program with a report, where the address sanitizer sees nothing.
// TYCHO_GUARD=begin lays blocks against the page in front instead, so that a read before a block
// is seen too.
#pragma once
#include <cstddef>

namespace tycho::guard {

bool on();  // decided at the first call, and for good

// As allocate and release of memory.h.
void* take(size_t bytes);
void give(void* memory, size_t bytes);

// What is computed, for reports. The text must stay.
extern constinit bool watching;  // as on(), once anything was allocated
void note(const char* operation);

}  // namespace tycho::guard
