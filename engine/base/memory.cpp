// The allocator behind the fast path of memory.h: threads' caches, counts, limits, and what
// happens when there is no memory. The blocks themselves are in block_store.h.
#include "engine/base/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#include "engine/base/block_store.h"
#include "engine/base/fresh.h"
#include "engine/base/guard.h"

namespace tycho {
namespace memory {
constinit Live live;
constinit thread_local Local* thread_cache = nullptr;
}  // namespace memory

namespace {
using namespace memory;
constexpr auto relaxed = std::memory_order_relaxed;

static_assert(kLocalClasses == kSpanClasses, "every block of a span can wait in a thread's cache");

constexpr int64_t kIdleAtLeast = int64_t(256) << 20;

// What all threads share.
struct Shared {
  std::mutex mutex;  // guards `store` and `threads`
  BlockStore store;
  Local* threads = nullptr;
  std::atomic<int64_t> peak{0}, capacity{0}, allocations{0};
};
constinit Shared shared;

std::atomic<bool (*)(size_t)> handler{nullptr};
// The last block from the system directly, when it was mapped and not one that had waited.
constinit thread_local const void* fresh_block = nullptr;
constinit thread_local bool handles_here = false, in_handler = false, ended = false;

// What free_spare_room gives back; taken again with the next large block.
constexpr size_t kSpareRoom = size_t{4} << 20;
constinit std::atomic<void*> spare{nullptr};
void keep_spare() {
  if (spare.load(relaxed) != nullptr) return;
  void* const room = mmap(nullptr, kSpareRoom, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (room == MAP_FAILED) return;
  void* none = nullptr;
  if (!spare.compare_exchange_strong(none, room)) munmap(room, kSpareRoom);
}

// Unlinks what goes back to the system (mutex held). A training step lets go most of its memory at its
// end and wants it again in the next one, so live and idle blocks together may be half more than ever
// were live: their sizes differ. Beyond half of that peak no block waits longer than any step takes.
BlockStore::Idle* cut_idle() {
  constexpr uint32_t kLongest = 60;  // seconds
  const int64_t peak = shared.peak.load(relaxed);
  const int64_t old_most = std::max(kIdleAtLeast, peak / 2);
  const int64_t most = std::max(old_most, peak + peak / 2 - live.bytes.load(relaxed));
  return shared.store.cut(most, old_most, kLongest);
}

// --- The calling thread's caches ---

uint32_t bin_most(unsigned c) {
  return static_cast<uint32_t>(std::clamp<size_t>((128 << 10) / class_bytes(c), 4, 512));
}

// Adds what the thread counted to the count of all.
void add_pending(Local* local) {
  const int64_t pending = local->pending.load(relaxed);
  const int64_t before = live.bytes.fetch_add(pending, relaxed);
  const int64_t top = before + local->pending_peak.load(relaxed);
  int64_t peak = shared.peak.load(relaxed);
  while (peak < top && !shared.peak.compare_exchange_weak(peak, top, relaxed)) {
  }
  local->pending.store(0, relaxed);
  local->pending_peak.store(0, relaxed);
}

// Returns all but the `keep` newest blocks of a bin to their spans (mutex held).
void shrink_bin(Bin& bin, unsigned c, uint32_t keep) {
  if (bin.count <= keep) return;
  void** link = &bin.head;
  for (uint32_t i = 0; i < keep; ++i) link = static_cast<void**>(*link);
  void* block = *link;
  *link = nullptr;
  bin.count = keep;
  while (block != nullptr) {
    void* next;
    std::memcpy(&next, block, sizeof next);
    shared.store.give_to_span(block, c);
    block = next;
  }
}

void shrink_all(Local* local) {
  for (unsigned c = 0; c < kLocalClasses; ++c) shrink_bin(local->bins[c], c, 0);
}

// When a thread ends, its blocks are there for the others.
struct Closer {
  ~Closer() {
    ended = true;
    Local* local = std::exchange(thread_cache, nullptr);
    if (local == nullptr) return;
    add_pending(local);
    BlockStore::Idle* cut;
    {
      std::lock_guard lock(shared.mutex);
      shrink_all(local);
      shared.allocations.fetch_add(local->allocations.load(relaxed), relaxed);
      Local** at = &shared.threads;
      while (*at != local) at = &(*at)->next;
      *at = local->next;
      cut = cut_idle();
    }
    shared.store.unmap(cut);
    delete local;
  }
  void touch() {}
};

// nullptr when the thread is about to end (or memory is), or when nothing is kept.
Local* local_cache() {
  Local*& local = thread_cache;
  if (local != nullptr || ended || TYCHO_PLAIN_MEMORY || guard::on()) return local;
  Local* fresh = new (std::nothrow) Local;
  if (fresh == nullptr) return nullptr;
  static thread_local Closer closer;
  closer.touch();
  for (unsigned c = 0; c < kLocalClasses; ++c) fresh->bins[c] = {nullptr, 0, bin_most(c)};
  std::lock_guard lock(shared.mutex);
  if (shared.capacity.load(relaxed) > 0) fresh->limit.store(INT64_MIN, relaxed);
  fresh->next = shared.threads;
  shared.threads = fresh;
  return local = fresh;
}

// --- Getting and returning one block the slow way ---

void* get(Local* local, size_t bytes) {
  if (guard::on()) {
    void* const memory = guard::take(bytes);
    if (memory != nullptr) shared.store.held.fetch_add(counted(bytes), relaxed);
    return memory;
  }
  if constexpr (TYCHO_PLAIN_MEMORY) {
    void* memory = nullptr;
    if (!memory_has_room(bytes) || posix_memalign(&memory, 64, bytes) != 0) return nullptr;
    shared.store.held.fetch_add(counted(bytes), relaxed);
    return memory;
  }
  const unsigned c = size_class(bytes);
  if (c < kSpanClasses) {
    Bin* bin = local != nullptr && c < kLocalClasses ? &local->bins[c] : nullptr;
    if (bin != nullptr && bin->head != nullptr) {
      void* block = bin->head;
      std::memcpy(&bin->head, block, sizeof bin->head);
      --bin->count;
      return block;
    }
    std::lock_guard lock(shared.mutex);
    void* block = shared.store.take_from_span(c);
    if (block == nullptr || bin == nullptr) return block;
    // A few more for the next calls, in an order that hands out rising addresses.
    const size_t more = std::min<size_t>(4096 / class_bytes(c), 32);
    void** link = &bin->head;
    for (size_t i = 1; i < more && shared.store.has_ready(c); ++i) {
      void* next = shared.store.take_from_span(c);
      *link = next;
      link = static_cast<void**>(next);
      ++bin->count;
    }
    *link = nullptr;
    return block;
  }
  fresh_block = nullptr;
  {
    std::lock_guard lock(shared.mutex);
    if (void* block = shared.store.take_idle(c)) return block;
  }
  void* const block = shared.store.map_direct(c);
  fresh_block = block;
  return block;
}

void put(Local* local, void* memory, size_t bytes) {
  if (guard::on()) {
    guard::give(memory, bytes);
    shared.store.held.fetch_sub(counted(bytes), relaxed);
    return;
  }
  if constexpr (TYCHO_PLAIN_MEMORY) {
    free(memory);
    shared.store.held.fetch_sub(counted(bytes), relaxed);
    return;
  }
  const unsigned c = size_class(bytes);
  BlockStore::Idle* cut;
  {
    std::unique_lock lock(shared.mutex, std::defer_lock);
    if (local != nullptr && c < kLocalClasses) {
      Bin& bin = local->bins[c];
      if (bin.count >= bin.most) {
        lock.lock();
        shrink_bin(bin, c, bin.most / 2);
      }
      std::memcpy(memory, &bin.head, sizeof bin.head);
      bin.head = memory;
      ++bin.count;
      if (!lock.owns_lock()) return;
    } else {
      lock.lock();
      if (c < kSpanClasses)
        shared.store.give_to_span(memory, c);
      else
        shared.store.put_idle(memory, c);
    }
    cut = cut_idle();
  }
  shared.store.unmap(cut);
}

void account(Local* local, int64_t bytes, int64_t allocations) {
  if (local != nullptr) {
    const int64_t pending = local->pending.load(relaxed) + bytes;
    local->pending.store(pending, relaxed);
    if (pending > local->pending_peak.load(relaxed)) local->pending_peak.store(pending, relaxed);
    local->allocations.store(local->allocations.load(relaxed) + allocations, relaxed);
    add_pending(local);
  } else {
    Local once;
    once.pending.store(bytes, relaxed);
    once.pending_peak.store(std::max<int64_t>(bytes, 0), relaxed);
    shared.allocations.fetch_add(allocations, relaxed);
    add_pending(&once);
  }
}

enum class Outcome { Done, NoMemory, OverCapacity };

Outcome try_allocate(size_t bytes, void** memory) {
  Local* local = local_cache();
  const int64_t capacity = shared.capacity.load(relaxed);
  if (capacity > 0 && live_bytes() + counted(bytes) > capacity) return Outcome::OverCapacity;
  *memory = get(local, bytes);
  if (*memory == nullptr) return Outcome::NoMemory;
  account(local, counted(bytes), 1);
  return Outcome::Done;
}

}  // namespace

void* memory::allocate_slow(size_t bytes) {
  if (bytes > kLargestBlock) return nullptr;
  void* memory = nullptr;
  Outcome outcome = try_allocate(bytes, &memory);
  if (outcome == Outcome::NoMemory) {
    empty_cache();
    outcome = try_allocate(bytes, &memory);
  }
  if (outcome != Outcome::Done && ask_out_of_memory_handler(bytes)) {
    // What the handler freed lies in the caches, maybe in blocks of other sizes.
    if (outcome == Outcome::NoMemory) empty_cache();
    outcome = try_allocate(bytes, &memory);
  }
  if (outcome != Outcome::Done) return nullptr;
  if (bytes >= kSpareRoom) keep_spare();
  return memory;
}

void memory::release_slow(void* memory, size_t bytes) {
  if (memory == nullptr) return;
  Local* local = local_cache();
  put(local, memory, bytes);
  account(local, -counted(bytes), 0);
}

bool is_fresh(const void* block, size_t bytes) {
  return block != nullptr && block == fresh_block && size_class(bytes) >= kSpanClasses;
}

void free_spare_room() {
  if (void* const room = spare.exchange(nullptr)) munmap(room, kSpareRoom);
}

MemoryStats memory_stats() {
  std::lock_guard lock(shared.mutex);
  MemoryStats stats{live.bytes.load(relaxed), 0, 0, shared.allocations.load(relaxed)};
  int64_t top = stats.live;
  for (Local* local = shared.threads; local != nullptr; local = local->next) {
    stats.live += local->pending.load(relaxed);
    stats.allocations += local->allocations.load(relaxed);
    top += local->pending_peak.load(relaxed);
  }
  stats.peak = std::max(top, shared.peak.load(relaxed));
  stats.cached = std::max<int64_t>(0, shared.store.held.load(relaxed) - stats.live);
  return stats;
}

void reset_peak_memory() {
  if (Local* local = thread_cache) add_pending(local);
  shared.peak.store(live.bytes.load(relaxed), relaxed);
}

void empty_cache() {
  BlockStore::Idle* cut;
  {
    std::lock_guard lock(shared.mutex);
    if (Local* local = thread_cache) shrink_all(local);
    cut = shared.store.cut(0, 0, 0);
  }
  shared.store.unmap(cut);
}

void set_capacity(int64_t bytes) {
  std::lock_guard lock(shared.mutex);
  shared.capacity.store(bytes, relaxed);
  // Threads then come the slow way, where the limit is looked at.
  for (Local* local = shared.threads; local != nullptr; local = local->next)
    local->limit.store(bytes > 0 ? INT64_MIN : kPendingMost, relaxed);
}

bool ask_out_of_memory_handler(size_t bytes) {
  const auto call = handler.load(std::memory_order_acquire);
  if (call == nullptr || !handles_here || in_handler) return false;
  struct Inside {
    Inside() { in_handler = true; }
    ~Inside() { in_handler = false; }
  } inside;
  return call(bytes);
}

void set_out_of_memory_handler(bool (*call)(size_t bytes)) {
  handles_here = call != nullptr;
  handler.store(call, std::memory_order_release);
}

namespace {
// TYCHO_MEMORY_LIMIT_MB bounds it from the start: tests and shared machines use it.
[[maybe_unused]] const bool limited = [] {
  const char* most = std::getenv("TYCHO_MEMORY_LIMIT_MB");
  const int64_t mb = most ? std::strtoll(most, nullptr, 10) : 0;
  if (mb <= 0 || mb > (int64_t{1} << 40)) return false;
  set_capacity(mb << 20);
  return true;
}();
}  // namespace

}  // namespace tycho
