// What the hosts of kernels share: results as row-major memory, whatever their layout, and tensors
// cut along a dimension.
#pragma once
#include "engine/cuda/launch.h"
#include "engine/ops/table/apply.h"

namespace tycho::cuda {

inline int32_t number_of(DType t) { return static_cast<int32_t>(t); }
inline int32_t number_of(const Tensor& t) { return number_of(t.dtype()); }

// The suffix of kernels that compute in float, or in double where a tensor is float64.
inline bool wants_double(const Tensor& a) { return a && a.dtype() == DType::Float64; }

// Of kernels that move elements of 1, 2, 4 and 8 bytes, the one for a type.
inline const char* by_size(const char* const (&names)[4], DType t) {
  const int bytes = dtype_size(t);
  return names[bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3];
}

// A result whose memory kernels take as row-major: another one stands in for it until `finish`.
class Written {
 public:
  explicit Written(const Tensor& to)
      : to_(to), memory_(to.contiguous() ? to : empty(to.shape(), to.dtype(), to.device())) {}
  template <class T = void>
  T* data() const {
    return memory_.data<T>();
  }
  void finish() const {
    if (memory_.get() != to_.get()) copy_raw(to_, memory_);
  }

 private:
  Tensor to_, memory_;
};

// A row-major tensor as outer x n x inner elements, n along dimension `dim`.
struct Cut {
  int64_t outer = 1, n = 1, inner = 1;
  Cut(const Sizes& shape, int64_t dim) {
    if (shape.n == 0) return;
    const int d = wrap_dim(dim, shape.n);
    for (int k = 0; k < d; ++k) outer *= shape[k];
    n = shape[d];
    for (int k = d + 1; k < shape.n; ++k) inner *= shape[k];
  }
  int64_t rows() const { return outer * inner; }
};

inline unsigned blocks_for(int64_t n, int64_t each) {
  return static_cast<unsigned>((n + each - 1) / each);
}

}  // namespace tycho::cuda
