// Storages whose memory is a segment, so that other processes have it too. Views keep sharing: it is
// the storage that moves. Versions and gradients are each process's own.
#pragma once
#include <span>

#include "engine/dist/segment.h"
#include "engine/tensor/storage.h"

namespace tycho::dist {

bool is_shared(const Storage& s);
// Where a shared storage lies.
struct Place {
  Ref<Segment> segment;
  size_t offset = 0;
};
Place place_of(const Storage& s);

// Moves those of the storages that are not shared yet into one new segment; they must lie on the
// CPU. Nobody else may be using them meanwhile. Raises as Segment::make.
void share(std::span<Storage* const> storages);

Ref<Storage> storage_at(const Place& place, size_t bytes);

}  // namespace tycho::dist
