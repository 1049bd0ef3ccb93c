// Batches of matrices: what the hosts of factorisations share, by cuSOLVER and by kernels of our own.
#pragma once
#include <algorithm>
#include <vector>

#include "engine/cuda/launch.h"
#include "engine/cuda/solver.h"
#include "engine/ops/linear/linalg.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/backend.h"

namespace tycho::cuda {

template <class T>
Scratch elements(Device device, int64_t n) {
  return Scratch(device, sizeof(T) * static_cast<size_t>(std::max<int64_t>(n, 1)));
}

// Runs f(info) for all matrices, each with an info of its own; raises with the first that is not 0.
template <class F, class Message>
void all_matrices(Device device, int64_t count, F&& f, Message&& message) {
  std::vector<int> found(static_cast<size_t>(count));
  const Scratch info = elements<int>(device, count);
  f(info.as<int>());
  backend_of(device).read(device, found.data(), info.as<int>(), sizeof(int) * found.size());
  raise_first(found, message);
}
// Runs f(i, info) for every matrix.
template <class F, class Message>
void each_matrix(Device device, int64_t count, F&& f, Message&& message) {
  all_matrices(
      device, count,
      [&](int* info) {
        for (int64_t i = 0; i < count; ++i) f(i, info + i);
      },
      message);
}

// --- Matrices of few rows, a block of threads for each, all at once (small_matrices.cpp) ---

bool is_small(int64_t rows);
// Of row-major matrices that lie one after the other: P A = L U in place. `info` may be null.
void factor_small(const Tensor& a, const Tensor& pivots, int* info);
struct Triangle {
  bool upper, unit;
};
// B, as many rows as A has, becomes the solution of A X = B, or of A^T X = B. A is what factor_small
// left where there are pivots, else a triangle.
void substitute_small(const Tensor& a, const Tensor& pivots, const Tensor& b, bool transposed,
                      Triangle triangle = {});

}  // namespace tycho::cuda
