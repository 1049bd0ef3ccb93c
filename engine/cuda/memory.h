// A device's memory: bins of free blocks over the driver's pool. A block that is released while
// there are several streams waits for all of them before somebody else gets it; with one stream, its
// order is enough. What a thread allocates while it captures a graph comes from a pool of graphs, and
// goes back there as long as one of them lives: a replay writes it again.
#pragma once
#include <map>
#include <unordered_map>
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

  // Pools of graphs (tensor/graph.h), opened by each graph and closed at its end.
  void open_pool(int64_t pool);
  void close_pool(int64_t pool);
  // Several streams take part in the capture from now on: no order says when a block is free again,
  // so it stays unused until the end.
  void fork(int64_t pool);
  void end_fork(int64_t pool);
  bool is_private(const void* memory);

 private:
  struct Waiting {
    void* memory;
    size_t bytes;
    std::vector<Event> events;
  };
  void* take(size_t bytes) override;
  void give(void* memory, size_t bytes) override;
  struct PrivatePool {
    int graphs = 0;
    bool forked = false;
    std::vector<void*> free[kClasses], later[kClasses];
  };
  void* allocate_private(int64_t pool, size_t bytes);
  void* allocate_block(size_t bytes);
  bool release_private(void* memory, size_t* bytes);
  void collect(bool wait);

  DeviceContext& device_;
  DeviceMemory bins_{*this};
  std::mutex mutex_;  // of waiting_
  std::vector<Waiting> waiting_;
  std::mutex pool_mutex_;  // of what follows
  std::map<int64_t, PrivatePool> pools_;
  std::unordered_map<const void*, int64_t> owner_;  // of blocks that are or were a pool's
  std::atomic<bool> any_private_{false};
};

}  // namespace tycho::cuda
