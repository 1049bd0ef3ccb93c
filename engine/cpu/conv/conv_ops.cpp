// The convolution ops on the CPU: tensors of any layout and type brought into channels-last memory
// of a type that conv.h computes in.
#include <algorithm>

#include "engine/base/parallel.h"
#include "engine/cpu/conv/conv.h"
#include "engine/cpu/conv/conv_few.h"
#include "engine/cpu/elementwise/transpose.h"
#include "engine/cpu/library/onednn.h"
#include "engine/ops/nn/conv.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

DType computed_in(DType t) {
  if (t == DType::Float32 || t == DType::Float64) return t;
  return is_floating(t) ? DType::Float32 : DType::Int64;
}

// One layout into the other: every image is a matrix of channels by pixels, transposed.
void transpose_images(const Tensor& from, const Tensor& to, bool to_last) {
  const int64_t images = from.size(0), channels = from.size(1);
  const int64_t pixels = from.numel() / (images * channels), each = channels * pixels;
  const int size = dtype_size(from.dtype());
  parallel_for(images, std::max<int64_t>(1, (1 << 16) / each), [&](int64_t begin, int64_t end) {
    level_of::transpose(size, end - begin, to_last ? channels : pixels, to_last ? pixels : channels,
                        static_cast<const void*>(from.data() + begin * each * size),
                        static_cast<void*>(to.data() + begin * each * size));
  });
}

Tensor channels_last(const Tensor& given, DType type) {
  if (given.dtype() == type && is_channels_last(given)) return given;
  Tensor to = empty_channels_last(given.shape(), type, given.device());
  Tensor t = given;
  if (t.contiguous() && t.dtype() != type && !is_channels_last(t)) {
    t = empty(t.shape(), type, t.device());
    copy_raw(t, given);
  }
  // A general copy turns tiles, where there are enough channels for them.
  if (t.contiguous() && t.dtype() == type && t.numel() && dtype_size(type) >= 4 && t.size(1) < 4)
    transpose_images(t, to, true);
  else
    copy_raw(to, t);
  return to;
}

// Window sizes from the input's and the result's shapes.
Convolution describe(const Call& c, DType type, const Sizes& x, const Sizes& kernel,
                     const Sizes& y) {
  Convolution v{};
  v.dtype = type;
  v.groups = c.integer(6);
  v.out_channels = y[1];
  Window& w = v.window;
  w.images = x[0];
  w.channels = x[1];
  const Sizes stride = c.ints(3), padding = c.ints(4), dilation = c.ints(5);
  const int spatial = x.n - 2;
  for (int d = 0; d < 3; ++d) {
    const int s = d - (3 - spatial);
    const bool there = s >= 0;
    w.in[d] = there ? x[s + 2] : 1;
    w.out[d] = there ? y[s + 2] : 1;
    w.kernel[d] = there ? kernel[s] : 1;
    w.stride[d] = there ? stride[s] : 1;
    w.pad[d] = there ? padding[s] : 0;
    w.dilation[d] = there ? dilation[s] : 1;
  }
  // Planes of volumes that the kernel does not join are images.
  if (w.kernel[0] == 1 && w.stride[0] == 1 && w.pad[0] == 0 && w.in[0] == w.out[0]) {
    w.images *= w.in[0];
    w.in[0] = w.out[0] = w.dilation[0] = 1;
  }
  return v;
}

Sizes kernel_of(const Tensor& w) { return Sizes(w->shape + 2, w.rank() - 2); }

// A weight (or its gradient's place) for oneDNN: its strides, leading kernel sizes 1.
PlainWeight plain(const Tensor& w) {
  PlainWeight p{w.dtype(), w.data(), {}};
  const int spatial = w.rank() - 2;
  p.stride[0] = w.stride(0), p.stride[1] = w.stride(1);
  for (int d = 0; d < 3; ++d) {
    const int s = d - (3 - spatial);
    p.stride[d + 2] = s < 0 ? 1 : w.stride(s + 2);
  }
  return p;
}
Tensor dense(const Tensor& w) { return is_channels_last(w) ? w : packed(w); }

// Multiply-adds below which packing a weight for oneDNN costs more than it gains.
constexpr double kSmallWork = 1e5;

double work_of(const Convolution& v) {
  double work = static_cast<double>(v.window.rows()) * static_cast<double>(v.out_channels);
  for (int64_t k : v.window.kernel) work *= static_cast<double>(k);
  return work * static_cast<double>(v.window.channels) / static_cast<double>(v.groups);
}

// Channels by themselves: oneDNN makes code for small kernels with short steps over planes. What it
// has besides was 4 to 12 times slower than conv.h's loops.
bool depthwise_by_ours(const Convolution& v, bool back) {
  const Window& w = v.window;
  if (v.groups == 1 || v.groups != w.channels || v.out_channels != w.channels) return false;
  if (w.bands() * w.kernel[2] > kDepthwiseTaps) return false;
  if (w.in[0] > 1) return true;
  if (w.channels < 8) return false;
  if (v.dtype == DType::BFloat16) return back && (w.kernel[1] != 3 || w.kernel[2] != 3);
  return std::max(w.stride[1], w.stride[2]) > 2 || w.kernel[1] * w.kernel[2] == 1;
}

// Where oneDNN fills its blocks badly and conv.h's products do not: it computes 16 channels of the
// input, and several pixels of a line of the result, at once.
bool product_by_ours(const Convolution& v, bool input_gradient) {
  constexpr int64_t kFewInputs = 5, kManyOutputs = 100, kSomeOutputs = 10;
  const Window& w = v.window;
  if (v.dtype != DType::Float32) return false;
  const int64_t in = w.channels / v.groups, out = v.out_channels / v.groups;
  if (v.groups == 1 && in <= kFewInputs && out >= kManyOutputs) return true;
  if (input_gradient && in < kFewInputs && out >= kSomeOutputs)
    return out >= kManyOutputs || !few_result_channels(v, true);
  bool narrow = v.groups == 1 && w.in[0] == 1 && w.kernel[0] == 1 && w.out[2] == 1;
  for (int d = 1; d < 3; ++d) narrow = narrow && w.in[d] >= (w.kernel[d] - 1) * w.dilation[d] + 1;
  return narrow && w.kernel[1] * w.kernel[2] > 1;
}

// Whether oneDNN, or the kernels of few channels, take it as it is: images stay in their type.
enum class Pass { Forward, Input, Weight };
bool by_onednn(const Call& c, const Sizes& x, const Sizes& kernel, const Sizes& y, Convolution* v,
               Pass pass) {
  const DType type = c.tensor(0).dtype();
  if (type != DType::Float32 && type != DType::BFloat16) return false;
  *v = describe(c, type, x, kernel, y);
  return work_of(*v) >= kSmallWork && !depthwise_by_ours(*v, pass != Pass::Forward) &&
         !product_by_ours(*v, pass == Pass::Input) && has_onednn_conv(*v);
}

}  // namespace

void convolution(Call& c) {
  const Tensor &x = c.tensor(0), &w = c.tensor(1), &bias = c.tensor(2), &out = c.out[0];
  if (out.numel() == 0) return;
  Convolution v;
  if (by_onednn(c, x.shape(), kernel_of(w), out.shape(), &v, Pass::Forward)) {
    const Tensor xl = channels_last(x, x.dtype()), wd = dense(w);
    const Tensor begin = bias ? packed(bias) : Tensor();
    if (few_result_channels(v, false))
      return conv_few_forward(v, xl.data<float>(), wd.data<float>(), plain(wd).stride,
                              bias ? begin.data<float>() : nullptr, out.data<float>());
    if (onednn_conv_forward(v, xl.data(), plain(wd), bias ? begin.data() : nullptr, out.data()))
      return;
  }
  const DType type = computed_in(x.dtype());
  v = describe(c, type, x.shape(), kernel_of(w), out.shape());
  const Tensor xl = channels_last(x, type), wl = channels_last(w, type);
  Tensor result = out.dtype() == type ? out : empty_channels_last(out.shape(), type, out.device());
  Tensor begin;
  if (bias) begin = packed(channels_last(op<"reshape">(bias, Sizes{1, bias.size(0)}), type));
  conv_forward(v, xl.data(), wl.data(), bias ? begin.data() : nullptr, result.data());
  if (out.dtype() != type) copy_raw(out, result);
}

void convolution_input(Call& c) {
  const Tensor &g = c.tensor(0), &w = c.tensor(1), &out = c.out[0];
  if (out.numel() == 0) return;
  Convolution v;
  if (by_onednn(c, out.shape(), kernel_of(w), g.shape(), &v, Pass::Input)) {
    const Tensor gl = channels_last(g, g.dtype()), wd = dense(w);
    if (few_result_channels(v, true))
      return conv_few_input(v, gl.data<float>(), wd.data<float>(), plain(wd).stride,
                            out.data<float>());
    if (onednn_conv_input(v, gl.data(), plain(wd), out.data())) return;
  }
  const DType type = computed_in(g.dtype());
  v = describe(c, type, out.shape(), kernel_of(w), g.shape());
  const Tensor gl = channels_last(g, type), wl = channels_last(w, type);
  Tensor result = out.dtype() == type ? out : empty_channels_last(out.shape(), type, out.device());
  conv_backward_input(v, gl.data(), wl.data(), result.data());
  if (out.dtype() != type) copy_raw(out, result);
}

void convolution_weight(Call& c) {
  const Tensor &g = c.tensor(0), &x = c.tensor(1), &out = c.out[0];
  if (out.numel() == 0) return;
  Convolution v;
  if (by_onednn(c, x.shape(), c.ints(2), g.shape(), &v, Pass::Weight)) {
    const Tensor gl = channels_last(g, g.dtype()), xl = channels_last(x, x.dtype());
    if (onednn_conv_weight(v, gl.data(), xl.data(), plain(out))) return;
  }
  const DType type = computed_in(g.dtype());
  v = describe(c, type, x.shape(), c.ints(2), g.shape());
  const Tensor gl = channels_last(g, type), xl = channels_last(x, type);
  const bool direct = out.dtype() == type && is_channels_last(out);
  Tensor result = direct ? out : empty_channels_last(out.shape(), type, out.device());
  conv_backward_weight(v, gl.data(), xl.data(), result.data());
  if (direct) return;
  if (out.dtype() == type)
    transpose_images(result, out, false);
  else
    copy_raw(out, result);
}

BIND_KERNEL(Cpu, "convolution", convolution);
BIND_KERNEL(Cpu, "convolution_input", convolution_input);
BIND_KERNEL(Cpu, "convolution_weight", convolution_weight);

}  // namespace tycho::cpu
