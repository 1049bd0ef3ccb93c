// Storage: a block of memory on one device, shared by every view of it. The version counts in-place
// changes: autograd compares it with the version at the time a tensor was saved.
#pragma once
#include <atomic>

#include "engine/base/ref.h"
#include "engine/base/relaxed.h"
#include "engine/base/where.h"
#include "engine/tensor/device.h"

namespace tycho {

struct Impl;
struct Storage;

// Values on their way: a copy on a stream, a collective, a program that was deferred. Who reads or
// writes the storage waits first (ready, below); the hook leaves the storage when it is done.
struct InFlight {
  virtual void wait(Storage& s) = 0;  // afterwards s.in_flight is another one or null

 protected:
  ~InFlight() = default;
};
// How many storages have one, so that calls need not look while there are none.
extern std::atomic<int64_t> storages_in_flight;

struct Storage : Shared {
  Device device;
  uint16_t home = 0;  // the stream that the memory was taken for
  // Of a gradient: how many backward passes it sums, where they are counted (0: not, one is
  // likely), and how many of these an optimiser's step has used (grad/passes.h).
  // Threads that share a storage (torch.fork, Hogwild) change it at the same time, so these and the
  // last change are Relaxed.
  enum class Stepped : uint8_t { None, All, Some };
  Relaxed<Stepped> stepped = Stepped::None;
  Relaxed<bool> read_again = false;  // a gradient may need what is computed from it (grad/again.h)
  Relaxed<uint32_t> version = 0;
  Relaxed<uint32_t> passes = 0;
  // Of a device with streams: the stream of the last write (or of the start), with how much that stream had been asked
  // for by then, and the streams that read since, as bits. 0: none. Its backend keeps them.
  Relaxed<uint64_t> written = 0, readers = 0;
  void* data = nullptr;
  size_t bytes = 0;
  InFlight* in_flight = nullptr;  // set and taken away by set_in_flight
  // The last in-place change, for the error of a sweep that needed the old values: the operation's
  // name (or kPass, grad/passes.h) and where the user's script called it.
  Relaxed<const char*> changed_by = nullptr;
  Relaxed<Where> changed_at;
  // The tensors on it that have an inner layout (tensor.h): all of one shape, in one order.
  Impl* inner = nullptr;
  // Set for memory that others own (a mapped file): called instead of the allocator.
  void (*free_data)(void* data, size_t bytes, void* context) = nullptr;
  void* context = nullptr;

  static void destroy(Storage* s);
};

void set_in_flight(Storage& s, InFlight* by);  // null: its values are there
void wait_for_values(Storage& s);
inline void ready(Storage& s) {
  if (s.in_flight) [[unlikely]]
    wait_for_values(s);
}

// While set, new storages read as zeros and take no memory until written to, and operations run no
// kernels: only shapes and dtypes are computed.
extern constinit thread_local bool shapes_only;
struct ShapesOnly {
  bool before = shapes_only;
  ShapesOnly() { shapes_only = true; }
  ~ShapesOnly() { shapes_only = before; }
  ShapesOnly(const ShapesOnly&) = delete;
};
bool has_no_values(const Storage& s);  // made while shapes_only was set

// Uninitialised memory; raises Kind::Oom when the device has none left.
Ref<Storage> new_storage(size_t bytes, Device device);
// The same, without memory until give_memory.
Ref<Storage> promised_storage(size_t bytes, Device device);
void give_memory(Storage& s);

}  // namespace tycho
