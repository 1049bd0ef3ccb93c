// Memory of a device that the host cannot write: bins of free blocks by size and stream, last in first
// out, whose bookkeeping lies outside the blocks. What a stream gives back it may take again at once,
// in its own order. What a device's memory is says `Source`. Every function is thread-safe.
#pragma once
#include <atomic>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "engine/base/memory.h"

namespace tycho {

class DeviceMemory {
 public:
  // Whole blocks from a driver or an arena, in a stream's order; nullptr when it has none left. Called
  // under the lock of the bins.
  struct Source {
    virtual void* take(size_t bytes, int stream) = 0;
    virtual void give(void* memory, size_t bytes, int stream) = 0;

   protected:
    ~Source() = default;
  };

  // The bytes of a block for so many: steps of 512 up to 1 MB, then of 2 MB. 0 bytes have a block, too.
  static constexpr size_t block_bytes(size_t bytes) {
    const size_t step = bytes <= size_t{1} << 20 ? 512 : size_t{2} << 20;
    return bytes ? (bytes + step - 1) / step * step : step;
  }
  static constexpr size_t kLargest = size_t{1} << 46;
  // Free blocks by their size.
  using Bins = std::unordered_map<size_t, std::vector<void*>>;

  // Leaves `from` empty.
  static void move_blocks(Bins& to, Bins& from);

  explicit DeviceMemory(Source& source) : source_(source) {}

  // As the functions of memory.h with these names.
  void* allocate(size_t bytes, int stream = 0);
  void release(void* memory, size_t bytes, int stream = 0);
  // release in two parts: the block counts no more as live, and later it may be given to others.
  void leave(size_t bytes);
  void take_back(void* memory, size_t bytes, int stream = 0);
  // A stream is at its end, with all its work: its blocks are stream 0's.
  void end_stream(int stream);
  int64_t live_bytes() const { return live_.load(std::memory_order_relaxed); }
  MemoryStats stats();
  void reset_peak();
  void empty_cache();
  void set_capacity(int64_t bytes) { capacity_.store(bytes, std::memory_order_relaxed); }
  int64_t capacity() const { return capacity_.load(std::memory_order_relaxed); }  // 0: no limit

 private:
  void* try_allocate(size_t bytes, int stream);
  void drop_all();

  Source& source_;
  std::mutex mutex_;
  std::vector<Bins> bins_;  // of each stream
  std::atomic<int64_t> live_{0}, capacity_{0};
  int64_t peak_ = 0, cached_ = 0, allocations_ = 0;
};

}  // namespace tycho
