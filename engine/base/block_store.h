// Where the allocator's blocks come from, below the threads' caches: one store per device, used
// under the device's lock.
//
// Blocks come in three kinds, by size class: up to 8 KB from spans of 64 KB, up to 128 KB from
// spans of 2 MB, larger ones from the system directly. A span lies at a multiple of its size, so
// the span of a block is found by masking its address. Direct blocks and empty spans that nobody
// uses are "idle": a stack per kind for reuse, and one list by age through all stacks, from whose
// old end they go back to the system.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "engine/base/pages.h"
#include "engine/base/size_class.h"

namespace tycho {

inline constexpr size_t kLargestBlock = size_t(1) << 46;
inline constexpr unsigned kClasses = size_class(kLargestBlock) + 1;
inline constexpr unsigned kSmallClasses = size_class(8 << 10) + 1;   // in spans of 64 KB
inline constexpr unsigned kSpanClasses = size_class(128 << 10) + 1;  // in spans of 2 MB

class BlockStore {
 public:
  // Written at the start of an idle block or empty span.
  struct Idle {
    Idle *below, *above;  // in the stack of its kind
    Idle *older, *newer;  // in the list by age
    unsigned kind;
    uint32_t since;  // seconds, of a clock that only goes forward
  };

  // Blocks of a class below kSpanClasses. take may map pages, and returns nullptr without memory.
  void* take_from_span(unsigned c);
  void give_to_span(void* block, unsigned c);
  bool has_ready(unsigned c) const { return spans_[c] != nullptr; }  // without mapping

  // Blocks of the other classes: one that waits, or nullptr; map_direct needs no lock.
  void* take_idle(unsigned c);
  void put_idle(void* memory, unsigned c);
  void* map_direct(unsigned c);

  // Unlinks the oldest idle blocks, for unmap, which takes long and needs no lock: until at most
  // `most` bytes are idle, and at most `most_old` or none of them for `old` seconds.
  Idle* cut(int64_t most, int64_t most_old, uint32_t old);
  void unmap(Idle* cut);

  std::atomic<int64_t> held{0};  // bytes from the system

 private:
  struct Span;
  Span* new_span(unsigned c);
  void link(Span* span, unsigned c);
  void unlink(Span* span, unsigned c);
  void unlink(Idle* block);

  int64_t idle_ = 0;
  Idle *oldest_ = nullptr, *newest_ = nullptr;
  Idle* stacks_[kClasses] = {};
  Span* spans_[kSpanClasses] = {};          // with room
  uint32_t span_count_[kSpanClasses] = {};  // with room or full
};

}  // namespace tycho
