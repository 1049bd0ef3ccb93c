// Taking blocks from the driver's pool, and keeping those that other streams may still use.
#include "engine/cuda/memory.h"

#include <utility>

#include "engine/cuda/context.h"
#include "engine/cuda/graph.h"

namespace tycho::cuda {
namespace {

void* as_pointer(Address a) { return reinterpret_cast<void*>(a); }
Address as_address(void* p) { return reinterpret_cast<Address>(p); }

// A graph under capture would take up what the driver is asked for in one of its streams. Whatever was
// asked of those before is done, so that a stream of its own may be asked.
class Outside {
 public:
  Outside(DeviceContext& device, int stream) : stream_(device.outside_graphs(stream)) {
    if (stream_) return;
    check(driver().new_stream(&made_, kNonBlocking), "a new stream");
    stream_ = made_;
  }
  ~Outside() {
    if (!made_) return;
    driver().finish_stream(made_);
    driver().end_stream(made_);
  }
  Outside(const Outside&) = delete;
  operator Stream() const { return stream_; }

 private:
  Stream stream_, made_ = nullptr;
};

}  // namespace

// Both are called under the bins' lock, on a thread that has the device's context.
void* Memory::take(size_t bytes, int stream) {
  Address memory = 0;
  const Outside in(device_, stream);
  const Result r = driver().allocate(&memory, bytes, in);
  if (r == kOutOfMemory) return nullptr;
  check(r, "allocating on a device");
  return as_pointer(memory);
}

void Memory::give(void* memory, size_t, int stream) {
  check(driver().release(as_address(memory), Outside(device_, stream)),
        "releasing a device's memory");
}

void* Memory::allocate(size_t bytes, int stream) {
  if (const GraphRecording* graph = recording_on(device_.device)) [[unlikely]]
    return allocate_private(graph->pool(), bytes, stream);
  return allocate_block(bytes, stream);
}

void* Memory::allocate_block(size_t bytes, int stream) {
  collect(false);
  if (void* memory = bins_.allocate(bytes, stream)) return memory;
  collect(true);
  empty_cache();
  return bins_.allocate(bytes, stream);
}

void Memory::release(void* memory, size_t bytes, int stream) {
  if (memory && !release_private(memory, &bytes)) give_back(memory, bytes, stream, {});
}

void Memory::release(Storage& s) {
  size_t bytes = s.bytes;
  if (release_private(s.data, &bytes)) return;
  const int home = device_.used(s.home);
  give_back(s.data, bytes, home, device_.others(s.written, s.readers, home));
}

void Memory::give_back(void* memory, size_t bytes, int stream, std::vector<Event> others) {
  bins_.leave(bytes);
  if (others.empty()) return bins_.take_back(memory, bytes, stream);
  const std::lock_guard lock(mutex_);
  waiting_.push_back({memory, bytes, stream, std::move(others)});
}

void Memory::collect(bool wait) {
  const std::lock_guard lock(mutex_);
  std::erase_if(waiting_, [&](Waiting& block) {
    while (!block.others.empty()) {
      const Event event = block.others.back();
      if (wait) driver().finish_event(event);
      if (driver().ask_event(event) == kNotReady) return false;
      driver().end_event(event);
      block.others.pop_back();
    }
    bins_.take_back(block.memory, block.bytes, device_.used(block.stream));
    return true;
  });
}

void Memory::empty_cache() {
  collect(false);
  bins_.empty_cache();
  device_.finish_all();
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
    for (const auto* bins : {&p.free, &p.later})
      for (const auto& [bytes, blocks] : *bins)
        for (void* memory : blocks) {
          gone.emplace_back(memory, bytes);
          owner_.erase(memory);
        }
    pools_.erase(pool);
  }
  constexpr uint64_t kAnyone = ~uint64_t{0};  // may have read what a replay left there
  for (const auto& [memory, bytes] : gone)
    give_back(memory, bytes, 0, device_.others(0, kAnyone, 0));
}

void Memory::fork(int64_t pool) {
  const std::lock_guard lock(pool_mutex_);
  PrivatePool& p = pools_[pool];
  p.forked = true;
  DeviceMemory::move_blocks(p.later, p.free);
}

void Memory::end_fork(int64_t pool) {
  const std::lock_guard lock(pool_mutex_);
  PrivatePool& p = pools_[pool];
  p.forked = false;
  DeviceMemory::move_blocks(p.free, p.later);
}

bool Memory::is_private(const void* memory) {
  if (!any_private_.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(pool_mutex_);
  return owner_.contains(memory);
}

void* Memory::allocate_private(int64_t pool, size_t bytes, int stream) {
  if (bytes > DeviceMemory::kLargest) return nullptr;
  const size_t block = DeviceMemory::block_bytes(bytes);
  {
    const std::lock_guard lock(pool_mutex_);
    auto& free = pools_[pool].free[block];
    if (!free.empty()) {
      void* const memory = free.back();
      free.pop_back();
      return memory;
    }
  }
  void* const memory = allocate_block(block, stream);
  if (!memory) return nullptr;
  const std::lock_guard lock(pool_mutex_);
  owner_[memory] = pool;
  any_private_ = true;
  return memory;
}

// False where the block's pool is gone, or it never had one.
bool Memory::release_private(void* memory, size_t* bytes) {
  if (!any_private_.load(std::memory_order_relaxed)) return false;
  const std::lock_guard lock(pool_mutex_);
  const auto owner = owner_.find(memory);
  if (owner == owner_.end()) return false;
  const size_t block = DeviceMemory::block_bytes(*bytes);
  const auto pool = pools_.find(owner->second);
  if (pool != pools_.end()) {
    PrivatePool& p = pool->second;
    (p.forked ? p.later : p.free)[block].push_back(memory);
    return true;
  }
  owner_.erase(owner);
  *bytes = block;
  return false;
}

}  // namespace tycho::cuda
