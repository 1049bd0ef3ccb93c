// Numbers that follow from their positions: ranges, positions of padding and of resizing, triangles.
#include "engine/cuda/kernels/range.cuh"
#include "engine/cuda/kernels/walk.cuh"

using namespace tycho::cuda;

namespace {

__device__ inline int64_t clamped(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

__device__ inline double spaced(const Range& r, int64_t i) {
  return i < r.n / 2 || r.n == 1 ? r.a + r.step * static_cast<double>(i)
                                 : r.b - r.step * static_cast<double>(r.n - 1 - i);
}

__device__ inline int64_t padded_position(const Range& r, int64_t i) {
  const int64_t at = i - r.from, n = r.size;
  if (r.kind == RangeKind::Replicate) return clamped(at, n);
  if (r.kind == RangeKind::Reflect) return at < 0 ? -at : at >= n ? 2 * (n - 1) - at : at;
  return r.first + ((at - r.first) % r.by + r.by) % r.by;
}

__device__ inline int64_t whole(const Range& r, int64_t i) {
  switch (r.kind) {
    case RangeKind::Whole:
      return static_cast<int64_t>(uint64_t(r.from) + uint64_t(r.by) * uint64_t(i));
    case RangeKind::Nearest:
      return clamped(static_cast<int64_t>(floor((static_cast<double>(i) + r.a) * r.step)), r.size) +
             1;
    default:
      return padded_position(r, i) + 1;
  }
}

template <class S>
__device__ inline void triangle(const Triangle& t) {
  for (int64_t i = first_element(); i < t.numel; i += all_threads()) {
    const int64_t line = i / t.cols, off = i - line * t.cols - line % t.rows;
    const bool keeps = t.lower ? off <= t.diagonal : off >= t.diagonal;
    put<S>(t.out, i, keeps ? element<S>(t.in, i) : S(0));
  }
}

}  // namespace

extern "C" __global__ void range_whole(Range r) {
  for (int64_t i = first_element(); i < r.n; i += all_threads())
    store<int64_t>(r.out, r.dtype, i * r.stride, whole(r, i));
}
TYCHO_KERNEL(range_whole)

extern "C" __global__ void range_real(Range r) {
  for (int64_t i = first_element(); i < r.n; i += all_threads()) {
    const double x =
        r.kind == RangeKind::Step ? r.a + r.step * static_cast<double>(i) : spaced(r, i);
    store<double>(r.out, r.dtype, i * r.stride, r.kind == RangeKind::Power ? pow(r.base, x) : x);
  }
}
TYCHO_KERNEL(range_real)

#define TRIANGLE(size, S)                                                    \
  extern "C" __global__ void triangle_##size(Triangle t) { triangle<S>(t); } \
  TYCHO_KERNEL(triangle_##size)
TRIANGLE(1, uint8_t)
TRIANGLE(2, uint16_t)
TRIANGLE(4, uint32_t)
TRIANGLE(8, uint64_t)
