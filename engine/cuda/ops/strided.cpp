// Reading and writing the places of one layout inside another on a device (ops/shape/strided.cpp says
// what they are), by operations on tables of places; what windows share is added window by window.
#include <algorithm>

#include "engine/cuda/ops/rowmajor.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cuda {
namespace {

// For every element of a layout its number in the row-major base, and whether the base has it.
struct Places {
  Tensor number, inside;
};
Places places_of(const Sizes& base_shape, const Sizes& base_stride, int64_t base_offset,
                 const Sizes& size, const Sizes& stride, int64_t offset, Device device) {
  Tensor rest = filled(size, static_cast<double>(offset - base_offset), DType::Int64, device);
  for (int d = 0; d < size.n; ++d) {
    Sizes line;
    for (int k = 0; k < size.n; ++k) line.push_back(k == d ? size[d] : 1);
    rest = rest + op<"reshape">(op<"arange">(size[d], DType::Int64, device), line) * stride[d];
  }
  Places p{filled(size, 0, DType::Int64, device), fn::ge(rest, 0)};
  // Dimensions of the base by descending stride: a place divides into indices in that order.
  Sizes order;
  for (int d = 0; d < base_shape.n; ++d)
    if (base_shape[d] > 1 && base_stride[d] > 0) order.push_back(d);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return base_stride[static_cast<int>(a)] > base_stride[static_cast<int>(b)];
  });
  const Sizes rows = row_major(base_shape);
  for (const int64_t k : order) {
    const int d = static_cast<int>(k);
    const Tensor index = op<"div.mode">(rest, base_stride[d], "floor");
    p.inside = op<"logical_and">(p.inside, fn::lt(index, base_shape[d]));
    rest = rest - index * base_stride[d];
    p.number = p.number + index * rows[d];
  }
  p.inside = op<"logical_and">(p.inside, fn::eq(rest, 0));
  return p;
}
Tensor line(const Tensor& t) { return op<"reshape">(t, Sizes{-1}); }

void strided_take(Call& c) {
  const Tensor &x = c.tensor(0), &out = c.out[0];
  if (out.numel() == 0) return;
  if (x.numel() == 0) return fill_raw(out, Value(int64_t{0}));
  const Places p = places_of(x.shape(), c.ints(1), c.integer(2), c.ints(3), c.ints(4), c.integer(5),
                             out.device());
  const Tensor at = op<"where">(p.inside, p.number + 1, 1);
  const Tensor taken = op<"index_select">(line(x), 0, line(at));
  copy_raw(out,
           op<"masked_fill">(op<"reshape">(taken, out.shape()), op<"logical_not">(p.inside), 0));
}

// A dimension without which no two elements share a place; -1: there is none that is short.
int shared_dimension(const Sizes& size, const Sizes& stride) {
  constexpr int64_t kShort = 64;
  for (int left_out = 0; left_out < size.n; ++left_out) {
    if (size[left_out] > kShort) continue;
    Sizes order;
    for (int d = 0; d < size.n; ++d)
      if (d != left_out && size[d] > 1) order.push_back(d);
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return stride[static_cast<int>(a)] < stride[static_cast<int>(b)];
    });
    int64_t last = 0;
    bool apart = true;
    for (const int64_t k : order) {
      const int d = static_cast<int>(k);
      apart = apart && stride[d] > last;
      last += (size[d] - 1) * stride[d];
    }
    if (apart) return left_out;
  }
  return -1;
}

void strided_add(Call& c) {
  const Tensor &src = c.tensor(0), &out = c.out[0];
  const Sizes shape = c.ints(1), stride = c.ints(4), size = src.shape();
  const DType type = out.dtype() == DType::Float16 || out.dtype() == DType::BFloat16
                         ? DType::Float32
                         : out.dtype();
  const Tensor sum = filled(shape, 0, type, out.device());
  if (src.numel() == 0 || sum.numel() == 0) return copy_raw(out, sum);
  const int64_t from = c.integer(5) - c.integer(3);
  int64_t farthest = from;
  for (int d = 0; d < size.n; ++d) farthest += (size[d] - 1) * stride[d];
  const bool dense = c.ints(2) == row_major(shape) && from >= 0 && farthest < sum.numel();
  const int shared = dense ? shared_dimension(size, stride) : -1;
  if (shared >= 0) {
    Sizes inner_size = size, inner_stride = stride;
    inner_size.erase(shared);
    inner_stride.erase(shared);
    for (int64_t k = 0; k < size[shared]; ++k)
      op_<"add">(alias(sum, inner_size, inner_stride, from + k * stride[shared]),
                 op<"select">(src, shared, k));
    return copy_raw(out, sum);
  }
  const Places p =
      places_of(shape, c.ints(2), c.integer(3), size, stride, c.integer(5), out.device());
  const Tensor kept = op<"where">(p.inside, op<"to.dtype">(src, type), 0);
  const Tensor at = op<"where">(p.inside, p.number + 1, 1);
  const Tensor added = op<"index_add">(line(sum), 0, line(at), line(kept));
  copy_raw(out, op<"reshape">(added, shape));
}

// What the base has no place for goes to one behind its end.
void as_strided_scatter(Call& c) {
  const Tensor& out = c.out[0];
  const Tensor src = op<"to.dtype">(c.tensor(1), out.dtype());
  if (src.numel() == 0 || out.numel() == 0) return copy_raw(out, c.tensor(0));
  const Places p = places_of(out.shape(), c.ints(5), c.integer(6), c.ints(2), c.ints(3),
                             c.integer(4), out.device());
  const int64_t n = out.numel();
  const Tensor all = empty(Sizes{n + 1}, out.dtype(), out.device());
  const Tensor whole = op<"narrow">(all, 0, 0, n);
  copy_raw(op<"view">(whole, out.shape()), c.tensor(0));
  const Tensor at = op<"where">(p.inside, p.number + 1, n + 1);
  op_<"scatter">(all, 0, line(at), line(src));
  copy_raw(out, op<"view">(whole, out.shape()));
}

BIND_KERNEL(Cuda, "strided_take", strided_take);
BIND_KERNEL(Cuda, "strided_add", strided_add);
BIND_KERNEL(Cuda, "as_strided_scatter", as_strided_scatter);

}  // namespace
}  // namespace tycho::cuda
