// CUDA C++ on the CPU: the words that kernels use, so that a .cu file compiles as C++ and its kernels
// are found by name. A block's threads run one after the other.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <tuple>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __restrict__
#define __launch_bounds__(...)

namespace tycho::cuda::emulated {

struct Dim {
  unsigned x = 1, y = 1, z = 1;
};
inline thread_local Dim thread_place, block_place, block_size, grid_size;

// A kernel's call with its arguments, copied when it was launched.
using Thread = std::function<void()>;
using Binder = std::function<Thread(void** arguments)>;
bool add_kernel(const char* name, Binder bind);
const Binder* kernel_named(const std::string& name);
void run_grid(const Thread& thread, Dim grid, Dim block, size_t shared);

template <class... A>
Binder binder(void (*kernel)(A...)) {
  return [kernel](void** arguments) -> Thread {
    size_t k = 0;
    std::tuple<A...> copies{*static_cast<const A*>(arguments[k++])...};
    return [kernel, copies] { std::apply(kernel, copies); };
  };
}

}  // namespace tycho::cuda::emulated

#define threadIdx (::tycho::cuda::emulated::thread_place)
#define blockIdx (::tycho::cuda::emulated::block_place)
#define blockDim (::tycho::cuda::emulated::block_size)
#define gridDim (::tycho::cuda::emulated::grid_size)
#define TYCHO_KERNEL(name)                             \
  [[maybe_unused]] static const bool name##_is_known = \
      ::tycho::cuda::emulated::add_kernel(#name, ::tycho::cuda::emulated::binder(name));

inline uint32_t atomicCAS(uint32_t* at, uint32_t expected, uint32_t wanted) {
  const uint32_t before = *at;
  if (before == expected) *at = wanted;
  return before;
}
inline void __threadfence_system() {}
