// The hosts of kernels that read a row, fold it and write it again (kernels/along.cuh).
#pragma once
#include "engine/cuda/kernels/along.cuh"
#include "engine/cuda/ops/rowmajor.h"

namespace tycho::cuda {

inline Along along(const Cut& cut) {
  constexpr int64_t kWarp = 1024;
  Along a{};
  a.rows = cut.rows();
  a.n = cut.n;
  a.inner = cut.inner;
  a.way = cut.inner > 1 ? AlongWay::Columns : cut.n <= kWarp ? AlongWay::Warps : AlongWay::Blocks;
  return a;
}

inline void launch_along(Device device, KernelRef kernel, const Along& a) {
  constexpr int64_t kRows[] = {8, 1, 32};
  if (a.rows == 0 || a.n == 0) return;
  launch(device, kernel, {blocks_for(a.rows, kRows[static_cast<int>(a.way)])}, {32, 8}, 0, a);
}

}  // namespace tycho::cuda
