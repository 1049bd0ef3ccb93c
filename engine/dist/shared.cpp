// Moving storages into segments, and finding them there.
#include "engine/dist/shared.h"

#include <cstring>

#include "engine/base/check.h"
#include "engine/base/memory.h"
#include "engine/base/pool.h"

namespace tycho::dist {
namespace {

constexpr size_t kLine = 64;
size_t aligned(size_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

// What is shared counts as live, so that who drops many shared tensors is told to collect them.
void count(int64_t bytes) { memory::live.bytes.fetch_add(bytes, std::memory_order_relaxed); }

void let_go(void*, size_t bytes, void* segment) {
  count(-static_cast<int64_t>(bytes));
  Ref<Segment>::drop(static_cast<Segment*>(segment));
}

void put_into(Storage& s, const Place& place) {
  s.data = place.segment->data + place.offset;
  s.free_data = let_go;
  s.context = Ref<Segment>(place.segment).leak();
  count(static_cast<int64_t>(s.bytes));
}

}  // namespace

bool is_shared(const Storage& s) { return s.free_data == let_go; }

Place place_of(const Storage& s) {
  Ref<Segment> segment(static_cast<Segment*>(s.context));
  const auto offset = static_cast<size_t>(static_cast<char*>(s.data) - segment->data);
  return {std::move(segment), offset};
}

void share(std::span<Storage* const> storages) {
  size_t bytes = 0;
  for (Storage* s : storages)
    if (!is_shared(*s)) bytes += aligned(s->bytes);
  if (bytes == 0 && storages.empty()) return;
  Place place;
  for (Storage* s : storages) {
    if (is_shared(*s)) continue;
    ready(*s);
    if (!place.segment) place.segment = Segment::make(bytes, "tycho tensors");
    std::memcpy(place.segment->data + place.offset, s->data, s->bytes);
    if (s->free_data)
      s->free_data(s->data, s->bytes, s->context);
    else
      tycho::release(s->data, s->bytes);
    put_into(*s, place);
    place.offset += aligned(s->bytes);
  }
}

Ref<Storage> storage_at(const Place& place, size_t bytes) {
  TYCHO_CHECK(Kind::Value,
              place.offset <= place.segment->bytes && bytes <= place.segment->bytes - place.offset,
              "shared memory: a tensor does not lie inside its segment");
  Ref<Storage> s = new_storage(0, Device{});
  tycho::release(s->data, 0);
  s->bytes = bytes;
  put_into(*s, place);
  return s;
}

}  // namespace tycho::dist
