// The allocator behind the fast path of memory.h: threads' caches, counts, limits, and what
// happens when there is no memory. The blocks themselves are in block_store.h.
#include "engine/base/memory.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#include "engine/base/block_store.h"
#include "engine/base/guard.h"

namespace tycho {
namespace memory {
constinit Live live[kMemoryDevices];
constinit thread_local Local* locals[kMemoryDevices] = {};
}  // namespace memory

namespace {
using namespace memory;
constexpr auto relaxed = std::memory_order_relaxed;

static_assert(kLocalClasses == kSpanClasses, "every block of a span can wait in a thread's cache");

constexpr int64_t kIdleAtLeast = int64_t(256) << 20;

struct Device {
  std::mutex mutex;  // guards `store` and `threads`
  BlockStore store;
  Local* threads = nullptr;
  std::atomic<int64_t> peak{0}, capacity{0}, allocations{0};
};
constinit Device devices[kMemoryDevices];

std::atomic<bool (*)(size_t)> handler{nullptr};
constinit thread_local bool handles_here = false, in_handler = false, ended = false;

// More idle bytes than this go back to the system.
int64_t idle_most(const Device& d) { return std::max(kIdleAtLeast, d.peak.load(relaxed) / 2); }

// --- The calling thread's caches ---

uint32_t bin_most(unsigned c) {
  return static_cast<uint32_t>(std::clamp<size_t>((128 << 10) / class_bytes(c), 4, 512));
}

// Adds what the thread counted to the device's count.
void add_pending(Device& d, Local* local) {
  const int64_t pending = local->pending.load(relaxed);
  const int64_t before = live[&d - devices].bytes.fetch_add(pending, relaxed);
  const int64_t top = before + local->pending_peak.load(relaxed);
  int64_t peak = d.peak.load(relaxed);
  while (peak < top && !d.peak.compare_exchange_weak(peak, top, relaxed)) {
  }
  local->pending.store(0, relaxed);
  local->pending_peak.store(0, relaxed);
}

// Returns all but the `keep` newest blocks of a bin to their spans (mutex held).
void shrink_bin(Device& d, Bin& bin, unsigned c, uint32_t keep) {
  if (bin.count <= keep) return;
  void** link = &bin.head;
  for (uint32_t i = 0; i < keep; ++i) link = static_cast<void**>(*link);
  void* block = *link;
  *link = nullptr;
  bin.count = keep;
  while (block != nullptr) {
    void* next;
    std::memcpy(&next, block, sizeof next);
    d.store.give_to_span(block, c);
    block = next;
  }
}

void shrink_all(Device& d, Local* local) {
  for (unsigned c = 0; c < kLocalClasses; ++c) shrink_bin(d, local->bins[c], c, 0);
}

// When a thread ends, its blocks go back to the devices.
struct Closer {
  ~Closer() {
    ended = true;
    for (int i = 0; i < kMemoryDevices; ++i) {
      Local* local = std::exchange(locals[i], nullptr);
      if (local == nullptr) continue;
      Device& d = devices[i];
      add_pending(d, local);
      BlockStore::Idle* cut;
      {
        std::lock_guard lock(d.mutex);
        shrink_all(d, local);
        d.allocations.fetch_add(local->allocations.load(relaxed), relaxed);
        Local** at = &d.threads;
        while (*at != local) at = &(*at)->next;
        *at = local->next;
        cut = d.store.cut(idle_most(d));
      }
      d.store.unmap(cut);
      delete local;
    }
  }
  void touch() {}
};

// nullptr when the thread is about to end (or memory is), or when nothing is kept.
Local* local_cache(int device) {
  Local*& local = locals[device + 1];
  if (local != nullptr || ended || TYCHO_PLAIN_MEMORY || guard::on()) return local;
  Local* fresh = new (std::nothrow) Local;
  if (fresh == nullptr) return nullptr;
  static thread_local Closer closer;
  closer.touch();
  fresh->device = device;
  for (unsigned c = 0; c < kLocalClasses; ++c) fresh->bins[c] = {nullptr, 0, bin_most(c)};
  Device& d = devices[device + 1];
  std::lock_guard lock(d.mutex);
  if (d.capacity.load(relaxed) > 0) fresh->limit.store(INT64_MIN, relaxed);
  fresh->next = d.threads;
  d.threads = fresh;
  return local = fresh;
}

// --- Getting and returning one block the slow way ---

void* get(Device& d, Local* local, size_t bytes) {
  if (guard::on()) {
    void* const memory = guard::take(bytes);
    if (memory != nullptr) d.store.held.fetch_add(counted(bytes), relaxed);
    return memory;
  }
  if constexpr (TYCHO_PLAIN_MEMORY) {
    void* memory = nullptr;
    if (!memory_has_room(bytes) || posix_memalign(&memory, 64, bytes) != 0) return nullptr;
    d.store.held.fetch_add(counted(bytes), relaxed);
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
    std::lock_guard lock(d.mutex);
    void* block = d.store.take_from_span(c);
    if (block == nullptr || bin == nullptr) return block;
    // A few more for the next calls, in an order that hands out rising addresses.
    const size_t more = std::min<size_t>(4096 / class_bytes(c), 32);
    void** link = &bin->head;
    for (size_t i = 1; i < more && d.store.has_ready(c); ++i) {
      void* next = d.store.take_from_span(c);
      *link = next;
      link = static_cast<void**>(next);
      ++bin->count;
    }
    *link = nullptr;
    return block;
  }
  {
    std::lock_guard lock(d.mutex);
    if (void* block = d.store.take_idle(c)) return block;
  }
  return d.store.map_direct(c);
}

void put(Device& d, Local* local, void* memory, size_t bytes) {
  if (guard::on()) {
    guard::give(memory, bytes);
    d.store.held.fetch_sub(counted(bytes), relaxed);
    return;
  }
  if constexpr (TYCHO_PLAIN_MEMORY) {
    free(memory);
    d.store.held.fetch_sub(counted(bytes), relaxed);
    return;
  }
  const unsigned c = size_class(bytes);
  BlockStore::Idle* cut;
  {
    std::unique_lock lock(d.mutex, std::defer_lock);
    if (local != nullptr && c < kLocalClasses) {
      Bin& bin = local->bins[c];
      if (bin.count >= bin.most) {
        lock.lock();
        shrink_bin(d, bin, c, bin.most / 2);
      }
      std::memcpy(memory, &bin.head, sizeof bin.head);
      bin.head = memory;
      ++bin.count;
      if (!lock.owns_lock()) return;
    } else {
      lock.lock();
      if (c < kSpanClasses)
        d.store.give_to_span(memory, c);
      else
        d.store.put_idle(memory, c);
    }
    cut = d.store.cut(idle_most(d));
  }
  d.store.unmap(cut);
}

void account(Device& d, Local* local, int64_t bytes, int64_t allocations) {
  if (local != nullptr) {
    const int64_t pending = local->pending.load(relaxed) + bytes;
    local->pending.store(pending, relaxed);
    if (pending > local->pending_peak.load(relaxed)) local->pending_peak.store(pending, relaxed);
    local->allocations.store(local->allocations.load(relaxed) + allocations, relaxed);
    add_pending(d, local);
  } else {
    Local once;
    once.pending.store(bytes, relaxed);
    once.pending_peak.store(std::max<int64_t>(bytes, 0), relaxed);
    d.allocations.fetch_add(allocations, relaxed);
    add_pending(d, &once);
  }
}

enum class Outcome { Done, NoMemory, OverCapacity };

Outcome try_allocate(int device, size_t bytes, void** memory) {
  Device& d = devices[device + 1];
  Local* local = local_cache(device);
  const int64_t capacity = d.capacity.load(relaxed);
  if (capacity > 0 && live_bytes(device) + counted(bytes) > capacity) return Outcome::OverCapacity;
  *memory = get(d, local, bytes);
  if (*memory == nullptr) return Outcome::NoMemory;
  account(d, local, counted(bytes), 1);
  return Outcome::Done;
}

void empty_all() {
  for (int device = -1; device < kMemoryDevices - 1; ++device) empty_cache(device);
}

}  // namespace

void* memory::allocate_slow(int device, size_t bytes) {
  if (bytes > kLargestBlock) return nullptr;
  void* memory = nullptr;
  Outcome outcome = try_allocate(device, bytes, &memory);
  if (outcome == Outcome::NoMemory) {
    empty_all();
    outcome = try_allocate(device, bytes, &memory);
  }
  if (outcome != Outcome::Done && ask_out_of_memory_handler(bytes)) {
    // What the handler freed lies in the caches, maybe in blocks of other sizes.
    if (outcome == Outcome::NoMemory) empty_all();
    outcome = try_allocate(device, bytes, &memory);
  }
  return outcome == Outcome::Done ? memory : nullptr;
}

void memory::release_slow(int device, void* memory, size_t bytes) {
  if (memory == nullptr) return;
  Device& d = devices[device + 1];
  Local* local = local_cache(device);
  put(d, local, memory, bytes);
  account(d, local, -counted(bytes), 0);
}

MemoryStats memory_stats(int device) {
  Device& d = devices[device + 1];
  std::lock_guard lock(d.mutex);
  MemoryStats stats{live[device + 1].bytes.load(relaxed), 0, 0, d.allocations.load(relaxed)};
  int64_t top = stats.live;
  for (Local* local = d.threads; local != nullptr; local = local->next) {
    stats.live += local->pending.load(relaxed);
    stats.allocations += local->allocations.load(relaxed);
    top += local->pending_peak.load(relaxed);
  }
  stats.peak = std::max(top, d.peak.load(relaxed));
  stats.cached = std::max<int64_t>(0, d.store.held.load(relaxed) - stats.live);
  return stats;
}

void reset_peak_memory(int device) {
  Device& d = devices[device + 1];
  if (Local* local = locals[device + 1]) add_pending(d, local);
  d.peak.store(live[device + 1].bytes.load(relaxed), relaxed);
}

void empty_cache(int device) {
  Device& d = devices[device + 1];
  BlockStore::Idle* cut;
  {
    std::lock_guard lock(d.mutex);
    if (Local* local = locals[device + 1]) shrink_all(d, local);
    cut = d.store.cut(0);
  }
  d.store.unmap(cut);
}

void set_device_capacity(int device, int64_t bytes) {
  Device& d = devices[device + 1];
  std::lock_guard lock(d.mutex);
  d.capacity.store(bytes, relaxed);
  // Threads then come the slow way, where the limit is looked at.
  for (Local* local = d.threads; local != nullptr; local = local->next)
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
// TYCHO_MEMORY_LIMIT_MB bounds every device from the start: tests and shared machines use it.
[[maybe_unused]] const bool limited = [] {
  const char* most = std::getenv("TYCHO_MEMORY_LIMIT_MB");
  const int64_t mb = most ? std::strtoll(most, nullptr, 10) : 0;
  if (mb <= 0 || mb > (int64_t{1} << 40)) return false;
  for (int device = -1; device + 1 < kMemoryDevices; ++device)
    set_device_capacity(device, mb << 20);
  return true;
}();
}  // namespace

}  // namespace tycho
