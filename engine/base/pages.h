// Memory from the operating system: whole pages, aligned as asked, and how much of it is left.
#pragma once
#include <cstddef>
#include <cstdint>

namespace tycho {

enum class Pages : uint8_t {
  Plain,      // touched page by page
  Populated,  // all touched at once: cheaper for blocks that will be written fully
  Huge,       // asks for 2 MB pages; worth it from 2 MB, aligned to 2 MB
};

inline constexpr size_t kPage = 4096;
inline constexpr size_t kHugePage = size_t(2) << 20;

// `bytes` (a multiple of kPage) of zeroed memory, or nullptr. The alignment is a power of two.
// Reserves no more than it hands out, so it works under `ulimit -v`; when only the slack for an
// alignment above `needed` does not fit, the block is aligned to `needed`.
void* map_pages(size_t bytes, size_t alignment, size_t needed, Pages pages);
void unmap_pages(void* memory, size_t bytes);

// Whether the machine (and the memory control group) still has `bytes` that can be written.
// Linux hands out more addresses than it has memory, and ends the process that writes to them.
bool memory_has_room(size_t bytes);

}  // namespace tycho
