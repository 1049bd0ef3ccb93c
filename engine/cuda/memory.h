// A device's memory: bins of free blocks over the driver's pool. A block that is released while
// there are several streams waits for all of them before somebody else gets it; with one stream, its
// order is enough.
#pragma once
#include <vector>

#include "engine/base/device_memory.h"
#include "engine/cuda/driver.h"

namespace tycho::cuda {

struct DeviceContext;

class Memory final : DeviceMemory::Source {
 public:
  explicit Memory(DeviceContext& device) : device_(device) {}
  void* allocate(size_t bytes);
  void release(void* memory, size_t bytes);
  void empty_cache();
  DeviceMemory& bins() { return bins_; }

 private:
  struct Waiting {
    void* memory;
    size_t bytes;
    std::vector<Event> events;
  };
  void* take(size_t bytes) override;
  void give(void* memory, size_t bytes) override;
  void collect(bool wait);

  DeviceContext& device_;
  DeviceMemory bins_{*this};
  std::mutex mutex_;  // of waiting_
  std::vector<Waiting> waiting_;
};

}  // namespace tycho::cuda
