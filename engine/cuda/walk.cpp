// Making walks: dimensions of size 1 dropped, neighbours merged.
#include "engine/cuda/walk.h"

namespace tycho::cuda {

Operands walk_of(const Impl* const* tensors, int count) {
  Operands w{};
  const Impl* shape = tensors[0];
  w.numel = shape->numel;
  w.count = count;
  for (int k = 0; k < count; ++k)
    if (tensors[k]) {
      w.data[k] = tensors[k]->data();
      w.dtype[k] = static_cast<int32_t>(tensors[k]->dtype);
    }
  for (int d = 0; d < shape->rank; ++d) {
    const int64_t size = shape->shape[d];
    if (size == 1) continue;
    int64_t step[5] = {};
    for (int k = 0; k < count; ++k) {
      if (!tensors[k]) continue;
      const int at = d - (shape->rank - tensors[k]->rank);
      step[k] = at < 0 || tensors[k]->shape[at] == 1 ? 0 : tensors[k]->stride[at];
    }
    bool merge = w.rank > 0;
    for (int k = 0; merge && k < count; ++k) merge = w.stride[k][w.rank - 1] == step[k] * size;
    if (merge)
      w.size[w.rank - 1] *= size;
    else
      w.size[w.rank++] = size;
    for (int k = 0; k < count; ++k) w.stride[k][w.rank - 1] = step[k];
  }
  if (w.rank <= 1) w.rank = 0;  // stride[k][0] is all there is
  return w;
}

}  // namespace tycho::cuda
