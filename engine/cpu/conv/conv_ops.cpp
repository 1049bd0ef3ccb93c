// The convolution ops on the CPU: tensors of any layout and type brought into channels-last memory
// of a type that conv.h computes in.
#include <algorithm>

#include "engine/base/parallel.h"
#include "engine/cpu/conv/conv.h"
#include "engine/cpu/conv/conv_direct.h"
#include "engine/cpu/conv/conv_few.h"
#include "engine/cpu/conv/conv_images.h"
#include "engine/cpu/conv/conv_pack.h"
#include "engine/cpu/conv/conv_planes.h"
#include "engine/cpu/conv/conv_point.h"
#include "engine/cpu/conv/conv_seen.h"
#include "engine/cpu/conv/conv_thin.h"
#include "engine/cpu/conv/conv_tiles.h"
#include "engine/cpu/conv/conv_turn.h"
#include "engine/cpu/library/onednn.h"
#include "engine/ops/nn/conv.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cpu {
namespace {

DType computed_in(DType t) {
  if (t == DType::Float32 || t == DType::Float64) return t;
  return is_floating(t) ? DType::Float32 : DType::Int64;
}

// Window sizes from the input's and the result's shapes.
Convolution describe(const Call& c, const Seen& seen, DType type, const Sizes& x,
                     const Sizes& kernel, const Sizes& y) {
  Convolution v{};
  v.dtype = type;
  v.groups = c.integer(6);
  v.out_channels = y[1];
  Window& w = v.window;
  w.images = x[0];
  w.channels = x[1];
  for (int d = 0; d < 3; ++d) {
    const int s = d - (3 - kernel.n) - seen.idle;
    const bool there = s >= 0;
    w.in[d] = there ? x[s + 2] : 1;
    w.out[d] = there ? y[s + 2] : 1;
    w.kernel[d] = there ? kernel[s] : 1;
    w.stride[d] = there ? seen.stride[s] : 1;
    w.pad[d] = there ? seen.padding[s] : 0;
    w.dilation[d] = there ? seen.dilation[s] : 1;
  }
  // Planes of volumes that the kernel does not join are images.
  if (w.kernel[0] == 1 && w.stride[0] == 1 && w.pad[0] == 0 && w.in[0] == w.out[0]) {
    w.images *= w.in[0];
    w.in[0] = w.out[0] = w.dilation[0] = 1;
  }
  return v;
}

// A weight (or its gradient's place) for oneDNN: its strides, leading kernel sizes 1.
PlainWeight plain(const Tensor& w, const Seen& seen) {
  PlainWeight p{w.dtype(), w.data(), {}};
  const int spatial = w.rank() - 2;
  p.stride[0] = w.stride(0), p.stride[1] = w.stride(1);
  for (int d = 0; d < 3; ++d) {
    const int s = d - (3 - spatial) - seen.idle;
    p.stride[d + 2] = s < 0 ? 1 : w.stride(s + 2);
  }
  return p;
}
// Dense, with channels last or first; with `reorders`, taps may lie in any order.
Tensor dense(const Tensor& w, bool reorders) {
  int64_t last = 0;  // of the taps
  for (int d = 2; d < w.rank(); ++d) last += (w.size(d) - 1) * w.stride(d);
  const int64_t taps = product(kernel_of(w));
  const bool reordered = reorders && taps <= ConvPack::kMostTaps && last == taps - 1 &&
                         w.stride(1) == taps && w.stride(0) == taps * w.size(1);
  return reordered || is_channels_last(w) ? w : packed(w);
}

// Multiply-adds below which packing a weight for oneDNN costs more than it gains.
constexpr double kSmallWork = 1e5;

double work_of(const Convolution& v) {
  double work = static_cast<double>(v.window.rows()) * static_cast<double>(v.out_channels);
  for (int64_t k : v.window.kernel) work *= static_cast<double>(k);
  return work * static_cast<double>(v.window.channels) / static_cast<double>(v.groups);
}

// Channels by themselves: oneDNN makes code for kernels with short steps over planes, and knows
// gradients for those of 3 x 3 only. What it has besides was 2 to 12 times slower than conv.h's loops.
bool depthwise_by_ours(const Convolution& v, bool back) {
  const Window& w = v.window;
  if (v.groups == 1 || v.groups != w.channels || v.out_channels != w.channels) return false;
  if (w.bands() * w.kernel[2] > kDepthwiseTaps) return false;
  if (w.in[0] > 1) return true;
  const bool f32 = v.dtype == DType::Float32;
  if (f32 && w.channels < 8) return true;
  if (back) return w.kernel[1] != 3 || w.kernel[2] != 3;
  return f32 && (w.kernel[1] == 1 || std::max(w.stride[1], w.stride[2]) > 2);
}

// Our products for gradients and those by tiles take a row of taps at a time. A line's kernel of many
// channels is stood up: its taps then are rows of their own.
void stand_up(Window& w, int64_t groups) {
  constexpr int64_t kWide = 1024;  // numbers
  if (w.in[1] != 1 || w.out[1] != 1 || w.kernel[1] != 1 || w.pad[1] != 0) return;
  if (w.kernel[2] * w.channels / groups <= kWide) return;
  for (int64_t* sizes : {w.in, w.out, w.kernel, w.stride, w.pad, w.dilation})
    std::swap(sizes[1], sizes[2]);
}

// Lanes along lines, where there is enough to do for a weight to be arranged.
bool by_few(const Convolution& v, bool gradient) {
  return work_of(v) >= kSmallWork && few_result_channels(v, gradient);
}

// The numbers of a window that lie side by side in memory.
int64_t numbers_together(const Convolution& v) {
  const int64_t channels = v.window.channels / v.groups;
  return v.groups == 1 && v.window.dilation[2] == 1 ? channels * v.window.kernel[2] : channels;
}

// Pairs of bfloat16: oneDNN takes them from one pixel's channels, a single one and a zero where these are odd;
// ours run on along the line. It also takes longer over short lines. (90 random shapes: where this says so 1.6
// times as quick in the mean, 13 times at best, and 0.85 at worst.)
bool pairs_by_ours(const Convolution& v) {
  constexpr double kFewer = 1.25;
  constexpr int64_t kShortLine = 5, kWindows = 32, kOutputs = 16;
  const Window& w = v.window;
  if (v.groups != 1 || v.out_channels < kOutputs || !pairs_are_quick()) return false;
  const int64_t line = numbers_together(v);
  constexpr int64_t kFewTaps = 3;  // of a single channel: two pairs for three numbers
  if (w.channels % 2 && line > (w.channels == 1 ? kFewTaps : w.channels))
    if (static_cast<double>(w.kernel[2] * (w.channels + 1) / 2) >=
        kFewer * static_cast<double>((line + 1) / 2))
      return true;
  return w.out[2] <= kShortLine && w.rows() >= kWindows && v.out_channels > kOutputs;
}

// Where oneDNN fills its blocks badly and conv.h's products do not: it computes 16 channels of the
// input, and several pixels of a line of the result, at once. Forward, windows of any lines fill ours
// (36 random shapes with lines of at most 4: 0.96 of oneDNN's time, 0.4 at best, 1.06 at worst).
bool product_by_ours(const Convolution& v, Pass pass) {
  constexpr int64_t kFewInputs = 5, kManyOutputs = 100, kSomeOutputs = 10, kShortLine = 4;
  const Window& w = v.window;
  if (v.dtype != DType::Float32) return pass == Pass::Forward && pairs_by_ours(v);
  if (pass == Pass::Forward && w.out[2] <= kShortLine) return true;
  const int64_t in = w.channels / v.groups, out = v.out_channels / v.groups;
  // Of few inputs it takes up to three times as long where a window's middle may lie outside of the line.
  const int64_t reach = (w.kernel[2] - 1) * w.dilation[2] + 1;
  if (pass == Pass::Forward && level() == Level::v4 && v.groups == 1 && in <= kFewInputs &&
      2 * w.pad[2] >= reach)
    return true;
  if (v.groups == 1 && in <= kFewInputs && out >= kManyOutputs) return true;
  if (pass == Pass::Input && in < kFewInputs && out >= kSomeOutputs)
    return out >= kManyOutputs || !few_result_channels(v, true);
  bool narrow = v.groups == 1 && w.in[0] == 1 && w.kernel[0] == 1 && w.out[2] == 1;
  for (int d = 1; d < 3; ++d) narrow = narrow && w.in[d] >= (w.kernel[d] - 1) * w.dilation[d] + 1;
  return narrow && w.kernel[1] * w.kernel[2] > 1;
}

// Whether oneDNN takes it as it is: images stay in their type.
bool by_onednn(const Call& c, const Seen& seen, const Sizes& x, const Sizes& kernel, const Sizes& y,
               Convolution* v, Pass pass) {
  const DType type = c.tensor(0).dtype();
  if (type != DType::Float32 && type != DType::BFloat16) return false;
  *v = describe(c, seen, type, x, kernel, y);
  if (pass != Pass::Weight && by_few(*v, pass == Pass::Input)) return false;
  return work_of(*v) >= kSmallWork && !depthwise_by_ours(*v, pass != Pass::Forward) &&
         !product_by_ours(*v, pass) && has_onednn_conv(*v);
}

// Whether it goes by tiles, which multiply bfloat16 as it is.
bool by_tiles(const Call& c, const Seen& seen, const Sizes& x, const Sizes& kernel, const Sizes& y,
              Convolution* v, Pass pass) {
  const DType type = c.tensor(0).dtype();
  if (type != DType::BFloat16) return false;
  *v = describe(c, seen, type, x, kernel, y);
  if (v->window.rows() == 0 || product(x) == 0 || !conv_tiles_pay(*v, pass)) return false;
  stand_up(v->window, v->groups);
  return true;
}

// Single taps, as one product or one for each image. `from`: the input, or the result's gradient.
bool by_product(const Call& c, const Seen& seen, bool back, const Tensor& from, const Tensor& w,
                const Tensor& bias, const Tensor& to) {
  const DType type = from.dtype();
  const bool computes = type == computed_in(type) || is_floating(type);  // two bytes are widened
  if (!computes || w.dtype() != type || to.dtype() != type) return false;
  const Tensor &x = back ? to : from, &y = back ? from : to;
  Convolution v = describe(c, seen, type, x.shape(), kernel_of(w), y.shape());
  Pixels pixels;
  if (!single_tap(v) || !pixels_of(from, &pixels)) return false;
  match_images(&v, from.size(0), v.window.in[1] * v.window.in[2], &pixels);
  if (!single_tap_product_pays(v, pixels)) return false;
  const Tensor begin = bias ? packed(bias) : Tensor();
  single_tap_product(v, back, pixels, w.data(), w.stride(0), w.stride(1),
                     bias ? begin.data() : nullptr, to.data());
  return true;
}

// Few windows of all of the weight `w` (or its gradient's place).
bool by_thin(const Call& c, const Tensor& x, const Tensor& w, const Tensor& y, Convolution* v) {
  const DType type = w.dtype();
  if (!w.contiguous() || x.numel() == 0 || x.dtype() != type || y.dtype() != type) return false;
  const Sizes kernel = kernel_of(w);
  *v = describe(c, Seen(c, x.shape(), kernel, y.shape(), false, false), type, x.shape(), kernel,
                y.shape());
  return few_windows(*v);
}
Pixels thin_pixels(const Tensor& x, Tensor* hold, Convolution* v) {
  Pixels pixels;
  *hold = readable(x, x.dtype(), &pixels);
  match_images(v, x.size(0), v->window.in[1] * v->window.in[2], &pixels);
  return pixels;
}

// Gradients of few inputs, of which oneDNN's pairs leave most of their lanes empty.
bool gradient_widens(const Convolution& v, Pass pass) {
  constexpr int64_t kFewInputs = 8, kManyOutputs = 100;  // of a group
  const int64_t in = v.window.channels / v.groups, out = v.out_channels / v.groups;
  if (work_of(v) < 4 * kSmallWork || depthwise_by_ours(v, true)) return false;
  if (pass == Pass::Weight && few_weight_pays(v)) return true;
  if (pass == Pass::Weight && v.groups > 1) return in < kFewInputs && out > 1 && out < kManyOutputs;
  return in < kFewInputs && product_by_ours(v, pass);
}

// Numbers of two bytes as float32's, which are rounded once: where oneDNN's products of pairs take longer
// than that, and for float16, of which it has none. Single taps are products of matrices, which widen
// their numbers themselves, but for the weight's gradient; channels by themselves are a matter of memory.
bool widens(const Call& c, const Tensor& x, const Sizes& kernel, const Tensor& y, Pass pass) {
  const DType type = y.dtype();
  if (dtype_size(type) != 2 || !is_floating(type) || level() != Level::v4) return false;
  const bool pairs = type == DType::BFloat16 && pairs_are_quick();
  if (pairs && pass == Pass::Forward) return false;
  const Seen seen(c, x.shape(), kernel, y.shape());
  Convolution v;
  if (by_tiles(c, seen, x.shape(), kernel, y.shape(), &v, pass)) return false;
  if (pairs)
    return x.numel() > 0 &&
           gradient_widens(describe(c, seen, DType::Float32, x.shape(), kernel, y.shape()), pass);
  constexpr int64_t kManyChannels = 8;  // of a group
  const int64_t groups = c.integer(6), channels = x.size(1) / groups, taps = product(kernel);
  if (taps == 1 && pass != Pass::Weight) return false;
  if (groups > 1 && channels < kManyChannels) return false;
  return static_cast<double>(y.numel()) * static_cast<double>(channels * taps) >= 4 * kSmallWork;
}
// Forward, bfloat16 as it is, two numbers a tap: half of float32's work.
bool by_pairs(const Convolution& v, DType type) {
  constexpr int64_t kNumbers = 4;
  return type == DType::BFloat16 && pairs_are_quick() && level() == Level::v4 &&
         numbers_together(v) >= kNumbers && !by_few(v, false);
}
Tensor wide_images(const Tensor& t) { return channels_last(t, DType::Float32); }
Tensor wide(const Tensor& t) {
  const Tensor to = empty(t.shape(), DType::Float32, t.device());
  copy_raw(to, t);
  return to;
}

}  // namespace

void convolution(Call& c) {
  const Tensor &bias = c.tensor(2), &out = c.out[0];
  if (out.numel() == 0) return;
  if (widens(c, c.tensor(0), kernel_of(c.tensor(1)), out, Pass::Forward))
    return copy_raw(out, op<"convolution">(wide_images(c.tensor(0)), wide(c.tensor(1)),
                                           bias ? Value(wide(bias)) : Value(), c.ints(3), c.ints(4),
                                           c.ints(5), c.integer(6)));
  Convolution thin;
  if (by_thin(c, c.tensor(0), c.tensor(1), out, &thin)) {
    Tensor hold;
    const Pixels pixels = thin_pixels(c.tensor(0), &hold, &thin);
    const Tensor begin = bias ? packed(bias) : Tensor();
    return conv_thin_forward(thin, pixels, c.tensor(1).data(), bias ? begin.data() : nullptr,
                             out.data());
  }
  const Sizes kernel = kernel_of(c.tensor(1));
  if (const int d = turned_dimension(Pass::Forward, out.dtype(), c.tensor(0).shape(), kernel,
                                     out.shape(), c.integer(6));
      d >= 0) {
    const auto turn = [&](const Sizes& s) { return turned(s, kernel.n, d); };
    return copy_raw(
        turned(out, d),
        op<"convolution">(turned(c.tensor(0), d), turned(c.tensor(1), d), c.arg[2], turn(c.ints(3)),
                          turn(c.ints(4)), turn(c.ints(5)), c.integer(6)));
  }
  const Seen seen(c, c.tensor(0).shape(), kernel, out.shape());
  Tensor x = seen.pixels(c.tensor(0)), w = seen.weight(c.tensor(1));
  if (by_product(c, seen, false, x, w, bias, out)) return;
  Convolution v;
  if (by_tiles(c, seen, x.shape(), kernel_of(w), out.shape(), &v, Pass::Forward)) {
    const Tensor xl = channels_last(x, x.dtype()), wl = channels_last(w, x.dtype());
    const Tensor begin = bias ? packed(bias) : Tensor();
    return conv_tiles_forward(v, xl.data(), wl.data(), bias ? begin.data() : nullptr, out.data());
  }
  bool onednn = by_onednn(c, seen, x.shape(), kernel_of(w), out.shape(), &v, Pass::Forward);
  const auto worth = [&] {
    constexpr int64_t kEnoughOutputs = 16, kManyTaps = 100;  // of a single channel
    return x.size(1) > 1 || out.size(1) >= kEnoughOutputs ||
           v.window.bands() * v.window.kernel[2] >= kManyTaps;
  };
  if (onednn && worth() && wants_even(x, v.groups)) {
    x = one_more_channel(x, true), w = one_more_channel(w, false);
    onednn = by_onednn(c, seen, x.shape(), kernel_of(w), out.shape(), &v, Pass::Forward);
  }
  if (onednn) {
    const Tensor xl = channels_last(x, x.dtype());
    const Tensor wd = seen.all_taps ? dense(w, v.groups == 1) : w;
    const Tensor begin = bias ? packed(bias) : Tensor();
    if (onednn_conv_forward(v, xl.data(), plain(wd, seen), bias ? begin.data() : nullptr,
                            out.data()))
      return;
  }
  const DType type = computed_in(x.dtype());
  v = describe(c, seen, type, x.shape(), kernel_of(w), out.shape());
  Tensor begin;
  if (bias) begin = packed(channels_last(op<"reshape">(bias, Sizes{1, bias.size(0)}), type));
  const void* const begin_data = bias ? begin.data() : nullptr;
  if (by_pairs(v, x.dtype())) {
    v = describe(c, seen, x.dtype(), x.shape(), kernel_of(w), out.shape());
    const Tensor xl = channels_last(x, x.dtype()), wl = channels_last(w, x.dtype());
    return conv_direct(v, xl.data(), wl.data(), begin_data, out.data());
  }
  Tensor result = out.dtype() == type ? out : empty_channels_last(out.shape(), type, out.device());
  const Tensor wl = channels_last(w, type);
  if (by_few(v, false)) {
    Pixels pixels;
    const Tensor xl = readable(x, type, &pixels, true);
    match_images(&v, x.size(0), v.window.in[1] * v.window.in[2], &pixels);
    conv_few_forward(v, pixels, wl.data(), plain(wl, seen).stride, begin_data, result.data());
  } else {
    const Tensor xl = channels_last(x, type);
    conv_forward(v, xl.data(), wl.data(), begin_data, result.data());
  }
  if (out.dtype() != type) copy_raw(out, result);
}

namespace {

// `out` lies with channels last.
void input_gradient(const Call& c, const Seen& seen, const Tensor& w, const Tensor& out) {
  const Tensor& g = c.tensor(0);
  if (by_product(c, seen, true, g, w, Tensor(), out)) return;
  Convolution v;
  if (by_tiles(c, seen, out.shape(), kernel_of(w), g.shape(), &v, Pass::Input)) {
    const Tensor gl = channels_last(g, g.dtype()), wl = channels_last(w, g.dtype());
    return conv_tiles_input(v, gl.data(), wl.data(), out.data());
  }
  if (by_onednn(c, seen, out.shape(), kernel_of(w), g.shape(), &v, Pass::Input)) {
    if (out.size(1) > 1 && wants_even(out, v.groups)) {
      Sizes shape = out.shape();
      ++shape[1];
      const Tensor even = empty_channels_last(shape, out.dtype(), out.device());
      input_gradient(c, seen, one_more_channel(w, false), even);
      return copy_raw(out, op<"narrow">(as_it_lies(even), 1, int64_t{0}, out.size(1)));
    }
    const Tensor gl = channels_last(g, g.dtype()), wd = seen.all_taps ? dense(w, false) : w;
    if (onednn_conv_input(v, gl.data(), plain(wd, seen), out.data())) return;
  }
  const DType type = computed_in(g.dtype());
  v = describe(c, seen, type, out.shape(), kernel_of(w), g.shape());
  Tensor result = out.dtype() == type ? out : empty_channels_last(out.shape(), type, out.device());
  const Tensor wl = channels_last(w, type);
  if (by_few(v, true)) {
    Pixels pixels;
    const Tensor gl = readable(g, type, &pixels, true);
    match_images(&v, g.size(0), v.window.out[1] * v.window.out[2], &pixels);
    conv_few_input(v, pixels, wl.data(), plain(wl, seen).stride, result.data());
  } else {
    stand_up(v.window, v.groups);
    const Tensor gl = channels_last(g, type);
    conv_backward_input(v, gl.data(), wl.data(), result.data());
  }
  if (out.dtype() != type) copy_raw(out, result);
}

// Planes of pixels times the few planes of the result's gradient, which are laid out so.
bool weight_by_product(const Call& c, const Seen& seen, const Tensor& x, const Tensor& out) {
  const DType type = out.dtype();
  const Tensor& g = c.tensor(0);
  if (x.dtype() != type || g.dtype() != type || x.numel() == 0) return false;
  Convolution v = describe(c, seen, type, x.shape(), kernel_of(out), g.shape());
  Pixels pixels;
  if (!single_tap(v) || !pixels_of(x, &pixels)) return false;
  v.window.images = x.size(0);  // volumes are images of as many pixels
  v.window.in[0] = v.window.out[0] =
      x.numel() / (x.size(0) * x.size(1)) / v.window.in[1] / v.window.in[2];
  if (!single_tap_weight_pays(v, pixels)) return false;
  const Tensor planes = packed(g);
  single_tap_weight(v, planes.data(), pixels, out.data());
  return true;
}

// `out` is dense.
void weight_gradient(const Call& c, const Seen& seen, const Tensor& x, const Tensor& out) {
  const Tensor& g = c.tensor(0);
  const Sizes kernel = kernel_of(out);
  if (weight_by_product(c, seen, x, out)) return;
  Convolution v = describe(c, seen, g.dtype(), x.shape(), kernel, g.shape());
  if (x.dtype() == v.dtype && out.dtype() == v.dtype && few_weight_pays(v)) {
    Pixels of, at;
    const Tensor gl = readable(g, v.dtype, &of), xl = readable(x, v.dtype, &at);
    Convolution whole = v;
    match_images(&whole, g.size(0), v.window.out[1] * v.window.out[2], &of);
    match_images(&v, x.size(0), v.window.in[1] * v.window.in[2], &at);
    if (whole.window.images == v.window.images &&
        conv_few_weight(v, of, at, out.data<float>(), plain(out, seen).stride))
      return;
  }
  if (by_tiles(c, seen, x.shape(), kernel, g.shape(), &v, Pass::Weight)) {
    const Tensor gl = channels_last(g, g.dtype()), xl = channels_last(x, g.dtype());
    const bool direct = is_channels_last(out);
    const Tensor result =
        direct ? out : empty_channels_last(out.shape(), out.dtype(), out.device());
    conv_tiles_weight(v, gl.data(), xl.data(), result.data());
    if (!direct) copy_raw(out, result);
    return;
  }
  if (by_onednn(c, seen, x.shape(), kernel, g.shape(), &v, Pass::Weight)) {
    if (x.size(1) > 1 && wants_even(x, v.groups)) {
      Sizes shape = out.shape();
      ++shape[1];
      const Tensor even = empty(shape, out.dtype(), out.device());
      weight_gradient(c, seen, one_more_channel(x, true), even);
      return copy_raw(out, op<"narrow">(even, 1, int64_t{0}, out.size(1)));
    }
    const Tensor gl = channels_last(g, g.dtype()), xl = channels_last(x, x.dtype());
    if (onednn_conv_weight(v, gl.data(), xl.data(), plain(out, seen))) return;
  }
  const DType type = computed_in(g.dtype());
  v = describe(c, seen, type, x.shape(), kernel, g.shape());
  stand_up(v.window, v.groups);
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

}  // namespace

void convolution_input(Call& c) {
  const Tensor& out = c.out[0];
  if (out.numel() == 0) return;
  if (widens(c, out, kernel_of(c.tensor(1)), c.tensor(0), Pass::Input))
    return copy_raw(out,
                    op<"convolution_input">(wide_images(c.tensor(0)), wide(c.tensor(1)), c.ints(2),
                                            c.ints(3), c.ints(4), c.ints(5), c.integer(6)));
  if (conv_planes_input(c)) return;
  Convolution thin;
  if (by_thin(c, out, c.tensor(1), c.tensor(0), &thin)) {
    const Tensor g = channels_last(c.tensor(0), out.dtype());
    return conv_thin_input(thin, g.data(), c.tensor(1).data(), out.data());
  }
  const Sizes kernel = kernel_of(c.tensor(1));
  if (const int d = turned_dimension(Pass::Input, out.dtype(), out.shape(), kernel,
                                     c.tensor(0).shape(), c.integer(6));
      d >= 0) {
    const auto turn = [&](const Sizes& s) { return turned(s, kernel.n, d); };
    return copy_raw(
        turned(out, d),
        op<"convolution_input">(turned(c.tensor(0), d), turned(c.tensor(1), d), turn(c.ints(2)),
                                turn(c.ints(3)), turn(c.ints(4)), turn(c.ints(5)), c.integer(6)));
  }
  // Few channels are not worth a copy to their places, unless summing them is much more or a single
  // product, which reads them as they lie.
  const int64_t channels = out.size(1), depth = c.tensor(0).size(1);
  const bool product_alone = product(kernel) == 1 && depth > channels;
  const bool over =
      c.integer(6) == 1 && (channels >= 16 || depth >= 32 * channels || product_alone);
  const Seen seen(c, out.shape(), kernel, c.tensor(0).shape(), over);
  const Tensor w = seen.weight(c.tensor(1));
  if (seen.all_pixels) return input_gradient(c, seen, w, out);
  const Tensor place = seen.pixels(out);
  const Tensor part = empty_channels_last(place.shape(), out.dtype(), out.device());
  input_gradient(c, seen, w, part);
  fill_raw(out, Value(int64_t{0}));  // what no tap saw
  copy_raw(place, part);
}

void convolution_weight(Call& c) {
  const Tensor& out = c.out[0];
  if (out.numel() == 0) return;
  if (widens(c, c.tensor(1), c.ints(2), c.tensor(0), Pass::Weight))
    return copy_raw(
        out, op<"convolution_weight">(wide_images(c.tensor(0)), wide_images(c.tensor(1)), c.ints(2),
                                      c.ints(3), c.ints(4), c.ints(5), c.integer(6)));
  Convolution thin;
  if (by_thin(c, c.tensor(1), out, c.tensor(0), &thin)) {
    Tensor hold;
    const Pixels pixels = thin_pixels(c.tensor(1), &hold, &thin);
    const Tensor g = channels_last(c.tensor(0), out.dtype());
    return conv_thin_weight(thin, g.data(), pixels, out.data());
  }
  if (const int d = turned_dimension(Pass::Weight, out.dtype(), c.tensor(1).shape(), c.ints(2),
                                     c.tensor(0).shape(), c.integer(6));
      d >= 0) {
    const auto turn = [&](const Sizes& s) { return turned(s, c.ints(2).n, d); };
    return copy_raw(
        turned(out, d),
        op<"convolution_weight">(turned(c.tensor(0), d), turned(c.tensor(1), d), turn(c.ints(2)),
                                 turn(c.ints(3)), turn(c.ints(4)), turn(c.ints(5)), c.integer(6)));
  }
  const Seen seen(c, c.tensor(1).shape(), c.ints(2), c.tensor(0).shape());
  const Tensor x = seen.pixels(c.tensor(1));
  if (seen.all_taps) return weight_gradient(c, seen, x, out);
  const Tensor place = seen.weight(out);
  const Tensor part = empty(place.shape(), out.dtype(), out.device());
  weight_gradient(c, seen, x, part);
  fill_raw(out, Value(int64_t{0}));  // taps that saw nothing
  copy_raw(place, part);
}

BIND_KERNEL(Cpu, "convolution", convolution);
BIND_KERNEL(Cpu, "convolution_input", convolution_input);
BIND_KERNEL(Cpu, "convolution_weight", convolution_weight);

}  // namespace tycho::cpu
