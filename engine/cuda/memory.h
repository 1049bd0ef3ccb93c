// A device's memory: bins of free blocks for each stream over the driver's pool. A block goes back to
// the stream that it was taken for, whose order is enough; where other streams used it since, it waits
// until they have passed that point. What a thread allocates while it captures a graph comes from a
// pool of graphs, and goes back there as long as one of them lives: a replay writes it again.
#pragma once
#include <map>
#include <unordered_map>
#include <vector>

#include "engine/base/device_memory.h"
#include "engine/cuda/driver.h"
#include "engine/tensor/storage.h"

namespace tycho::cuda {

struct DeviceContext;

class Memory final : DeviceMemory::Source {
 public:
  explicit Memory(DeviceContext& device) : device_(device) {}
  // For the order of a stream; what comes back may be used by it at once, and the others come after.
  void* allocate(size_t bytes, int stream);
  // What no other stream used.
  void release(void* memory, size_t bytes, int stream);
  void release(Storage& s);
  void end_stream(int stream) { bins_.end_stream(stream); }  // its work is done
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
    int stream;
    std::vector<Event> others;
  };
  void* take(size_t bytes, int stream) override;
  void give(void* memory, size_t bytes, int stream) override;
  struct PrivatePool {
    int graphs = 0;
    bool forked = false;
    DeviceMemory::Bins free, later;
  };
  void* allocate_private(int64_t pool, size_t bytes, int stream);
  void* allocate_block(size_t bytes, int stream);
  void give_back(void* memory, size_t bytes, int stream, std::vector<Event> others);
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
