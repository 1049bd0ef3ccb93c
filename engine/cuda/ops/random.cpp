// Random numbers on a device, in PyTorch's order, which is that of memory as a user sees it; dropout.
#include "engine/ops/random/random.h"

#include <algorithm>
#include <cmath>

#include "engine/cuda/kernels/random.cuh"
#include "engine/cuda/ops/rowmajor.h"
#include "engine/ops/random/limits.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cuda {
namespace {

// With the dimensions in the order of the strides.
Tensor in_memory_order(const Tensor& t) {
  const Sizes seen = shown_strides(t.get());
  Sizes order, shape, stride;
  for (int d = 0; d < t.rank(); ++d) order.push_back(d);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return seen[a] > seen[b]; });
  for (const int64_t d : order) {
    shape.push_back(t.size(d));
    stride.push_back(t.stride(d));
  }
  return alias(t, shape, stride, t->offset);
}

// `per`: numbers that one block of four words makes.
void draw(const Tensor& y, const RandomStream& stream, const char* kernel, int per, Draw d) {
  if (y.numel() == 0) return;
  const Written to(in_memory_order(y));
  d.out = to.data();
  d.dtype = number_of(y);
  d.n = y.numel();
  const int64_t blocks = (d.n + per - 1) / per;
  d.key = stream.philox->initial_seed();
  d.first = stream.philox->take(blocks);
  launch(y.device(), {"random", kernel}, grid_for(y.device(), blocks), {256}, 0, d);
  to.finish();
}

void draw_floats(const Call& c, int generator, Drawn what, double a, double b) {
  const Tensor& y = c.out[0];
  if (what == Drawn::Normal)
    check_normal(y.dtype(), b);
  else
    check_uniform(y.dtype(), a, b);
  Draw d{};
  d.what = what;
  d.a = a;
  d.b = b;
  const bool wide = y.dtype() == DType::Float64;
  draw(y, generator_of(c, generator, y.device()), wide ? "draw_f64" : "draw_f32", wide ? 2 : 4, d);
}
void draw_uniform(const Call& c, int generator, double from, double to) {
  draw_floats(c, generator, Drawn::Uniform, from, to);
}
void draw_normal(const Call& c, int generator, double mean, double deviation) {
  draw_floats(c, generator, Drawn::Normal, mean, deviation);
}

void draw_integers(const Call& c, int generator, int64_t from, int64_t to) {
  const Tensor& y = c.out[0];
  const IntegerRange range = integer_range(y.dtype(), from, to);
  Draw d{};
  d.low = static_cast<uint64_t>(range.low);
  d.count = range.count;
  const bool narrow = range.count != 0 && range.count < uint64_t{1} << 28;
  draw(y, generator_of(c, generator, y.device()), "draw_integers", narrow ? 4 : 2, d);
}

void dropout_mask(Call& c) {
  const Tensor& y = c.out[0];
  check_probability(c.number(1));
  Draw d{};
  d.limit = static_cast<uint64_t>(std::ceil(std::ldexp(c.number(1), 32)));
  draw(y, generator_of(y.device()), "draw_bernoulli", 4, d);
}

void masked_scale(Call& c) {
  const Tensor& y = c.out[0];
  Tensor x = c.tensor(0), mask = c.tensor(1), out = y;
  // The result lies as x does; the mask, made like the forward pass's x, mostly does as well.
  const bool alike =
      is_dense(y.get()) && x.strides() == y.strides() && mask.strides() == y.strides();
  if (!alike) {
    x = packed(x);
    mask = packed(mask);
    if (!y.contiguous()) out = empty(y.shape(), y.dtype(), y.device());
  }
  MaskedScale m{};
  m.n = y.numel();
  m.in = x.data<void>();
  m.in_dtype = number_of(x);
  m.mask = mask.data<uint8_t>();
  m.out = out.data<void>();
  m.out_dtype = number_of(out);
  m.scale = c.number(2);
  launch(y.device(), {"random", wants_double(y) ? "masked_scale_f64" : "masked_scale_f32"},
         grid_for(y.device(), m.n), {256}, 0, m);
  if (out.get() != y.get()) copy_raw(y, out);
}

BIND_KERNEL(Cuda, "dropout_mask", dropout_mask);
BIND_KERNEL(Cuda, "masked_scale", masked_scale);
BIND_KERNEL(Cuda, "rand", [](Call& c) { draw_uniform(c, 1, 0, 1); });
BIND_KERNEL(Cuda, "rand_like", [](Call& c) { draw_uniform(c, 3, 0, 1); });
BIND_KERNEL(Cuda, "uniform", [](Call& c) { draw_uniform(c, 3, c.number(1), c.number(2)); });
BIND_KERNEL(Cuda, "randn", [](Call& c) { draw_normal(c, 1, 0, 1); });
BIND_KERNEL(Cuda, "randn_like", [](Call& c) { draw_normal(c, 3, 0, 1); });
BIND_KERNEL(Cuda, "normal.size", [](Call& c) { draw_normal(c, 3, c.number(0), c.number(1)); });
BIND_KERNEL(Cuda, "normal.fill", [](Call& c) { draw_normal(c, 3, c.number(1), c.number(2)); });
BIND_KERNEL(Cuda, "randint", [](Call& c) { draw_integers(c, 3, c.integer(0), c.integer(1)); });
BIND_KERNEL(Cuda, "randint.high", [](Call& c) { draw_integers(c, 2, 0, c.integer(0)); });
BIND_KERNEL(Cuda, "randint_like", [](Call& c) { draw_integers(c, 5, c.integer(1), c.integer(2)); });
BIND_KERNEL(Cuda, "randint_like.high", [](Call& c) { draw_integers(c, 4, 0, c.integer(1)); });

}  // namespace
}  // namespace tycho::cuda
