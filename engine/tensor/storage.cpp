// Making and freeing storages; the text of the out-of-memory error.
#include "engine/tensor/storage.h"

#include <sys/mman.h>

#include "engine/base/check.h"
#include "engine/base/memory.h"
#include "engine/base/pool.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/defer.h"

namespace tycho {

constinit thread_local bool shapes_only = false;
namespace {

void unmap(void* data, size_t bytes, void*) {
  if (data) munmap(data, bytes);
}

// Pages that come into being when they are touched.
[[gnu::noinline]] Ref<Storage> without_values(size_t bytes, Device device) {
  void* data = nullptr;
  if (bytes) {
    data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                -1, 0);
    if (data == MAP_FAILED)
      fail(Kind::Oom, format("a tensor of %.1f MB has no room in the address space", bytes / 1e6));
  }
  auto* s = new (FreeList<Storage>::take()) Storage;
  s->device = device;
  s->data = data;
  s->bytes = bytes;
  s->free_data = unmap;
  return Ref<Storage>(s);
}

[[noreturn]] void fail_without_memory(size_t bytes, Device device) {
  free_spare_room();
  const auto mb = [](auto n) { return static_cast<double>(n) / 1e6; };
  const std::string wanted =
      bytes < 100'000 ? format("%zu bytes", bytes) : format("%.1f MB", mb(bytes));
  std::string of;
  if (!device.is_cpu()) of = format(" of its %.1f MB", mb(backend_of(device).capacity(device)));
  fail(Kind::Oom,
       format("out of memory on %s: %s wanted, %.1f MB%s in use by tensors",
              device_name(device).c_str(), wanted.c_str(),
              mb(backend_of(device).live_bytes(device)), of.c_str()),
       "drop what is not needed (x = nil), work in smaller batches, or use torch.no_grad");
}

inline void fill_with_memory(Storage& s) {
  const auto ask = [&] {
    return s.device.is_cpu() ? (s.data = allocate(s.bytes)) != nullptr
                             : backend_of(s.device).allocate(s);
  };
  if (!ask() && s.bytes) [[unlikely]] {
    run_held_rows();  // what they read is let go
    if (!ask()) fail_without_memory(s.bytes, s.device);
  }
}

}  // namespace

std::atomic<int64_t> storages_in_flight{0};

void set_in_flight(Storage& s, InFlight* by) {
  storages_in_flight += (by != nullptr) - (s.in_flight != nullptr);
  s.in_flight = by;
}

void wait_for_values(Storage& s) {
  while (s.in_flight) s.in_flight->wait(s);
}

bool has_no_values(const Storage& s) { return s.free_data == unmap; }

Ref<Storage> new_storage(size_t bytes, Device device) {
  if (shapes_only) [[unlikely]]
    return without_values(bytes, device);
  Ref<Storage> s = promised_storage(bytes, device);
  fill_with_memory(*s);
  return s;
}

Ref<Storage> promised_storage(size_t bytes, Device device) {
  auto* s = new (FreeList<Storage>::take()) Storage;
  s->device = device;
  s->bytes = bytes;
  return Ref<Storage>(s);
}

void give_memory(Storage& s) {
  if (!s.data) fill_with_memory(s);
}

void Storage::destroy(Storage* s) {
  // Whoever writes to it still does; what has no bytes of its own (ops/table/batch.h) waits for nothing.
  if (s->bytes || !s->free_data) ready(*s);
  if (s->free_data)
    s->free_data(s->data, s->bytes, s->context);
  else if (s->device.is_cpu())
    tycho::release(s->data, s->bytes);
  else if (s->data)
    backend_of(s->device).release(*s);
  s->~Storage();
  FreeList<Storage>::give(s);
}

}  // namespace tycho
