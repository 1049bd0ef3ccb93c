// The bins of device_memory.h.
#include "engine/base/device_memory.h"

#include <algorithm>

namespace tycho {
namespace {

constexpr int64_t kCachedAtLeast = int64_t{256} << 20;

}  // namespace

void* DeviceMemory::try_allocate(size_t bytes, int stream) {
  const size_t block = block_bytes(bytes);
  const auto s = static_cast<size_t>(stream);
  std::lock_guard lock(mutex_);
  const int64_t live = live_bytes() + memory::counted(bytes), capacity = capacity_.load();
  if (capacity > 0 && live > capacity) return nullptr;
  if (s >= bins_.size()) bins_.resize(s + 1);
  std::vector<void*>& free = bins_[s][block];
  void* memory;
  if (!free.empty()) {
    memory = free.back();
    free.pop_back();
    cached_ -= static_cast<int64_t>(block);
  } else {
    memory = source_.take(block, stream);
    if (!memory) {
      drop_all();
      memory = source_.take(block, stream);
    }
    if (!memory) return nullptr;
  }
  live_.store(live);
  peak_ = std::max(peak_, live);
  ++allocations_;
  return memory;
}

void* DeviceMemory::allocate(size_t bytes, int stream) {
  if (bytes > kLargest) return nullptr;
  void* memory = try_allocate(bytes, stream);
  if (!memory && ask_out_of_memory_handler(bytes)) memory = try_allocate(bytes, stream);
  return memory;
}

void DeviceMemory::release(void* memory, size_t bytes, int stream) {
  if (!memory) return;
  leave(bytes);
  take_back(memory, bytes, stream);
}

void DeviceMemory::leave(size_t bytes) {
  std::lock_guard lock(mutex_);
  cached_ += static_cast<int64_t>(block_bytes(bytes));
  live_.store(live_bytes() - memory::counted(bytes));
}

void DeviceMemory::take_back(void* memory, size_t bytes, int stream) {
  const auto s = static_cast<size_t>(stream);
  std::lock_guard lock(mutex_);
  if (s >= bins_.size()) bins_.resize(s + 1);
  bins_[s][block_bytes(bytes)].push_back(memory);
  if (cached_ > std::max(kCachedAtLeast, peak_ / 2)) drop_all();
}

void DeviceMemory::drop_all() {
  for (size_t s = 0; s < bins_.size(); ++s)
    for (auto& [bytes, free] : bins_[s]) {
      for (void* memory : free) source_.give(memory, bytes, static_cast<int>(s));
      cached_ -= static_cast<int64_t>(free.size() * bytes);
      free.clear();
    }
}

void DeviceMemory::move_blocks(Bins& to, Bins& from) {
  for (const auto& [bytes, blocks] : from) {
    std::vector<void*>& there = to[bytes];
    there.insert(there.end(), blocks.begin(), blocks.end());
  }
  from.clear();
}

void DeviceMemory::end_stream(int stream) {
  const auto s = static_cast<size_t>(stream);
  std::lock_guard lock(mutex_);
  if (!s || s >= bins_.size()) return;
  move_blocks(bins_[0], bins_[s]);
}

MemoryStats DeviceMemory::stats() {
  std::lock_guard lock(mutex_);
  return {live_bytes(), peak_, cached_, allocations_};
}

void DeviceMemory::reset_peak() {
  std::lock_guard lock(mutex_);
  peak_ = live_bytes();
}

void DeviceMemory::empty_cache() {
  std::lock_guard lock(mutex_);
  drop_all();
}

}  // namespace tycho
