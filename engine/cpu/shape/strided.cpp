// Kernels of reading and writing the places of one layout inside another (ops/shape/strided.cpp).
#include <cstring>

#include "engine/ops/shape/create.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

// For every element of the view (row-major order), calls f(its number, its number in the base).
template <class F>
void each_place(const Sizes& base_shape, const Sizes& base_stride, int64_t base_offset,
                const Sizes& size, const Sizes& stride, int64_t offset, F&& f) {
  if (product(base_shape) == 0) return;
  // Dimensions of the base by descending stride: a place divides into indices in that order.
  int order[kMaxDims], n = 0;
  for (int d = 0; d < base_shape.n; ++d)
    if (base_shape[d] > 1 && base_stride[d] > 0) order[n++] = d;
  for (int i = 1; i < n; ++i)
    for (int k = i; k > 0 && base_stride[order[k]] > base_stride[order[k - 1]]; --k)
      std::swap(order[k], order[k - 1]);
  const Sizes rows = row_major(base_shape);
  int64_t index[kMaxDims] = {}, place = offset - base_offset;
  const int64_t total = product(size);
  for (int64_t i = 0; i < total; ++i) {
    int64_t rest = place, number = 0;
    bool inside = rest >= 0;
    for (int k = 0; k < n; ++k) {
      const int64_t x = rest / base_stride[order[k]];
      inside = inside && x < base_shape[order[k]];
      rest -= x * base_stride[order[k]];
      number += x * rows[order[k]];
    }
    if (inside && rest == 0) f(i, number);
    for (int d = size.n - 1; d >= 0; --d) {
      place += stride[d];
      if (++index[d] < size[d]) break;
      place -= stride[d] * size[d];
      index[d] = 0;
    }
  }
}

}  // namespace

void strided_take(Call& c) {
  fill_raw(c.out[0], Value(int64_t{0}));
  const Tensor x = packed(c.tensor(0));
  const int bytes = dtype_size(x.dtype());
  each_place(x.shape(), c.ints(1), c.integer(2), c.ints(3), c.ints(4), c.integer(5),
             [&](int64_t i, int64_t k) {
               std::memcpy(c.out[0].data() + i * bytes, x.data() + k * bytes, bytes);
             });
}

void strided_add(Call& c) {
  Tensor src = empty(c.tensor(0).shape(), DType::Float64),
         sum = filled(c.ints(1), 0, DType::Float64);
  copy_raw(src, c.tensor(0));
  each_place(c.ints(1), c.ints(2), c.integer(3), src.shape(), c.ints(4), c.integer(5),
             [&](int64_t i, int64_t k) { sum.data<double>()[k] += src.data<double>()[i]; });
  copy_raw(c.out[0], sum);
}

void as_strided_scatter(Call& c) {
  const Tensor& out = c.out[0];
  copy_raw(out, c.tensor(0));
  Tensor src = empty(c.tensor(1).shape(), out.dtype(), out.device());
  copy_raw(src, c.tensor(1));
  const int bytes = dtype_size(out.dtype());
  each_place(out.shape(), c.ints(5), c.integer(6), c.ints(2), c.ints(3), c.integer(4),
             [&](int64_t i, int64_t k) {
               std::memcpy(out.data() + k * bytes, src.data() + i * bytes, bytes);
             });
}

BIND_KERNEL(Cpu, "strided_take", strided_take);
BIND_KERNEL(Cpu, "strided_add", strided_add);
BIND_KERNEL(Cpu, "as_strided_scatter", as_strided_scatter);

}  // namespace tycho::cpu
