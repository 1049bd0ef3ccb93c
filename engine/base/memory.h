// The host's memory for tensors: a caching allocator, last in first out per size class. Small blocks
// come from a cache of the calling thread without locks (about 4 ns for both ways), blocks from 2 MB
// lie on huge pages, and all are kept for reuse up to a cap, because the first touch of fresh
// memory costs more than most kernels. Devices have memory of their own (device_memory.h).
//
// Every function is thread-safe.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "engine/base/sanitize.h"
#include "engine/base/size_class.h"

namespace tycho {

struct MemoryStats {
  int64_t live;         // bytes allocated and not released, each block rounded up to 64 bytes
  int64_t peak;         // the most that were live, since the start or reset_peak_memory
  int64_t cached;       // bytes held from the system beyond the live ones
  int64_t allocations;  // calls of allocate that succeeded
};

// `bytes` of memory (not cleared) aligned to 64, for 0 bytes a valid address too; nullptr when
// there is no memory even after dropping the caches and asking the out-of-memory handler.
void* allocate(size_t bytes);
// Takes back a block; `bytes` as given to allocate. nullptr is ignored.
void release(void* memory, size_t bytes);

// Live bytes, cheap enough for every call: exact for one thread, and within 256 KB for each
// further one.
int64_t live_bytes();
MemoryStats memory_stats();
void reset_peak_memory();

// Gives every cached block back to the system, but those in other threads' small caches.
void empty_cache();

// Some megabytes are held back for what has to be said when there is no more memory: an error's text, the
// code that explains it. This gives them to the system's allocator.
void free_spare_room();

// Limits the live bytes, so that running out can be tried; 0 takes the limit away.
void set_capacity(int64_t bytes);

// Called when there is no memory, with the bytes wanted, on the thread that set it only (it is
// the scripts' collector): true asks to try once more.
void set_out_of_memory_handler(bool (*handler)(size_t bytes));
bool ask_out_of_memory_handler(size_t bytes);  // false when there is none to ask

// --- What follows is how the fast path works. ---
namespace memory {

inline constexpr size_t kLocalMost = 128 << 10;  // the largest block in a thread's cache
inline constexpr unsigned kLocalClasses = size_class(kLocalMost) + 1;
inline constexpr int64_t kPendingMost = 256 << 10;

struct Bin {
  void* head;
  uint32_t count, most;
};

// One thread's cache. Only its thread writes to it; the atomics let others read
// the counts, and cost nothing with relaxed order.
struct Local {
  std::atomic<int64_t> pending{0};           // live bytes not yet added to the count of all
  std::atomic<int64_t> pending_peak{0};      // the most `pending` was since it was last added
  std::atomic<int64_t> limit{kPendingMost};  // above this, allocate takes the slow way
  std::atomic<int64_t> allocations{0};
  Local* next = nullptr;
  Bin bins[kLocalClasses];
};

struct alignas(64) Live {
  std::atomic<int64_t> bytes{0};
};
extern Live live;
extern constinit thread_local Local* thread_cache;

void* allocate_slow(size_t bytes);
void release_slow(void* memory, size_t bytes);

constexpr int64_t counted(size_t bytes) { return static_cast<int64_t>((bytes + 63) & ~size_t(63)); }

}  // namespace memory

inline void* allocate(size_t bytes) {
  using namespace memory;
  constexpr auto relaxed = std::memory_order_relaxed;
  Local* local = thread_cache;
  if (!TYCHO_PLAIN_MEMORY && bytes <= kLocalMost && local != nullptr) [[likely]] {
    Bin& bin = local->bins[size_class(bytes)];
    void* block = bin.head;
    const int64_t pending = local->pending.load(relaxed) + counted(bytes);
    if (block != nullptr && pending <= local->limit.load(relaxed)) [[likely]] {
      std::memcpy(&bin.head, block, sizeof bin.head);
      --bin.count;
      local->pending.store(pending, relaxed);
      if (pending > local->pending_peak.load(relaxed)) local->pending_peak.store(pending, relaxed);
      local->allocations.store(local->allocations.load(relaxed) + 1, relaxed);
      return block;
    }
  }
  return allocate_slow(bytes);
}

inline void release(void* block, size_t bytes) {
  using namespace memory;
  constexpr auto relaxed = std::memory_order_relaxed;
  Local* local = thread_cache;
  if (!TYCHO_PLAIN_MEMORY && bytes <= kLocalMost && local != nullptr && block != nullptr)
      [[likely]] {
    Bin& bin = local->bins[size_class(bytes)];
    const int64_t pending = local->pending.load(relaxed) - counted(bytes);
    if (bin.count < bin.most && pending >= -kPendingMost) [[likely]] {
      std::memcpy(block, &bin.head, sizeof bin.head);
      bin.head = block;
      ++bin.count;
      local->pending.store(pending, relaxed);
      return;
    }
  }
  release_slow(block, bytes);
}

inline int64_t live_bytes() {
  const memory::Local* local = memory::thread_cache;
  const int64_t bytes = memory::live.bytes.load(std::memory_order_relaxed);
  return local == nullptr ? bytes : bytes + local->pending.load(std::memory_order_relaxed);
}

}  // namespace tycho
