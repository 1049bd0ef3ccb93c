// Making and freeing storages; the text of the out-of-memory error.
#include "engine/tensor/storage.h"

#include "engine/base/check.h"
#include "engine/base/memory.h"
#include "engine/base/pool.h"

namespace tycho {

Ref<Storage> new_storage(size_t bytes, Device device) {
  void* data = allocate(device.number, bytes);
  if (!data && bytes) [[unlikely]]
    fail(Kind::Oom,
         format("out of memory on %s: %.1f MB wanted, %.1f MB in use by tensors",
                device_name(device).c_str(), bytes / 1e6, live_bytes(device.number) / 1e6),
         "drop what is not needed (x = nil), work in smaller batches, or use torch.no_grad");
  auto* s = new (FreeList<Storage>::take()) Storage;
  s->device = device;
  s->data = data;
  s->bytes = bytes;
  return Ref<Storage>(s);
}

void Storage::destroy(Storage* s) {
  if (s->free_data)
    s->free_data(s->data, s->bytes, s->context);
  else
    tycho::release(s->device.number, s->data, s->bytes);
  s->~Storage();
  FreeList<Storage>::give(s);
}

}  // namespace tycho
