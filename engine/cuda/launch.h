// Launching kernels: all of them pass `launch`, which is where graphs, counts and faults hook in.
// A kernel is named by the file in engine/cuda/kernels that has it and by its own name.
#pragma once
#include <type_traits>

#include "engine/tensor/backend.h"

namespace tycho::cuda {

struct KernelRef {
  const char* file;  // "reduce" for engine/cuda/kernels/reduce.cu
  const char* name;
};
struct Grid {
  unsigned x = 1, y = 1, z = 1;
};
struct Block {
  unsigned x = 1, y = 1, z = 1;
};

// On the calling thread's current stream of the device; an empty grid is no launch.
void launch_kernel(Device device, KernelRef kernel, Grid grid, Block block, size_t shared_bytes,
                   void** arguments);

template <class... A>
void launch(Device device, KernelRef kernel, Grid grid, Block block, size_t shared_bytes,
            const A&... arguments) {
  static_assert((std::is_trivially_copyable_v<A> && ...), "arguments go to a kernel as bytes");
  void* addresses[] = {const_cast<void*>(static_cast<const void*>(&arguments))..., nullptr};
  launch_kernel(device, kernel, grid, block, shared_bytes, addresses);
}

// Memory that the kernels of one call need beside their results; reused in the stream's order.
class Scratch {
 public:
  Scratch(Device device, size_t bytes);  // raises Kind::Oom
  ~Scratch();
  Scratch(const Scratch&) = delete;
  template <class T = void>
  T* as() const {
    return static_cast<T*>(memory_);
  }

 private:
  Device device_;
  StreamId stream_;
  size_t bytes_;
  void* memory_;
};

int multiprocessors(Device device);
int arch(Device device);  // 90 for sm_90

// Blocks of `threads` for a loop of stride gridDim.x * blockDim.x over n elements.
Grid grid_for(Device device, int64_t n, unsigned threads = 256);

struct Fault;  // kernels/prelude.cuh
// Where kernels of the device report an index that is out of range.
Fault* fault_of(Device device);
// Raises Kind::Index when a kernel has reported one; called where the host waits.
void raise_faults(Device device);

}  // namespace tycho::cuda
