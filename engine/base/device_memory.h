// Memory of a device that the host cannot write: bins of free blocks by size class, last in first
// out, whose bookkeeping lies outside the blocks. What a device's memory is says `Source`. Every
// function is thread-safe.
#pragma once
#include <atomic>
#include <mutex>
#include <vector>

#include "engine/base/block_store.h"
#include "engine/base/memory.h"

namespace tycho {

class DeviceMemory {
 public:
  // Blocks of whole size classes from a driver or an arena; nullptr when it has none left. Called
  // under the lock of the bins.
  struct Source {
    virtual void* take(size_t bytes) = 0;
    virtual void give(void* memory, size_t bytes) = 0;

   protected:
    ~Source() = default;
  };

  explicit DeviceMemory(Source& source) : source_(source) {}

  // As the functions of memory.h with these names.
  void* allocate(size_t bytes);
  void release(void* memory, size_t bytes);
  // release in two parts: the block counts no more as live, and later it may be given to others.
  void leave(size_t bytes);
  void take_back(void* memory, size_t bytes);
  int64_t live_bytes() const { return live_.load(std::memory_order_relaxed); }
  MemoryStats stats();
  void reset_peak();
  void empty_cache();
  void set_capacity(int64_t bytes) { capacity_.store(bytes, std::memory_order_relaxed); }
  int64_t capacity() const { return capacity_.load(std::memory_order_relaxed); }  // 0: no limit

 private:
  void* try_allocate(size_t bytes);
  void drop_all();

  Source& source_;
  std::mutex mutex_;
  std::vector<void*> bins_[kClasses];
  std::atomic<int64_t> live_{0}, capacity_{0};
  int64_t peak_ = 0, cached_ = 0, allocations_ = 0;
};

}  // namespace tycho
