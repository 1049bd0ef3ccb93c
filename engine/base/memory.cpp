// The allocator behind the fast path of memory.h.
//
// A device's blocks come in three kinds, by size class: up to 8 KB from spans of 64 KB, up to
// 128 KB from spans of 2 MB, larger ones from the system directly. A span lies at a multiple of
// its size, so the span of a block is found by masking its address. Direct blocks and empty spans
// that nobody uses are "idle": a stack per kind for reuse, and one list by age through all
// stacks, from whose old end they go back to the system when more than the cap is idle.
#include "engine/base/memory.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>

#include "engine/base/pages.h"

namespace tycho {
namespace memory {
constinit Live live[kMemoryDevices];
constinit thread_local Local* locals[kMemoryDevices] = {};
}  // namespace memory

namespace {
using namespace memory;
constexpr auto relaxed = std::memory_order_relaxed;

constexpr size_t kLargest = size_t(1) << 46;
constexpr unsigned kClasses = size_class(kLargest) + 1;
constexpr unsigned kSmallClasses = size_class(8 << 10) + 1;  // in spans of 64 KB
constexpr unsigned kSpanClasses = kLocalClasses;             // in spans of 2 MB
constexpr size_t kSmallSpan = 64 << 10, kWideSpan = kHugePage;
constexpr size_t kSpanHeader = 64;
constexpr int64_t kIdleAtLeast = int64_t(256) << 20;

// The kind of an idle block is its class; empty spans take the place of two classes that are
// never direct.
enum : unsigned { SmallSpans = 0, WideSpans = 1 };
constexpr size_t kind_bytes(unsigned kind) {
  return kind == SmallSpans ? kSmallSpan : kind == WideSpans ? kWideSpan : class_bytes(kind);
}

// Written at the start of an idle block or empty span.
struct Idle {
  Idle *below, *above;  // in the stack of its kind
  Idle *older, *newer;  // in the list by age
  unsigned kind;
};

// Written at the start of a span in use.
struct Span {
  Span *next, *previous;  // in the list of spans of its class that have room
  void* free;             // blocks that came back
  uint32_t used;          // blocks out, those in threads' caches included
  uint32_t carved;        // where the part never used begins
  uint32_t block_bytes, span_bytes;

  bool has_room() const { return free != nullptr || carved + block_bytes <= span_bytes; }
};
static_assert(sizeof(Idle) <= kSpanHeader && sizeof(Span) <= kSpanHeader);

struct Device {
  std::mutex mutex;  // guards all that is not atomic
  std::atomic<int64_t> peak{0}, held{0}, capacity{0}, allocations{0};
  int64_t idle = 0;
  Idle *oldest = nullptr, *newest = nullptr;
  Idle* stacks[kClasses] = {};
  Span* spans[kSpanClasses] = {};          // with room
  uint32_t span_count[kSpanClasses] = {};  // with room or full
  Local* threads = nullptr;
};
constinit Device devices[kMemoryDevices];

std::atomic<bool (*)(size_t)> handler{nullptr};
constinit thread_local bool handles_here = false, in_handler = false, ended = false;

// --- Idle blocks (mutex held) ---

void unlink(Device& d, Idle* block) {
  (block->above ? block->above->below : d.stacks[block->kind]) = block->below;
  if (block->below) block->below->above = block->above;
  (block->newer ? block->newer->older : d.newest) = block->older;
  (block->older ? block->older->newer : d.oldest) = block->newer;
  d.idle -= kind_bytes(block->kind);
}

void* take_idle(Device& d, unsigned kind) {
  Idle* block = d.stacks[kind];
  if (block != nullptr) unlink(d, block);
  return block;
}

void put_idle(Device& d, void* memory, unsigned kind) {
  Idle* block = ::new (memory) Idle{d.stacks[kind], nullptr, d.newest, nullptr, kind};
  if (block->below) block->below->above = block;
  (d.newest ? d.newest->newer : d.oldest) = block;
  d.stacks[kind] = d.newest = block;
  d.idle += kind_bytes(kind);
}

// Unlinks the oldest blocks until at most `most` bytes are idle; they hang together by `older`.
Idle* cut_idle(Device& d, int64_t most) {
  Idle* cut = nullptr;
  while (d.idle > most) {
    Idle* block = d.oldest;
    unlink(d, block);
    block->older = cut;
    cut = block;
  }
  return cut;
}

// Gives cut blocks back to the system; without the mutex, because it takes long.
void unmap_cut(Device& d, Idle* cut) {
  while (cut != nullptr) {
    Idle* block = cut;
    cut = block->older;
    const size_t bytes = kind_bytes(block->kind);
    unmap_pages(block, bytes);
    d.held.fetch_sub(bytes, relaxed);
  }
}

int64_t idle_most(const Device& d) { return std::max(kIdleAtLeast, d.peak.load(relaxed) / 2); }

// --- Blocks in spans (mutex held) ---

size_t span_bytes(unsigned c) { return c < kSmallClasses ? kSmallSpan : kWideSpan; }

Span* new_span(Device& d, unsigned c) {
  const size_t bytes = span_bytes(c);
  void* memory = take_idle(d, c < kSmallClasses ? SmallSpans : WideSpans);
  if (memory == nullptr) {
    // A class that needs a second wide span is busy: huge pages make its first touch cheap.
    const bool huge = bytes == kWideSpan && d.span_count[c] > 0;
    memory = map_pages(bytes, bytes, bytes, huge ? Pages::Huge : Pages::Plain);
    if (memory == nullptr) return nullptr;
    d.held.fetch_add(bytes, relaxed);
  }
  ++d.span_count[c];
  return ::new (memory)
      Span{nullptr,        nullptr, nullptr, 0, uint32_t(kSpanHeader), uint32_t(class_bytes(c)),
           uint32_t(bytes)};
}

void link_span(Device& d, Span* span, unsigned c) {
  span->previous = nullptr;
  span->next = d.spans[c];
  if (span->next) span->next->previous = span;
  d.spans[c] = span;
}

void unlink_span(Device& d, Span* span, unsigned c) {
  (span->previous ? span->previous->next : d.spans[c]) = span->next;
  if (span->next) span->next->previous = span->previous;
}

void* take_block(Device& d, unsigned c) {
  Span* span = d.spans[c];
  if (span == nullptr) {
    span = new_span(d, c);
    if (span == nullptr) return nullptr;
    link_span(d, span, c);
  }
  void* block = span->free;
  if (block != nullptr) {
    std::memcpy(&span->free, block, sizeof span->free);
  } else {
    block = reinterpret_cast<char*>(span) + span->carved;
    span->carved += span->block_bytes;
  }
  ++span->used;
  if (!span->has_room()) unlink_span(d, span, c);
  return block;
}

void give_block(Device& d, void* block, unsigned c) {
  Span* span = reinterpret_cast<Span*>(reinterpret_cast<uintptr_t>(block) & -span_bytes(c));
  if (!span->has_room()) link_span(d, span, c);
  std::memcpy(block, &span->free, sizeof span->free);
  span->free = block;
  if (--span->used == 0) {
    unlink_span(d, span, c);
    --d.span_count[c];
    put_idle(d, span, c < kSmallClasses ? SmallSpans : WideSpans);
  }
}

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
    give_block(d, block, c);
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
      Idle* cut;
      {
        std::lock_guard lock(d.mutex);
        shrink_all(d, local);
        d.allocations.fetch_add(local->allocations.load(relaxed), relaxed);
        Local** at = &d.threads;
        while (*at != local) at = &(*at)->next;
        *at = local->next;
        cut = cut_idle(d, idle_most(d));
      }
      unmap_cut(d, cut);
      delete local;
    }
  }
  void touch() {}
};

// nullptr when the thread is about to end (or memory is), or when nothing is kept.
Local* local_cache(int device) {
  Local*& local = locals[device + 1];
  if (local != nullptr || ended || TYCHO_PLAIN_MEMORY) return local;
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
  if constexpr (TYCHO_PLAIN_MEMORY) {
    void* memory = nullptr;
    if (!memory_has_room(bytes) || posix_memalign(&memory, 64, bytes) != 0) return nullptr;
    d.held.fetch_add(counted(bytes), relaxed);
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
    void* block = take_block(d, c);
    if (block == nullptr || bin == nullptr) return block;
    // A few more for the next calls, in an order that hands out rising addresses.
    const size_t more = std::min<size_t>(4096 / class_bytes(c), 32);
    void** link = &bin->head;
    for (size_t i = 1; i < more && d.spans[c] != nullptr; ++i) {
      void* next = take_block(d, c);
      *link = next;
      link = static_cast<void**>(next);
      ++bin->count;
    }
    *link = nullptr;
    return block;
  }
  {
    std::lock_guard lock(d.mutex);
    if (void* block = take_idle(d, c)) return block;
  }
  const size_t size = class_bytes(c);
  void* block = size < kHugePage ? map_pages(size, kPage, kPage, Pages::Populated)
                                 : map_pages(size, kHugePage, kPage, Pages::Huge);
  if (block != nullptr) d.held.fetch_add(size, relaxed);
  return block;
}

void put(Device& d, Local* local, void* memory, size_t bytes) {
  if constexpr (TYCHO_PLAIN_MEMORY) {
    free(memory);
    d.held.fetch_sub(counted(bytes), relaxed);
    return;
  }
  const unsigned c = size_class(bytes);
  Idle* cut;
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
        give_block(d, memory, c);
      else
        put_idle(d, memory, c);
    }
    cut = cut_idle(d, idle_most(d));
  }
  unmap_cut(d, cut);
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

bool ask_handler(size_t bytes) {
  const auto call = handler.load(std::memory_order_acquire);
  if (call == nullptr || !handles_here || in_handler) return false;
  struct Inside {
    Inside() { in_handler = true; }
    ~Inside() { in_handler = false; }
  } inside;
  return call(bytes);
}

void empty_all() {
  for (int device = -1; device < kMemoryDevices - 1; ++device) empty_cache(device);
}

}  // namespace

void* memory::allocate_slow(int device, size_t bytes) {
  if (bytes > kLargest) return nullptr;
  void* memory = nullptr;
  Outcome outcome = try_allocate(device, bytes, &memory);
  if (outcome == Outcome::NoMemory) {
    empty_all();
    outcome = try_allocate(device, bytes, &memory);
  }
  if (outcome != Outcome::Done && ask_handler(bytes)) {
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
  stats.cached = std::max<int64_t>(0, d.held.load(relaxed) - stats.live);
  return stats;
}

void reset_peak_memory(int device) {
  Device& d = devices[device + 1];
  if (Local* local = locals[device + 1]) add_pending(d, local);
  d.peak.store(live[device + 1].bytes.load(relaxed), relaxed);
}

void empty_cache(int device) {
  Device& d = devices[device + 1];
  Idle* cut;
  {
    std::lock_guard lock(d.mutex);
    if (Local* local = locals[device + 1]) shrink_all(d, local);
    cut = cut_idle(d, 0);
  }
  unmap_cut(d, cut);
}

void set_device_capacity(int device, int64_t bytes) {
  Device& d = devices[device + 1];
  std::lock_guard lock(d.mutex);
  d.capacity.store(bytes, relaxed);
  // Threads then come the slow way, where the limit is looked at.
  for (Local* local = d.threads; local != nullptr; local = local->next)
    local->limit.store(bytes > 0 ? INT64_MIN : kPendingMost, relaxed);
}

void set_out_of_memory_handler(bool (*call)(size_t bytes)) {
  handles_here = call != nullptr;
  handler.store(call, std::memory_order_release);
}

}  // namespace tycho
