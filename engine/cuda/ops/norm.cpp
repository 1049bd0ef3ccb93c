// layer_norm, rms_norm, batch_norm, group_norm and sums of neighbouring channels on a device.
#include "engine/cuda/kernels/norm.cuh"

#include <algorithm>
#include <cstdlib>

#include "engine/cuda/ops/along.h"
#include "engine/cuda/ops/reduce.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cuda {
namespace {

const char* lanes(bool wide, const char* f32, const char* f64) { return wide ? f64 : f32; }
#define NORM_KERNEL(wide, name) \
  KernelRef { "norm", lanes(wide, name "_f32", name "_f64") }

// An optional operand, row-major; `keep` holds it as long as it is used.
void set_operand(const void*& data, int32_t& dtype, Tensor& keep, const Tensor& t) {
  if (!t) return;
  keep = packed(t);
  data = keep.data<void>();
  dtype = number_of(t);
}

// --- rows ---

Along rows_of(const Tensor& x, int dims) {
  Cut cut(Sizes{}, 0);
  for (int d = 0; d < x.rank(); ++d) (d < x.rank() - dims ? cut.outer : cut.n) *= x.size(d);
  Along a = along(cut);
  a.in = x.data<void>();
  a.in_dtype = number_of(x);
  return a;
}

void row_norm(Call& c) {
  const Tensor x = packed(c.tensor(0));
  const Written y(c.out[0]);
  Tensor weight, bias;
  Along a = rows_of(x, c.count(1));
  set_operand(a.weight, a.weight_dtype, weight, c.tensor(2));
  set_operand(a.bias, a.bias_dtype, bias, c.tensor(3));
  a.eps = c.number(4);
  a.centred = c.flag(5);
  a.out = y.data();
  a.out_dtype = number_of(c.out[0]);
  a.mean = c.out[1].data<void>();
  a.rstd = c.out[2].data<void>();
  launch_along(x.device(), NORM_KERNEL(wants_double(x), "row_norm"), a);
  y.finish();
}

// From sums in float64 to the gradients of weight and bias.
void give(const Tensor& to, const Tensor& sums) { copy_raw(to, sums); }
Tensor doubles(int64_t n, Device device) { return empty({n}, DType::Float64, device); }

void row_norm_backward(Call& c) {
  const Tensor g = packed(c.tensor(0)), x = packed(c.tensor(1));
  const Tensor mean = packed(c.tensor(4)), rstd = packed(c.tensor(5));
  const Written dx(c.out[0]);
  Tensor weight;
  Along a = rows_of(x, c.count(2));
  a.grad = g.data<void>();
  a.grad_dtype = number_of(g);
  set_operand(a.weight, a.weight_dtype, weight, c.tensor(3));
  a.centred = c.flag(6);
  a.mean = mean.data<void>();
  a.rstd = rstd.data<void>();
  a.out = dx.data();
  a.out_dtype = number_of(c.out[0]);
  launch_along(x.device(), NORM_KERNEL(wants_double(x), "row_norm_backward"), a);
  dx.finish();
  const Tensor sum = doubles(a.n, x.device()), dot = doubles(a.n, x.device());
  const auto by_rows = [&](const Tensor& t) {
    return alias(t, {a.rows, a.n}, {a.n, 1}, t->offset);
  };
  unit_sums_of(by_rows(g), by_rows(x), 1, mean, rstd, 0, sum.data<double>(), dot.data<double>());
  const Sizes flat{a.n}, one{1};
  give(alias(c.out[1], flat, one, 0), dot);
  give(alias(c.out[2], flat, one, 0), sum);
}

// --- channels ---

// How the elements of [N, C, ..] lie: row-major, or with the channels side by side.
struct Planes {
  int64_t samples, channels, places = 1;
  bool by_channel;  // channels side by side
  Sizes stride;
  explicit Planes(const Tensor& x) : samples(x.size(0)), channels(x.size(1)) {
    for (int d = 2; d < x.rank(); ++d) places *= x.size(d);
    stride = row_major(x.shape());
    Sizes last = stride;
    int64_t step = channels;
    for (int d = x.rank() - 1; d >= 2; --d) {
      last[d] = step;
      step *= x.size(d);
    }
    last[0] = step;
    last[1] = 1;
    by_channel = places > 1 && channels > 1 && x.strides() == last;
    if (by_channel) stride = last;
  }
  int64_t count() const { return samples * places; }
  int64_t inner() const { return by_channel ? 1 : places; }
  // The tensor, or a copy, in this order.
  Tensor arranged(const Tensor& t) const {
    if (t.strides() == stride) return t;
    const Tensor y = empty_strided(t.shape(), stride, t.dtype(), t.device());
    copy_raw(y, t);
    return y;
  }
  // Memory for a result that may lie otherwise.
  Tensor target(const Tensor& t) const {
    return t.strides() == stride ? t : empty_strided(t.shape(), stride, t.dtype(), t.device());
  }
  Tensor as_rows(const Tensor& t) const {  // [N, C, places]
    return by_channel
               ? alias(t, {samples, channels, places}, {channels * places, 1, channels}, t->offset)
               : alias(t, {samples, channels, places}, {channels * places, places, 1}, t->offset);
  }
};

// Factors per row in lanes, kept until the kernels are asked for.
struct Factors {
  Tensor all;
  ChannelFactors c{};
  Factors(int64_t rows, int64_t inside, int64_t channels, bool wide, Device device)
      : all(empty({4, rows}, wide ? DType::Float64 : DType::Float32, device)) {
    c.rows = rows;
    c.inside = inside;
    c.channels = channels;
    char* at = all.data();
    void** const parts[] = {&c.at, &c.factor, &c.slope, &c.shift};
    for (int k = 0; k < 4; ++k) *parts[k] = at + k * rows * dtype_size(all.dtype());
  }
  void apply(const Tensor& x, const Tensor& g, const Tensor& out, int64_t inner) const {
    ChannelApply a{};
    a.numel = x.numel();
    a.inner = inner;
    a.rows = c.rows;
    a.in = x.data<void>();
    a.in_dtype = number_of(x);
    if (g) {
      a.grad = g.data<void>();
      a.grad_dtype = number_of(g);
    }
    a.out = out.data<void>();
    a.out_dtype = number_of(out);
    a.at = c.at, a.factor = c.factor, a.slope = c.slope, a.shift = c.shift;
    launch(x.device(), NORM_KERNEL(wants_double(all), "channel_apply"),
           grid_for(x.device(), a.numel), {256}, 0, a);
  }
};

// `inside` channels make a group: 0 for batch norm, whose groups are channels over all samples.
void forward(Call& c, const Tensor& self, const Planes& p, int64_t inside, int weight, Factors& f) {
  const Tensor x = p.arranged(self), y = p.target(c.out[0]);
  const bool wide = wants_double(x);
  Tensor w, b;
  set_operand(f.c.weight, f.c.weight_dtype, w, c.tensor(weight));
  set_operand(f.c.bias, f.c.bias_dtype, b, c.tensor(weight + 1));
  f.c.mean = c.out[1].data<void>();
  f.c.rstd = c.out[2].data<void>();
  const int64_t groups = f.c.rows / f.c.inside;
  Tensor mean = doubles(groups, x.device()), var = doubles(groups, x.device());
  if (inside) {
    const int64_t run = inside * p.places;
    moments_of(alias(x, {groups, run}, {run, 1}, x->offset), 2, var.data<double>(),
               mean.data<double>());
  } else if (f.c.training) {
    moments_of(p.as_rows(x), 5, var.data<double>(), mean.data<double>());
  } else {
    copy_raw(mean, c.tensor(3));
    copy_raw(var, c.tensor(4));
  }
  f.c.moment_mean = mean.data<double>();
  f.c.moment_var = var.data<double>();
  launch(x.device(), NORM_KERNEL(wide, "channel_factors"), grid_for(x.device(), f.c.rows), {256}, 0,
         f.c);
  f.apply(x, Tensor(), y, p.inner());
  if (y.get() != c.out[0].get()) copy_raw(c.out[0], y);
}

void backward(Call& c, const Tensor& self, const Planes& p, int64_t inside, int weight,
              Factors& f) {
  const Tensor g = p.arranged(c.tensor(0)), x = p.arranged(self), dx = p.target(c.out[0]);
  const Tensor mean = packed(c.tensor(weight + 1)), rstd = packed(c.tensor(weight + 2));
  Tensor w;
  set_operand(f.c.weight, f.c.weight_dtype, w, c.tensor(weight));
  f.c.mean = mean.data<void>();
  f.c.rstd = rstd.data<void>();
  Tensor sum = doubles(f.c.rows, x.device()), dot = doubles(f.c.rows, x.device());
  unit_sums_of(p.as_rows(g), p.as_rows(x), inside ? 4 : 5, mean, rstd, f.c.inside,
               sum.data<double>(), dot.data<double>());
  f.c.sum = sum.data<double>();
  f.c.dot = dot.data<double>();
  launch(x.device(), NORM_KERNEL(wants_double(x), "channel_slopes"), grid_for(x.device(), f.c.rows),
         {256}, 0, f.c);
  f.apply(x, g, dx, p.inner());
  if (dx.get() != c.out[0].get()) copy_raw(c.out[0], dx);
  if (inside) {
    const auto over_samples = [&](const Tensor& t) {
      return op<"sum">(alias(t, {p.samples, p.channels}, {p.channels, 1}, 0), Sizes{0}, false);
    };
    sum = over_samples(sum);
    dot = over_samples(dot);
  }
  give(c.out[1], dot);
  give(c.out[2], sum);
}

void batch_norm(Call& c) {
  const Tensor& x = c.tensor(0);
  const Planes p(x);
  Factors f(p.channels, 1, p.channels, wants_double(x), x.device());
  f.c.training = c.flag(5);
  f.c.momentum = c.number(6);
  f.c.eps = c.number(7);
  f.c.count = static_cast<double>(p.count());
  f.c.unbiased = f.c.count / (f.c.count - 1);
  Tensor running[2];
  for (int k = 0; k < 2; ++k) {
    const Tensor& t = c.tensor(3 + k);
    if (!t || !f.c.training || p.count() == 0) continue;
    running[k] = packed(t);
    f.c.running[k] = running[k].data<void>();
    f.c.running_dtype[k] = number_of(t);
  }
  forward(c, x, p, 0, 1, f);
  for (int k = 0; k < 2; ++k)
    if (running[k] && running[k].get() != c.tensor(3 + k).get())
      copy_raw(c.tensor(3 + k), running[k]);
}

void batch_norm_backward(Call& c) {
  const Tensor& x = c.tensor(1);
  const Planes p(x);
  Factors f(p.channels, 1, p.channels, wants_double(x), x.device());
  f.c.training = c.flag(5);
  f.c.count = static_cast<double>(p.count());
  backward(c, x, p, 0, 2, f);
}

void group_norm(Call& c) {
  const Tensor x = packed(c.tensor(0));
  const Planes p(x);
  const int64_t inside = p.channels / c.integer(1);
  Factors f(p.samples * p.channels, inside, p.channels, wants_double(x), x.device());
  f.c.eps = c.number(4);
  forward(c, x, p, inside, 2, f);
}

void group_norm_backward(Call& c) {
  const Tensor x = packed(c.tensor(1));
  const Planes p(x);
  const int64_t inside = p.channels / c.integer(2);
  Factors f(p.samples * p.channels, inside, p.channels, wants_double(x), x.device());
  f.c.training = true;
  f.c.count = static_cast<double>(inside * p.places);
  backward(c, x, p, inside, 3, f);
}

// Channels summed with those before and behind them, one distance after the other.
void window_sum(Call& c) {
  const Tensor& given = c.tensor(0);
  const DType type = wants_double(given) ? DType::Float64 : DType::Float32;
  const Tensor x = given.dtype() == type ? given : op<"to.dtype">(given, type);
  const Tensor y = op<"zeros_like">(x);
  const int64_t channels = x.size(1);
  const int64_t before = std::min(c.integer(1), channels - 1),
                after = std::min(c.integer(2), channels - 1);
  for (int64_t off = -before; off <= after; ++off) {
    const int64_t n = channels - std::abs(off), to = std::max<int64_t>(0, -off);
    op_<"add">(op<"narrow">(y, 1, to, n), op<"narrow">(x, 1, to + off, n));
  }
  copy_raw(c.out[0], y);
}

BIND_KERNEL(Cuda, "window_sum", window_sum);
BIND_KERNEL(Cuda, "row_norm", row_norm);
BIND_KERNEL(Cuda, "row_norm_backward", row_norm_backward);
BIND_KERNEL(Cuda, "batch_norm_forward", batch_norm);
BIND_KERNEL(Cuda, "batch_norm_backward", batch_norm_backward);
BIND_KERNEL(Cuda, "group_norm_forward", group_norm);
BIND_KERNEL(Cuda, "group_norm_backward", group_norm_backward);

}  // namespace
}  // namespace tycho::cuda
