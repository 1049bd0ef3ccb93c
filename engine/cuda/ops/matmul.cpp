// matmul, linear and dot on a device: stacks of matrices for cuBLASLt, integers for a kernel.
#include "engine/cuda/kernels/matmul.cuh"

#include <algorithm>
#include <memory>

#include "engine/cuda/blas.h"
#include "engine/cuda/ops/rowmajor.h"
#include "engine/ops/elementwise/row_program.h"
#include "engine/ops/table/kernel.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/defer.h"

namespace tycho::cuda {
namespace {

Tensor as_type(const Tensor& t, DType type) {
  if (t.dtype() == type) return t;
  const Tensor y = empty(t.shape(), type, t.device());
  copy_raw(y, t);
  return y;
}

// The last two dimensions and the batch in front; a vector is a matrix of one row or column.
Tensor as_stack(const Tensor& t, bool vector_is_row) {
  if (t.rank() != 1) return t;
  const int64_t n = t.size(0), step = t.stride(0);
  return vector_is_row ? alias(t, {1, n}, {n * step, step}, t->offset)
                       : alias(t, {n, 1}, {step, 1}, t->offset);
}

Tensor transposed(const Tensor& t) {
  Sizes shape = t.shape(), stride = t.strides();
  std::swap(shape[shape.n - 1], shape[shape.n - 2]);
  std::swap(stride[shape.n - 1], stride[shape.n - 2]);
  return alias(t, shape, stride, t->offset);
}

// Whether dimensions [0, end) walk memory in even steps, in the shape `batch`; the step then.
bool even_steps(const Tensor& t, const Sizes& batch, int64_t* step) {
  const int lead = batch.n - (t.rank() - 2);
  int64_t expected = 0;
  bool first = true;
  for (int d = batch.n - 1; d >= 0; --d) {
    if (batch[d] == 1) continue;
    const int64_t own = d < lead || t.size(d - lead) == 1 ? 0 : t.stride(d - lead);
    if (first)
      *step = own;
    else if (own != expected)
      return false;
    first = false;
    expected = own * batch[d];
  }
  if (first) *step = 0;
  return true;
}

Tensor expanded(const Tensor& t, const Sizes& batch) {  // a row-major copy with that batch
  Sizes shape = batch, stride;
  const int lead = batch.n - (t.rank() - 2);
  for (int d = 0; d < batch.n; ++d)
    stride.push_back(d < lead || t.size(d - lead) == 1 ? 0 : t.stride(d - lead));
  for (int d = t.rank() - 2; d < t.rank(); ++d) {
    shape.push_back(t.size(d));
    stride.push_back(t.stride(d));
  }
  const Tensor y = empty(shape, t.dtype(), t.device());
  copy_raw(y, alias(t, shape, stride, t->offset));
  return y;
}

// One side of the product; `hold` keeps its memory.
Matrix matrix_of(Tensor t, const Sizes& batch, Tensor* hold) {
  Matrix m{};
  for (int round = 0;; ++round) {
    const int64_t rows = t.size(-2), cols = t.size(-1), row = t.stride(-2), col = t.stride(-1);
    const bool by_rows = (cols == 1 || col == 1) && (rows == 1 || row >= cols);
    const bool by_columns = (rows == 1 || row == 1) && (cols == 1 || col >= rows);
    if ((by_rows || by_columns) && even_steps(t, batch, &m.step)) {
      m.by_columns = !by_rows;
      m.ld = by_rows ? (rows == 1 ? cols : row) : (cols == 1 ? rows : col);
      break;
    }
    TYCHO_CHECK(Kind::Device, round == 0, "matmul: a row-major copy is not row-major");
    t = expanded(t, batch);
  }
  m.data = t.data<void>();
  *hold = t;
  return m;
}

void multiply_integers(const Tensor& a, const Tensor& b, const Sizes& batch, const Tensor& out) {
  const Tensor x = expanded(a, batch), y = expanded(b, batch);
  IntegerProduct p{};
  p.a = x.data<int64_t>();
  p.b = y.data<int64_t>();
  p.out = out.data<int64_t>();
  p.m = a.size(-2), p.k = a.size(-1), p.n = b.size(-1);
  p.batch = product(batch);
  p.a_step = p.m * p.k;
  p.b_step = p.k * p.n;
  constexpr int64_t kMost = 65535;
  TYCHO_CHECK(Kind::Shape, p.n <= 16 * kMost,
              "matmul: an integer matrix of %lld columns is too wide", static_cast<long long>(p.n));
  launch(
      out.device(), {"matmul", "matmul_i64"},
      {blocks_for(p.m, 16), blocks_for(p.n, 16), static_cast<unsigned>(std::min(p.batch, kMost))},
      {16, 16}, 0, p);
}

// A product that waits for the row that follows it, which the library may compute in the same pass.
struct HeldProduct final : RowStart {
  Device device;
  Multiplication p;
  Tensor a, b, bias;  // what it reads stays

  void run() override { multiply(device, p); }
  bool run_with(int row, const void* other, bool values, void* to) override {
    using Then = Multiplication::Then;
    Multiplication q = p;
    q.out = to;
    // The library's gelu is the one with tanh, computed in fewer digits than float32 has.
    const bool gelu = p.type != DType::Float32 && p.n % 8 == 0;
    switch (static_cast<Row>(row)) {
      case Row::relu:
        if (values || !relu_keeps_nan(device, p.type)) return false;
        q.then = Then::Relu;
        break;
      case Row::gelu_tanh:
        if (!gelu) return false;
        q.then = Then::Gelu;
        q.aux = values ? p.out : nullptr;
        break;
      case Row::gelu_tanh_grad:
        if (!gelu || values || p.bias) return false;
        q.then = Then::GeluSlope;
        q.aux = const_cast<void*>(other);
        break;
      default:
        return false;
    }
    return (!q.aux || alignment(q.aux) >= 16) && multiply(device, q);
  }
};

// out = a b (+ bias), all of type `type`; `out` is row-major and of the product's shape. `may_wait`: it
// is a call's result.
void product_into(const Tensor& out, Tensor a, Tensor b, const Tensor& bias, bool may_wait) {
  Sizes batch = broadcast(Sizes(a.shape().v, a.rank() - 2), Sizes(b.shape().v, b.rank() - 2));
  // Rows of many matrices times one matrix are one long matrix.
  Tensor wide = a;
  if (product(Sizes(b.shape().v, b.rank() - 2)) == 1 && a.rank() > 2) {
    wide = packed(a);
    a = alias(wide, {wide.numel() / std::max<int64_t>(1, wide.size(-1)), wide.size(-1)},
              {wide.size(-1), 1}, wide->offset);
    b = alias(b, {b.size(-2), b.size(-1)}, {b.stride(-2), b.stride(-1)}, b->offset);
    batch = Sizes();
  }
  if (!is_floating(out.dtype())) {
    multiply_integers(a, b, batch, out);
    if (bias) op_<"add">(out, bias);
    return;
  }
  Multiplication p{};
  p.type = out.dtype();
  p.precision = matmul_precision.load(std::memory_order_relaxed);
  p.batch = product(batch);
  p.m = a.size(-2), p.k = a.size(-1), p.n = b.size(-1);
  p.out = out.data<void>();
  const Tensor begin = bias ? packed(bias) : Tensor();
  if (bias && p.type == DType::Float64) {  // the library adds no bias of this type
    const Sizes rows{out.numel() / p.n, p.n};
    copy_raw(alias(out, rows, {p.n, 1}, out->offset), alias(begin, rows, {0, 1}, begin->offset));
    p.add = true;
  } else if (bias) {
    p.bias = begin.data<void>();
  }
  Tensor hold_a, hold_b;
  p.a = matrix_of(a, batch, &hold_a);
  p.b = matrix_of(b, batch, &hold_b);
  if (may_wait && p.batch == 1 && !p.add && p.type != DType::Float64) {
    auto held = std::make_unique<HeldProduct>();
    held->device = out.device();
    held->p = p;
    held->a = hold_a, held->b = hold_b, held->bias = begin;
    std::unique_ptr<RowStart> start = std::move(held);
    if (deferral->start(start, out)) return;
  }
  multiply(out.device(), p);
}

void multiply_call(Call& c, const Tensor& x, const Tensor& y, const Tensor& bias) {
  const Tensor& out = c.out[0];
  const bool may_wait = deferral && rows_may_end;  // other kernels are called below
  if (out.numel() == 0) return;
  const DType type = is_floating(out.dtype()) ? out.dtype() : DType::Int64;
  const Tensor result =
      out.dtype() == type && out.contiguous() ? out : empty(out.shape(), type, out.device());
  if (x.size(-1) == 0) {
    const int64_t zero = 0;
    backend_of(out.device()).fill(result, &zero);
    if (bias) op_<"add">(result, bias);
  } else {
    product_into(result, as_type(x, type), as_type(y, type), bias ? as_type(bias, type) : bias,
                 may_wait && result.get() == out.get());
  }
  if (result.get() != out.get()) copy_raw(out, result);
}

void matmul(Call& c) {
  multiply_call(c, as_stack(c.tensor(0), true), as_stack(c.tensor(1), false), Tensor());
}

void linear(Call& c) {
  multiply_call(c, as_stack(c.tensor(0), true), transposed(as_stack(c.tensor(1), true)),
                c.tensor(2));
}

// The weight's gradient, and the sums of the same columns in its pass.
void linear_backward(Call& c) {
  const Tensor g = packed(c.tensor(0)), x = packed(c.tensor(1));
  const Tensor &gw = c.out[0], &gb = c.out[1];
  Multiplication p{};
  p.type = gw.dtype();
  p.precision = matmul_precision.load(std::memory_order_relaxed);
  p.batch = 1, p.m = g.size(1), p.k = g.size(0), p.n = x.size(1);
  p.a = {g.data<void>(), true, p.m, 0};
  p.b = {x.data<void>(), false, p.n, 0};
  p.out = gw.data<void>();
  p.then = Multiplication::Then::Sums;
  p.sums = gb.data<void>();
  if (p.type != DType::Float64 && is_floating(p.type) && p.m && p.n && p.k &&
      multiply(c.out[0].device(), p))
    return;
  copy_raw(gw, op<"matmul">(op<"t">(g), x));
  copy_raw(gb, op<"sum">(g, Sizes{0}));
}

void dot(Call& c) {
  const DType type = !is_floating(c.out[0].dtype())       ? DType::Int64
                     : c.out[0].dtype() == DType::Float64 ? DType::Float64
                                                          : DType::Float32;
  copy_raw(c.out[0], op<"sum">(op<"mul">(as_type(c.tensor(0), type), as_type(c.tensor(1), type))));
}

BIND_KERNEL(Cuda, "matmul", matmul);
BIND_KERNEL(Cuda, "mm", matmul);
BIND_KERNEL(Cuda, "bmm", matmul);
BIND_KERNEL(Cuda, "mv", matmul);
BIND_KERNEL(Cuda, "dot", dot);
BIND_KERNEL(Cuda, "vdot", dot);
BIND_KERNEL(Cuda, "linear", linear);
BIND_KERNEL(Cuda, "linear_backward", linear_backward);

}  // namespace
}  // namespace tycho::cuda
