// Taking blocks from the driver's pool, and keeping those that other streams may still use.
#include "engine/cuda/memory.h"

#include <algorithm>

#include "engine/base/size_class.h"
#include "engine/cuda/context.h"
#include "engine/cuda/graph.h"

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
  if (const GraphRecording* graph = recording_on(device_.device)) [[unlikely]]
    return allocate_private(graph->pool(), bytes);
  return allocate_block(bytes);
}

void* Memory::allocate_block(size_t bytes) {
  collect(false);
  if (void* memory = bins_.allocate(bytes)) return memory;
  collect(true);
  empty_cache();
  return bins_.allocate(bytes);
}

void Memory::release(void* memory, size_t bytes) {
  if (!memory) return;
  if (any_private_.load(std::memory_order_relaxed) && release_private(memory, &bytes)) return;
  Waiting block{memory, bytes, {}};
  {
    const std::lock_guard lock(device_.mutex);
    if (std::count_if(device_.queues.begin(), device_.queues.end(),
                      [](const Queue& q) { return q.used; }) > 1)
      for (const Queue& q : device_.queues) {
        Event event = nullptr;
        // A graph under capture holds what it uses itself.
        if (!q.used || q.captured || driver().new_event(&event, kEventWithoutTime) != kSuccess)
          continue;
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

// --- Pools of graphs: whole blocks of the bins, which count as live until the pool is gone ---

void Memory::open_pool(int64_t pool) {
  const std::lock_guard lock(pool_mutex_);
  ++pools_[pool].graphs;
}

void Memory::close_pool(int64_t pool) {
  std::vector<std::pair<void*, size_t>> gone;
  {
    const std::lock_guard lock(pool_mutex_);
    PrivatePool& p = pools_[pool];
    if (--p.graphs) return;
    for (unsigned c = 0; c < kClasses; ++c)
      for (auto* blocks : {&p.free[c], &p.later[c]})
        for (void* memory : *blocks) {
          gone.emplace_back(memory, class_bytes(c));
          owner_.erase(memory);
        }
    pools_.erase(pool);
  }
  for (const auto& [memory, bytes] : gone) release(memory, bytes);
}

void Memory::fork(int64_t pool) {
  const std::lock_guard lock(pool_mutex_);
  PrivatePool& p = pools_[pool];
  p.forked = true;
  for (unsigned c = 0; c < kClasses; ++c) {
    p.later[c].insert(p.later[c].end(), p.free[c].begin(), p.free[c].end());
    p.free[c].clear();
  }
}

void Memory::end_fork(int64_t pool) {
  const std::lock_guard lock(pool_mutex_);
  PrivatePool& p = pools_[pool];
  p.forked = false;
  for (unsigned c = 0; c < kClasses; ++c) {
    p.free[c].insert(p.free[c].end(), p.later[c].begin(), p.later[c].end());
    p.later[c].clear();
  }
}

bool Memory::is_private(const void* memory) {
  if (!any_private_.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(pool_mutex_);
  return owner_.contains(memory);
}

void* Memory::allocate_private(int64_t pool, size_t bytes) {
  if (bytes > kLargestBlock) return nullptr;
  const unsigned c = size_class(bytes);
  {
    const std::lock_guard lock(pool_mutex_);
    auto& free = pools_[pool].free[c];
    if (!free.empty()) {
      void* const memory = free.back();
      free.pop_back();
      return memory;
    }
  }
  void* const memory = allocate_block(class_bytes(c));
  if (!memory) return nullptr;
  const std::lock_guard lock(pool_mutex_);
  owner_[memory] = pool;
  any_private_ = true;
  return memory;
}

// False where the block's pool is gone, or it never had one.
bool Memory::release_private(void* memory, size_t* bytes) {
  const std::lock_guard lock(pool_mutex_);
  const auto owner = owner_.find(memory);
  if (owner == owner_.end()) return false;
  const unsigned c = size_class(*bytes);
  const auto pool = pools_.find(owner->second);
  if (pool != pools_.end()) {
    PrivatePool& p = pool->second;
    (p.forked ? p.later : p.free)[c].push_back(memory);
    return true;
  }
  owner_.erase(owner);
  *bytes = class_bytes(c);
  return false;
}

}  // namespace tycho::cuda
