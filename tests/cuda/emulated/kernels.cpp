// The kernels that were compiled for the CPU, by name, and running a grid of them.
#include <map>

#include "tests/cuda/emulated/cuda_on_cpu.h"

namespace tycho::cuda::emulated {
namespace {

std::map<std::string, Binder>& kernels() {
  static auto* all = new std::map<std::string, Binder>;
  return *all;
}

}  // namespace

bool add_kernel(const char* name, Binder bind) {
  return kernels().emplace(name, std::move(bind)).second;
}

const Binder* kernel_named(const std::string& name) {
  const auto it = kernels().find(name);
  return it == kernels().end() ? nullptr : &it->second;
}

void run_grid(const Thread& thread, Dim grid, Dim block, size_t) {
  grid_size = grid;
  block_size = block;
  for (unsigned z = 0; z < grid.z; ++z)
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x) {
        block_place = {x, y, z};
        for (unsigned k = 0; k < block.x * block.y * block.z; ++k) {
          thread_place = {k % block.x, k / block.x % block.y, k / block.x / block.y};
          thread();
        }
      }
}

}  // namespace tycho::cuda::emulated
