// Pieces of a simulated device's range of addresses, and its opening and closing.
#include "engine/cpu/device/arena.h"

#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>

#include "engine/base/check.h"
#include "engine/base/pages.h"
#include "engine/base/sanitize.h"

#if TYCHO_PLAIN_MEMORY
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(memory, bytes) (void)0
#define ASAN_UNPOISON_MEMORY_REGION(memory, bytes) (void)0
#endif

namespace tycho::cpu {
namespace {

bool wants_guard() {
  const char* text = std::getenv("TYCHO_SIMULATE_GUARD");
  return text ? text[0] == '1' : TYCHO_PLAIN_MEMORY;
}

constexpr size_t kRange = size_t{256} << 30;  // addresses only

// Under AddressSanitizer every block is followed by a gap that must not be touched.
constexpr size_t kGap = TYCHO_PLAIN_MEMORY ? 64 : 0;

}  // namespace

// Opening and closing visits every page that is in use: with small ones most of a test's time.
Arena::Arena() : guarded_(wants_guard()), page_(guarded_ ? kHugePage : kPage) {}

bool Arena::reserve() {
  if (base_) return true;
  reserved_ = kRange;
  // Under a limit of addresses the range takes an eighth of them.
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    reserved_ = std::min<size_t>(kRange, page_up(limit.rlim_cur / 8));
  void* memory = mmap(nullptr, reserved_ + page_, PROT_NONE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  base_ = reinterpret_cast<char*>(page_up(reinterpret_cast<size_t>(memory)));
  if (guarded_) madvise(base_, reserved_, MADV_HUGEPAGE);  // where it is refused, it is slower
  return true;
}

void Arena::protect(size_t from, size_t to, bool accessible) {
  if (from >= to) return;
  if (mprotect(base_ + from, to - from, accessible ? PROT_READ | PROT_WRITE : PROT_NONE) != 0)
    fail(Kind::Oom, "the memory of a simulated device cannot be opened or closed");
}

void* Arena::take(size_t bytes, int) {
  bytes += kGap;
  std::lock_guard lock(mutex_);
  if (!reserve()) return nullptr;
  size_t at;
  auto piece = std::find_if(free_.begin(), free_.end(),
                            [&](const auto& p) { return p.second - p.first >= bytes; });
  if (piece != free_.end()) {
    at = piece->first;
    const size_t end = piece->second;
    free_.erase(piece);
    if (end - at > bytes) free_.emplace(at + bytes, end);
  } else {
    at = used_;
    if (bytes > reserved_ - used_ || !memory_has_room(bytes)) return nullptr;
    if (!guarded_ || open_ > 0) protect(page_up(used_), page_up(used_ + bytes), true);
    used_ += bytes;
  }
  ASAN_UNPOISON_MEMORY_REGION(base_ + at, bytes - kGap);
  ASAN_POISON_MEMORY_REGION(base_ + at + bytes - kGap, kGap);
  return base_ + at;
}

void Arena::give(void* memory, size_t bytes, int) {
  std::lock_guard lock(mutex_);
  const size_t at = static_cast<size_t>(static_cast<char*>(memory) - base_);
  ASAN_POISON_MEMORY_REGION(memory, bytes);
  auto piece = free_.emplace(at, at + bytes + kGap).first;
  if (const auto next = std::next(piece); next != free_.end() && next->first == piece->second) {
    piece->second = next->second;
    free_.erase(next);
  }
  if (piece != free_.begin()) {
    if (const auto before = std::prev(piece); before->second == piece->first) {
      before->second = piece->second;
      free_.erase(piece);
      piece = before;
    }
  }
  // Whole pages go back to the system.
  const size_t first = page_up(piece->first), last = piece->second & ~(page_ - 1);
  if (first < last && bytes >= kPage) madvise(base_ + first, last - first, MADV_DONTNEED);
}

void Arena::open() {
  if (!guarded_) return;
  std::lock_guard lock(mutex_);
  if (open_++ == 0 && base_) protect(0, page_up(used_), true);
}

void Arena::close() {
  if (!guarded_) return;
  std::lock_guard lock(mutex_);
  if (--open_ == 0 && base_) protect(0, page_up(used_), false);
}

}  // namespace tycho::cpu
