// Taking blocks from the driver's pool, and keeping those that other streams may still use.
#include "engine/cuda/memory.h"

#include <algorithm>

#include "engine/cuda/context.h"

namespace tycho::cuda {
namespace {

void* as_pointer(Address a) { return reinterpret_cast<void*>(a); }
Address as_address(void* p) { return reinterpret_cast<Address>(p); }

}  // namespace

// Both are called under the bins' lock, on a thread that has the device's context.
void* Memory::take(size_t bytes) {
  Address memory = 0;
  const Result r = driver().allocate(&memory, bytes, device_.stream(0));
  if (r == kOutOfMemory) return nullptr;
  check(r, "allocating on a device");
  // Other streams may use it at once: it is there for all of them.
  check(driver().finish_stream(device_.stream(0)), "allocating on a device");
  return as_pointer(memory);
}

void Memory::give(void* memory, size_t) {
  check(driver().release(as_address(memory), device_.stream(0)), "releasing a device's memory");
}

void* Memory::allocate(size_t bytes) {
  collect(false);
  if (void* memory = bins_.allocate(bytes)) return memory;
  collect(true);
  empty_cache();
  return bins_.allocate(bytes);
}

void Memory::release(void* memory, size_t bytes) {
  if (!memory) return;
  Waiting block{memory, bytes, {}};
  {
    const std::lock_guard lock(device_.mutex);
    if (std::count_if(device_.queues.begin(), device_.queues.end(),
                      [](const Queue& q) { return q.used; }) > 1)
      for (const Queue& q : device_.queues) {
        Event event = nullptr;
        if (!q.used || driver().new_event(&event, kEventWithoutTime) != kSuccess) continue;
        driver().record_event(event, q.stream);
        block.events.push_back(event);
      }
  }
  bins_.leave(bytes);
  if (block.events.empty()) return bins_.take_back(memory, bytes);
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(block));
}

void Memory::collect(bool wait) {
  const std::lock_guard lock(mutex_);
  std::erase_if(waiting_, [&](Waiting& block) {
    while (!block.events.empty()) {
      const Event event = block.events.back();
      if (wait) driver().finish_event(event);
      if (driver().ask_event(event) == kNotReady) return false;
      driver().end_event(event);
      block.events.pop_back();
    }
    bins_.take_back(block.memory, block.bytes);
    return true;
  });
}

void Memory::empty_cache() {
  collect(false);
  bins_.empty_cache();
  finish(device_, device_.stream(0));
  driver().trim_pool(device_.pool, 0);
}

}  // namespace tycho::cuda
