// Sums that threads took apart, added up.
#pragma once
#include "engine/base/parallel.h"
#include "engine/cpu/conv/conv.h"

namespace tycho::cpu {

template <class T>
void add_up(T* to, const T* from, int64_t n) {
  parallel_for(n, 1 << 16, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) to[i] += from[i];
  });
}
inline void add_up(const Convolution& c, void* to, const void* from, int64_t n) {
  if (c.dtype == DType::Float32)
    add_up(static_cast<float*>(to), static_cast<const float*>(from), n);
  else if (c.dtype == DType::Float64)
    add_up(static_cast<double*>(to), static_cast<const double*>(from), n);
  else
    add_up(static_cast<uint64_t*>(to), static_cast<const uint64_t*>(from), n);
}

}  // namespace tycho::cpu
