// Random numbers on a device, in PyTorch's order, which is that of memory as a user sees it; dropout.
#include "engine/ops/random/random.h"

#include <algorithm>
#include <cmath>

#include "engine/cuda/graph.h"
#include "engine/cuda/kernels/random.cuh"
#include "engine/cuda/ops/index_walk.h"
#include "engine/ops/random/limits.h"
#include "engine/ops/table/kernel.h"
#include "engine/tensor/read.h"

namespace tycho::cuda {
namespace {

// The dimensions of t in the order of its strides, and tensors with them in such an order.
Sizes memory_order(const Tensor& t) {
  const Sizes seen = shown_strides(t.get());
  Sizes order;
  for (int d = 0; d < t.rank(); ++d) order.push_back(d);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return seen[a] > seen[b]; });
  return order;
}
Tensor in_order(const Tensor& t, const Sizes& order) {
  Sizes shape, stride;
  for (const int64_t d : order) {
    shape.push_back(t.size(static_cast<int>(d)));
    stride.push_back(t.stride(static_cast<int>(d)));
  }
  return alias(t, shape, stride, t->offset);
}

// A parameter of each element, in the order of the result's memory.
Tensor parameters(const Tensor& t, const Tensor& y) {
  return packed(in_order(op<"expand">(t, y.shape()), memory_order(y)));
}

// `per`: numbers that one block of four words makes.
void draw(const Tensor& y, const RandomStream& stream, const char* kernel, int per, Draw d) {
  if (y.numel() == 0) return;
  const Written to(in_order(y, memory_order(y)));
  d.out = to.data();
  d.dtype = number_of(y);
  d.n = y.numel();
  const int64_t blocks = (d.n + per - 1) / per;
  const Counters counters = take_counters(y.device(), stream, blocks);
  d.key = counters.key;
  d.first = counters.first;
  d.replayed = counters.replayed;
  launch(y.device(), {"random", kernel}, grid_for(y.device(), blocks), {256}, 0, d);
  to.finish();
}

void draw_floats(const Call& c, int generator, Drawn what, double a, double b) {
  const Tensor& y = c.out[0];
  Draw d{};
  d.what = what;
  d.a = a;
  d.b = b;
  const bool wide = y.dtype() == DType::Float64;
  draw(y, generator_of(c, generator, y.device()), wide ? "draw_f64" : "draw_f32", wide ? 2 : 4, d);
}
void draw_uniform(const Call& c, int generator, double from, double to) {
  check_uniform(c.out[0].dtype(), from, to);
  draw_floats(c, generator, Drawn::Uniform, from, to);
}
void draw_normal(const Call& c, int generator, double mean, double deviation) {
  check_normal(c.out[0].dtype(), deviation);
  draw_floats(c, generator, Drawn::Normal, mean, deviation);
}

void draw_integers(const Call& c, int generator, const Tensor& y, IntegerRange range) {
  Draw d{};
  d.low = static_cast<uint64_t>(range.low);
  d.count = range.count;
  const bool narrow = range.count != 0 && range.count < uint64_t{1} << 28;
  draw(y, generator_of(c, generator, y.device()), "draw_integers", narrow ? 4 : 2, d);
}
void draw_integers(const Call& c, int generator, int64_t from, int64_t to) {
  const Tensor& y = c.out[0];
  draw_integers(c, generator, y, integer_range(y.dtype(), from, to));
}

void random(Call& c) {
  if (c.has(1)) return draw_integers(c, 2, 0, c.integer(1));
  draw_integers(c, 2, c.out[0], integer_range(c.out[0].dtype()));
}

void random_range(Call& c) {
  const DType type = c.out[0].dtype();
  const int64_t from = c.integer(1);
  if (c.has(2)) return draw_integers(c, 3, from, c.integer(2));
  draw_integers(c, 3, c.out[0], integer_range_from(type, from));
}

// The positions in the order of a number of 64 bits each.
void randperm(Call& c) {
  const Tensor& y = c.out[0];
  const Tensor keys = empty(y.shape(), DType::Int64, y.device());
  draw_integers(c, 1, keys, {0, 0});
  copy_raw(y, op<"argsort">(keys, 0, false, true));
}

void normal(Call& c) {
  const Tensor &y = c.out[0], &deviation = c.tensor(1);
  if (deviation && deviation.numel()) {
    const Tensor wrong = op<"lt">(deviation, 0);
    if (item<bool>(op<"any">(wrong))) {
      const int64_t at = item<int64_t>(op<"argmax">(as(wrong, DType::Float32)));
      fail(Kind::Value, format("normal: needs standard deviations of 0 or more, element %lld is %g",
                               static_cast<long long>(at), number_at(fetch(deviation), at - 1)));
    }
  }
  draw_normal(c, 2, 0, 1);
  op_<"mul">(y, c.arg[1]);
  op_<"add">(y, c.arg[0]);
}

void bernoulli(Call& c) {
  const Tensor& y = c.out[0];
  const Tensor p = c.arg[1].tag == Tag::Tensor ? c.tensor(1)
                   : c.has(1) || c.inplace     ? Tensor()
                                               : c.tensor(0);
  const RandomStream stream = generator_of(c, 2, y.device());
  Draw d{};
  if (!p) {
    const double chance = c.has(1) ? c.number(1) : 0.5;
    check_probability(chance);
    d.limit = static_cast<uint64_t>(std::ceil(std::ldexp(chance, 32)));
    return draw(y, stream, "draw_bernoulli", 4, d);
  }
  check_floating("bernoulli with a tensor of probabilities", p.dtype());
  const Tensor chances = parameters(p, y);
  const int64_t bad = item<int64_t>(op<"first_improbable">(chances));
  if (bad >= 0)
    fail(Kind::Value, format("bernoulli needs probabilities in [0, 1], element %lld is %g",
                             static_cast<long long>(bad + 1), number_at(fetch(chances), bad)));
  d.chances = chances.data<void>();
  d.chances_dtype = number_of(chances);
  draw(y, stream, "draw_bernoulli", 4, d);
}

// Each element drawn with a parameter of its own, by a kernel that takes as many numbers as it needs.
void draw_by_rates(Call& c, const char* kernel, double least) {
  const Tensor& y = c.out[0];
  check_floating(c.op->name, y.dtype());
  const RandomStream stream = generator_of(c, 1, y.device());
  const Tensor rates = parameters(c.tensor(0), y);
  const Tensor wrong =
      op<"logical_not">(op<"logical_and">(op<"ge">(rates, 0), op<"isfinite">(rates)));
  if (y.numel() && item<bool>(op<"any">(wrong))) {
    const int64_t at = item<int64_t>(op<"argmax">(as(wrong, DType::Float32))) - 1;
    check_rate(c.op->name, at, number_at(fetch(rates), at));
  }
  Draw d{};
  d.a = least;
  d.chances = rates.data<void>();
  d.chances_dtype = number_of(rates);
  draw(y, stream, kernel, 1, d);
}

void poisson(Call& c) { draw_by_rates(c, "draw_poisson", 0); }
void standard_gamma(Call& c) { draw_by_rates(c, "draw_gamma", least_normal(c.out[0].dtype())); }

void binomial(Call& c) {
  const Tensor& y = c.out[0];
  check_floating(c.op->name, y.dtype());
  const Tensor counts = parameters(c.tensor(0), y), chances = parameters(c.tensor(1), y);
  Draw d{};
  d.counts = counts.data<void>();
  d.chances = chances.data<void>();
  d.chances_dtype = number_of(chances);
  draw(y, generator_of(c, 2, y.device()), "draw_binomial", 1, d);
}

void exponential(Call& c) {
  check_exponential(c.out[0].dtype(), c.number(1));
  draw_floats(c, 2, Drawn::Exponential, 1 / c.number(1), 0);
}
void geometric(Call& c) {
  check_geometric(c.out[0].dtype(), c.number(1));
  draw_floats(c, 2, Drawn::Geometric, -1 / std::log1p(-c.number(1)), 0);
}
void cauchy(Call& c) {
  check_cauchy(c.out[0].dtype(), c.number(2));
  draw_floats(c, 3, Drawn::Cauchy, c.number(1), c.number(2));
}
void log_normal(Call& c) {
  check_log_normal(c.out[0].dtype(), c.number(2));
  draw_floats(c, 3, Drawn::LogNormal, c.number(1), c.number(2));
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

void rrelu_slopes(Call& c) {
  const Tensor& y = c.out[0];
  const double lower = c.number(1), upper = c.number(2);
  const Tensor slopes = filled(y.shape(), (lower + upper) / 2, DType::Float64, y.device());
  if (c.flag(3)) op_<"uniform">(slopes, lower, upper);
  copy_raw(y, op<"where">(op<"gt">(c.tensor(0), 0), 1.0, slopes));
}

BIND_KERNEL(Cuda, "rrelu_slopes", rrelu_slopes);
BIND_KERNEL(Cuda, "dropout_mask", dropout_mask);
BIND_KERNEL(Cuda, "random", random);
BIND_KERNEL(Cuda, "random.range", random_range);
BIND_KERNEL(Cuda, "randperm", randperm);
BIND_KERNEL(Cuda, "normal", normal);
BIND_KERNEL(Cuda, "bernoulli", bernoulli);
BIND_KERNEL(Cuda, "poisson", poisson);
BIND_KERNEL(Cuda, "_standard_gamma", standard_gamma);
BIND_KERNEL(Cuda, "binomial", binomial);
BIND_KERNEL(Cuda, "exponential", exponential);
BIND_KERNEL(Cuda, "geometric", geometric);
BIND_KERNEL(Cuda, "cauchy", cauchy);
BIND_KERNEL(Cuda, "log_normal", log_normal);
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
