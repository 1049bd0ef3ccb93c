// Spans, idle blocks and their way back to the system.
#include "engine/base/block_store.h"

#include <time.h>

#include <cstring>
#include <new>

namespace tycho {
namespace {

constexpr size_t kSmallSpan = 64 << 10, kWideSpan = kHugePage;
constexpr size_t kSpanHeader = 64;

// The kind of an idle block is its class; empty spans take the place of two classes that are
// never direct.
enum : unsigned { SmallSpans = 0, WideSpans = 1 };
constexpr size_t kind_bytes(unsigned kind) {
  return kind == SmallSpans ? kSmallSpan : kind == WideSpans ? kWideSpan : class_bytes(kind);
}

// Tensors so large are read from memory beside each other. At the same place within their pages they would
// share banks of it, which takes a tenth longer (Zen 4): each lies a step further into a mapping.
constexpr size_t kSpread = size_t(16) << 20, kSpreadStep = 128 << 10;
constexpr unsigned kSpreadSteps = kHugePage / kSpreadStep / 2;
constexpr size_t mapped_bytes(unsigned kind) {
  const size_t bytes = kind_bytes(kind);
  return bytes >= kSpread ? bytes + kHugePage : bytes;
}
char* start_of_mapping(void* block, unsigned kind) {
  const uintptr_t at = reinterpret_cast<uintptr_t>(block);
  return static_cast<char*>(block) - (kind_bytes(kind) >= kSpread ? at % kHugePage : 0);
}

unsigned span_kind(unsigned c) { return c < kSmallClasses ? SmallSpans : WideSpans; }

uint32_t seconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return static_cast<uint32_t>(now.tv_sec);
}

}  // namespace

// Written at the start of a span in use.
struct BlockStore::Span {
  Span *next, *previous;  // in the list of spans of its class that have room
  void* free;             // blocks that came back
  uint32_t used;          // blocks out, those in threads' caches included
  uint32_t carved;        // where the part never used begins
  uint32_t block_bytes, span_bytes;

  bool has_room() const { return free != nullptr || carved + block_bytes <= span_bytes; }
};

// --- Idle blocks ---

void BlockStore::unlink(Idle* block) {
  (block->above ? block->above->below : stacks_[block->kind]) = block->below;
  if (block->below) block->below->above = block->above;
  (block->newer ? block->newer->older : newest_) = block->older;
  (block->older ? block->older->newer : oldest_) = block->newer;
  idle_ -= kind_bytes(block->kind);
}

void* BlockStore::take_idle(unsigned kind) {
  Idle* block = stacks_[kind];
  if (block != nullptr) unlink(block);
  return block;
}

void BlockStore::put_idle(void* memory, unsigned kind) {
  static_assert(sizeof(Idle) <= kSpanHeader);
  Idle* block = ::new (memory) Idle{stacks_[kind], nullptr, newest_, nullptr, kind, seconds()};
  if (block->below) block->below->above = block;
  (newest_ ? newest_->newer : oldest_) = block;
  stacks_[kind] = newest_ = block;
  idle_ += kind_bytes(kind);
}

BlockStore::Idle* BlockStore::cut(int64_t most, int64_t most_old, uint32_t old) {
  Idle* cut = nullptr;
  const uint32_t now = idle_ > most_old ? seconds() : 0;
  while (idle_ > most || (idle_ > most_old && now - oldest_->since >= old)) {
    Idle* block = oldest_;
    unlink(block);
    block->older = cut;  // cut blocks hang together by `older`
    cut = block;
  }
  return cut;
}

void BlockStore::unmap(Idle* cut) {
  while (cut != nullptr) {
    Idle* block = cut;
    cut = block->older;
    const size_t bytes = mapped_bytes(block->kind);
    unmap_pages(start_of_mapping(block, block->kind), bytes);
    held.fetch_sub(bytes, std::memory_order_relaxed);
  }
}

void* BlockStore::map_direct(unsigned c) {
  static std::atomic<unsigned> spread{0};
  const size_t bytes = mapped_bytes(c);
  const bool spreads = bytes > class_bytes(c);
  void* block = bytes < kHugePage
                    ? map_pages(bytes, kPage, kPage, Pages::Populated)
                    : map_pages(bytes, kHugePage, spreads ? kHugePage : kPage, Pages::Huge);
  if (block == nullptr) return nullptr;
  held.fetch_add(bytes, std::memory_order_relaxed);
  const unsigned step = spreads ? spread.fetch_add(1, std::memory_order_relaxed) % kSpreadSteps : 0;
  return static_cast<char*>(block) + step * kSpreadStep;
}

// --- Blocks in spans ---

BlockStore::Span* BlockStore::new_span(unsigned c) {
  static_assert(sizeof(Span) <= kSpanHeader);
  const size_t bytes = kind_bytes(span_kind(c));
  void* memory = take_idle(span_kind(c));
  if (memory == nullptr) {
    // A class that needs a second wide span is busy: huge pages make its first touch cheap.
    const bool huge = bytes == kWideSpan && span_count_[c] > 0;
    memory = map_pages(bytes, bytes, bytes, huge ? Pages::Huge : Pages::Plain);
    if (memory == nullptr) return nullptr;
    held.fetch_add(bytes, std::memory_order_relaxed);
  }
  ++span_count_[c];
  return ::new (memory) Span{.next = nullptr,
                             .previous = nullptr,
                             .free = nullptr,
                             .used = 0,
                             .carved = uint32_t(kSpanHeader),
                             .block_bytes = uint32_t(class_bytes(c)),
                             .span_bytes = uint32_t(bytes)};
}

void BlockStore::link(Span* span, unsigned c) {
  span->previous = nullptr;
  span->next = spans_[c];
  if (span->next) span->next->previous = span;
  spans_[c] = span;
}

void BlockStore::unlink(Span* span, unsigned c) {
  (span->previous ? span->previous->next : spans_[c]) = span->next;
  if (span->next) span->next->previous = span->previous;
}

void* BlockStore::take_from_span(unsigned c) {
  Span* span = spans_[c];
  if (span == nullptr) {
    span = new_span(c);
    if (span == nullptr) return nullptr;
    link(span, c);
  }
  void* block = span->free;
  if (block != nullptr) {
    std::memcpy(&span->free, block, sizeof span->free);
  } else {
    block = reinterpret_cast<char*>(span) + span->carved;
    span->carved += span->block_bytes;
  }
  ++span->used;
  if (!span->has_room()) unlink(span, c);
  return block;
}

void BlockStore::give_to_span(void* block, unsigned c) {
  const uintptr_t mask = -uintptr_t(kind_bytes(span_kind(c)));
  Span* span = reinterpret_cast<Span*>(reinterpret_cast<uintptr_t>(block) & mask);
  if (!span->has_room()) link(span, c);
  std::memcpy(block, &span->free, sizeof span->free);
  span->free = block;
  if (--span->used == 0) {
    unlink(span, c);
    --span_count_[c];
    put_idle(span, span_kind(c));
  }
}

}  // namespace tycho
