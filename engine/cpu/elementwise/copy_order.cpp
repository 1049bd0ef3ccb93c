// Copies across a source whose nearest elements have gaps, by way of its own order.
#include "engine/cpu/elementwise/copy_order.h"

#include <algorithm>
#include <cstdlib>

#include "engine/cpu/elementwise/run.h"
#include "engine/cpu/part_of.h"

namespace tycho::cpu {

bool crosses_steps(const Walk& w, int64_t source_bytes) {
  constexpr int64_t kLine = 64, kFew = 4, kEnough = 1 << 14;
  const int last = w.rank - 1;
  const int64_t far = std::abs(w.stride[1][last]) * source_bytes;
  if (w.numel < kEnough || w.inner() < 2 || far < kLine) return false;
  int64_t nearest = far;
  for (int d = 0; d < last; ++d) {
    const int64_t step = std::abs(w.stride[1][d]);
    if (step == 1) return false;  // no gaps: also what has been laid out
    if (w.size[d] >= kFew && step != 0) nearest = std::min(nearest, step * source_bytes);
  }
  return 2 * nearest <= kLine;
}

namespace {

// A tensor like it without gaps, in the order in which its elements lie.
Tensor near_like(const Tensor& t) {
  int order[kMaxDims];
  for (int d = 0; d < t.rank(); ++d) order[d] = d;
  std::stable_sort(order, order + t.rank(),
                   [&](int a, int b) { return std::abs(t.stride(a)) > std::abs(t.stride(b)); });
  Sizes strides = t.shape();
  int64_t step = 1;
  for (int d = t.rank() - 1; d >= 0; --d) strides[order[d]] = step, step *= t.size(order[d]);
  return empty_strided(t.shape(), strides, t.dtype(), Device{});
}

}  // namespace

void copy_in_order(const Tensor& to, const Tensor& from) {
  constexpr int64_t kNear = 1 << 20;  // bytes of a part
  const int64_t bytes = from.numel() * dtype_size(from.dtype());
  int outer = -1, dims = 0;
  for (int d = 0; d < to.rank(); ++d)
    if (to.size(d) > 1) {
      ++dims;
      if (outer < 0 || std::abs(to.stride(d)) > std::abs(to.stride(outer))) outer = d;
    }
  if (bytes <= kNear || dims < 2) {
    const Tensor near = near_like(from);
    copy(near, from);
    return copy(to, near);
  }
  // Of two dimensions only, a part is as small as it gets.
  const int64_t size = to.size(outer), each = std::max<int64_t>(1, kNear * size / bytes);
  for (int64_t i = 0; i < size; i += each) {
    const int64_t n = std::min(each, size - i);
    const Tensor some = part_of(to, outer, i, i + n), of = part_of(from, outer, i, i + n);
    if (n == 1 && dims > 2) {
      copy_in_order(some, of);
      continue;
    }
    const Tensor near = near_like(of);
    copy(near, of);
    copy(some, near);
  }
}

}  // namespace tycho::cpu
