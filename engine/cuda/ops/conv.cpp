// The convolution ops on a device: tensors of any layout are brought to channels last, the three products
// are conv.h's, and a bias is added by the library, or else by its row.
#include "engine/cuda/conv.h"

#include "engine/ops/nn/conv.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"
#include "engine/tensor/backend.h"

namespace tycho::cuda {
namespace {

Tensor channels_last(const Tensor& t, DType type) {
  if (t.dtype() == type && is_channels_last(t)) return t;
  const Tensor to = empty_channels_last(t.shape(), type, t.device());
  copy_raw(to, t);
  return to;
}

Tensor as_row(const Tensor& t, DType type) {
  if (t.dtype() == type && t.contiguous()) return t;
  const Tensor to = empty(t.shape(), type, t.device());
  copy_raw(to, t);
  return to;
}

// Every call's stride, padding, dilation and groups stand in the same places.
ConvShape shape_of(const Call& c, const Tensor& x, const Tensor& w, const Tensor& y) {
  const Sizes stride = c.ints(3), padding = c.ints(4), dilation = c.ints(5);
  ConvShape s{};
  s.images = x.size(0);
  s.groups = c.integer(6);
  s.in = w.size(1);
  s.out = y.size(1) / s.groups;
  const int spatial = x.rank() - 2;
  for (int d = 0; d < 3; ++d) {
    const int k = d - (3 - spatial);
    s.axis[d] = k < 0 ? ConvAxis{1, 1, 1, 1, 1, 0, 0}
                      : ConvAxis{x.size(k + 2), y.size(k + 2), w.size(k + 2),       stride[k],
                                 dilation[k],   padding[k],    padding[spatial + k]};
  }
  return s;
}

// Where `bias` is given and the library adds it, true.
bool convolve(ConvKind kind, const Call& c, const Tensor& x, const Tensor& w, const Tensor& y,
              const Tensor& bias = {}) {
  const Tensor& made = c.out[0];
  if (made.numel() == 0) return false;
  if (x.numel() == 0 || w.numel() == 0 || y.numel() == 0) {
    const int64_t zero = 0;
    backend_of(made.device()).fill(made, &zero);
    return false;
  }
  const DType type = made.dtype();
  const auto side = [&](const Tensor& t) {
    if (t.get() != made.get()) return channels_last(t, type);
    return is_channels_last(t) ? t : empty_channels_last(t.shape(), type, t.device());
  };
  const Tensor xs = side(x), ws = side(w), ys = side(y);
  const ConvShape shape = shape_of(c, x, w, y);
  // A bias in the convolution's own pass is added before anything is rounded. The library has no such
  // way for float64.
  const Tensor own = bias && type != DType::Float64 ? as_row(bias, type) : Tensor();
  const bool added = own && convolve_by_library(kind, shape, xs, ws, ys, own);
  if (!added && !convolve_by_library(kind, shape, xs, ws, ys))
    convolve_by_products(kind, shape, xs, ws, ys);
  const Tensor& result = kind == ConvKind::Forward ? ys : kind == ConvKind::Input ? xs : ws;
  if (result.get() != made.get()) copy_raw(made, result);
  return added;
}

void convolution(Call& c) {
  const Tensor &y = c.out[0], &bias = c.tensor(2);
  if (convolve(ConvKind::Forward, c, c.tensor(0), c.tensor(1), y, bias)) return;
  if (!bias || y.numel() == 0) return;
  Sizes shape{bias.size(0)};
  for (int d = 2; d < y.rank(); ++d) shape.push_back(1);
  op_<"add">(y, op<"reshape">(bias, shape));
}

void convolution_input(Call& c) {
  convolve(ConvKind::Input, c, c.out[0], c.tensor(1), c.tensor(0));
}

void convolution_weight(Call& c) {
  convolve(ConvKind::Weight, c, c.tensor(1), c.out[0], c.tensor(0));
}

BIND_KERNEL(Cuda, "convolution", convolution);
BIND_KERNEL(Cuda, "convolution_input", convolution_input);
BIND_KERNEL(Cuda, "convolution_weight", convolution_weight);

}  // namespace
}  // namespace tycho::cuda
