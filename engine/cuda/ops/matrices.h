// Batches of matrices for cuSOLVER: what the hosts of its factorisations share.
#pragma once
#include <algorithm>
#include <vector>

#include "engine/cuda/launch.h"
#include "engine/cuda/solver.h"
#include "engine/ops/linear/linalg.h"
#include "engine/ops/table/apply.h"
#include "engine/tensor/backend.h"

namespace tycho::cuda {

template <class F>
void by_type(const Tensor& t, F&& f) {
  if (t.dtype() == DType::Float32)
    f(float{});
  else
    f(double{});
}

inline int64_t batch_count(const Tensor& t) { return product(batch_of(t)); }

// A row-major copy that may be written to.
inline Tensor copied(const Tensor& t) {
  const Tensor out = empty(t.shape(), t.dtype(), t.device());
  copy_raw(out, t);
  return out;
}

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
  for (int64_t i = 0; i < count; ++i)
    if (const int code = found[static_cast<size_t>(i)]) {
      std::string text = message(code);
      if (count > 1) text += format(" (matrix %lld of the batch)", static_cast<long long>(i + 1));
      fail(Kind::Linalg, text);
    }
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

}  // namespace tycho::cuda
