// The bins of device_memory.h.
#include "engine/base/device_memory.h"

#include <algorithm>

namespace tycho {
namespace {

constexpr int64_t kCachedAtLeast = int64_t{256} << 20;

}  // namespace

void* DeviceMemory::try_allocate(size_t bytes) {
  const unsigned c = size_class(bytes);
  std::lock_guard lock(mutex_);
  const int64_t live = live_bytes() + memory::counted(bytes), capacity = capacity_.load();
  if (capacity > 0 && live > capacity) return nullptr;
  void* memory;
  if (!bins_[c].empty()) {
    memory = bins_[c].back();
    bins_[c].pop_back();
    cached_ -= static_cast<int64_t>(class_bytes(c));
  } else {
    memory = source_.take(class_bytes(c));
    if (!memory) {
      drop_all();
      memory = source_.take(class_bytes(c));
    }
    if (!memory) return nullptr;
  }
  live_.store(live);
  peak_ = std::max(peak_, live);
  ++allocations_;
  return memory;
}

void* DeviceMemory::allocate(size_t bytes) {
  if (bytes > kLargestBlock) return nullptr;
  void* memory = try_allocate(bytes);
  if (!memory && ask_out_of_memory_handler(bytes)) memory = try_allocate(bytes);
  return memory;
}

void DeviceMemory::release(void* memory, size_t bytes) {
  if (!memory) return;
  leave(bytes);
  take_back(memory, bytes);
}

void DeviceMemory::leave(size_t bytes) {
  std::lock_guard lock(mutex_);
  cached_ += static_cast<int64_t>(class_bytes(size_class(bytes)));
  live_.store(live_bytes() - memory::counted(bytes));
}

void DeviceMemory::take_back(void* memory, size_t bytes) {
  std::lock_guard lock(mutex_);
  bins_[size_class(bytes)].push_back(memory);
  if (cached_ > std::max(kCachedAtLeast, peak_ / 2)) drop_all();
}

void DeviceMemory::drop_all() {
  for (unsigned c = 0; c < kClasses; ++c) {
    for (void* memory : bins_[c]) source_.give(memory, class_bytes(c));
    cached_ -= static_cast<int64_t>(bins_[c].size() * class_bytes(c));
    bins_[c].clear();
  }
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
