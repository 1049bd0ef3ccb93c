// The kernels of ops/random/random.cpp and ops/nn/dropout.cpp: numbers of cpu/random/random.h into
// tensors of any layout, in PyTorch's order, which is that of memory as a user sees it.
#include <algorithm>

#include "engine/base/parallel.h"
#include "engine/cpu/elementwise/rows.h"
#include "engine/cpu/nn/dropout.h"
#include "engine/cpu/random/random.h"
#include "engine/ops/elementwise/elementwise.h"
#include "engine/ops/random/random.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/kernel.h"
#include "engine/tensor/read.h"

namespace tycho::cpu {
namespace {

// Dims from the largest stride to the smallest.
Sizes descending(const Sizes& stride) {
  Sizes order;
  for (int d = 0; d < stride.n; ++d) order.push_back(d);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return stride[a] > stride[b]; });
  return order;
}
// The order in which a tensor's numbers are drawn: that of its memory, as a user sees it.
Sizes memory_order(const Tensor& t) { return descending(shown_strides(t.get())); }

Tensor permuted(const Tensor& t, const Sizes& order) {
  Sizes shape, stride;
  for (int64_t d : order) {
    shape.push_back(t->shape[d]);
    stride.push_back(t->stride[d]);
  }
  return alias(t, shape, stride, t->offset);
}

// A parameter of each element, in the order of the result's memory.
Tensor parameters(const Tensor& t, const Tensor& y) {
  return packed(permuted(op<"expand">(t, y.shape()), memory_order(y)));
}

// Calls f(memory, elements) so that the tensor is filled in memory order. Where it has gaps, f
// fills a dense tensor first; should f raise, nothing is written.
template <class F>
void fill(const Tensor& t, F f) {
  if (t.numel() == 0) return;
  if (t.contiguous()) return f(static_cast<void*>(t.data()), t.numel());
  const Tensor ordered = permuted(t, memory_order(t));
  if (ordered.contiguous()) return f(static_cast<void*>(ordered.data()), ordered.numel());
  const Tensor dense = empty(ordered.shape(), t.dtype());
  f(static_cast<void*>(dense.data()), dense.numel());
  copy_raw(ordered, dense);
}

RandomStream stream(const Call& c, int i) { return generator_of(c, i, c.out[0].device()); }

// Fills the result by a function of cpu/random/random.h with these parameters; `generator` is the
// position of that argument.
template <class... P, class... Q>
void draw(const Call& c, int generator, void (*random)(RandomStream, void*, DType, int64_t, P...),
          Q... parameters) {
  const RandomStream g = stream(c, generator);
  const Tensor& y = c.out[0];
  fill(y, [&](void* to, int64_t n) { random(g, to, y.dtype(), n, parameters...); });
}
void draw_normal(const Call& c, int generator, double mean, double std) {
  draw(c, generator, random_normal, mean, std, shown_contiguous(c.out[0].get()));
}
void draw_integers(const Call& c, int generator, IntegerRange range) {
  draw<IntegerRange>(c, generator, random_integers, range);
}
void draw_integers(const Call& c, int generator, int64_t from, int64_t to) {
  draw_integers(c, generator, integer_range(c.out[0].dtype(), from, to));
}

}  // namespace

void rand(Call& c) { draw(c, 1, random_uniform, 0.0, 1.0); }
void randn(Call& c) { draw_normal(c, 1, 0, 1); }
void randint(Call& c) { draw_integers(c, 3, c.integer(0), c.integer(1)); }
void randint_high(Call& c) { draw_integers(c, 2, 0, c.integer(0)); }
void rand_like(Call& c) { draw(c, 3, random_uniform, 0.0, 1.0); }
void randn_like(Call& c) { draw_normal(c, 3, 0, 1); }
void randint_like(Call& c) { draw_integers(c, 5, c.integer(1), c.integer(2)); }
void randint_like_high(Call& c) { draw_integers(c, 4, 0, c.integer(1)); }

void randperm(Call& c) {
  const Tensor& y = c.out[0];
  const RandomStream g = stream(c, 1);
  const Tensor positions = y.dtype() == DType::Int64 ? y : empty(y.shape(), DType::Int64);
  random_permutation(g, positions.data<int64_t>(), positions.numel(), 1);
  if (positions.get() != y.get()) copy_raw(y, positions);
}

void normal(Call& c) {
  const Tensor& y = c.out[0];
  if (const Tensor& std = c.tensor(1); std && item<bool>(op<"any">(fn::lt(std, 0)))) {
    for (int64_t i = 0; i < std.numel(); ++i)  // the first to blame
      TYCHO_CHECK(Kind::Value, !(number_at(std, i) < 0),
                  "normal: needs standard deviations of 0 or more, element %lld is %g",
                  static_cast<long long>(i + 1), number_at(std, i));
  }
  draw_normal(c, 2, 0, 1);
  op_<"mul">(y, c.arg[1]);
  op_<"add">(y, c.arg[0]);
}
void normal_size(Call& c) { draw_normal(c, 3, c.number(0), c.number(1)); }
void normal_fill(Call& c) { draw_normal(c, 3, c.number(1), c.number(2)); }
void uniform(Call& c) { draw(c, 3, random_uniform, c.number(1), c.number(2)); }

void random(Call& c) {
  if (c.has(1)) return draw_integers(c, 2, 0, c.integer(1));
  draw<>(c, 2, random_integers);
}

void random_range(Call& c) {
  const DType type = c.out[0].dtype();
  const int64_t from = c.integer(1);
  if (c.has(2)) return draw_integers(c, 3, from, c.integer(2));
  draw_integers(c, 3, integer_range_from(type, from));
}

void bernoulli(Call& c) {
  const Tensor& y = c.out[0];
  const RandomStream g = stream(c, 2);
  const Tensor p = c.arg[1].tag == Tag::Tensor ? c.tensor(1)
                   : c.has(1) || c.inplace     ? Tensor()
                                               : c.tensor(0);
  if (!p) {
    const double chance = c.has(1) ? c.number(1) : 0.5;
    fill(y, [&](void* to, int64_t n) { random_bernoulli(g, to, y.dtype(), n, chance); });
    return;
  }
  const Tensor chances = parameters(p, y);
  fill(y, [&](void* to, int64_t n) {
    random_bernoulli(g, to, y.dtype(), n, chances.data(), chances.dtype());
  });
}

void exponential(Call& c) { draw(c, 2, random_exponential, c.number(1)); }
void geometric(Call& c) { draw(c, 2, random_geometric, c.number(1)); }
void cauchy(Call& c) { draw(c, 3, random_cauchy, c.number(1), c.number(2)); }
void log_normal(Call& c) { draw(c, 3, random_log_normal, c.number(1), c.number(2)); }

void poisson(Call& c) {
  const Tensor &y = c.out[0], rates = parameters(c.tensor(0), y);
  const RandomStream g = stream(c, 1);
  fill(y, [&](void* p, int64_t n) { random_poisson(g, p, rates.data(), y.dtype(), n); });
}

void standard_gamma(Call& c) {
  const Tensor &y = c.out[0], shapes = parameters(c.tensor(0), y);
  const RandomStream g = stream(c, 1);
  fill(y, [&](void* p, int64_t n) { random_gamma(g, p, shapes.data(), y.dtype(), n); });
}

void binomial(Call& c) {
  const Tensor &y = c.out[0], counts = parameters(c.tensor(0), y),
               chances = parameters(c.tensor(1), y);
  const RandomStream g = stream(c, 2);
  fill(y, [&](void* p, int64_t n) {
    random_binomial(g, p, counts.data(), chances.data(), y.dtype(), n);
  });
}

void multinomial(Call& c) {
  const Tensor weights = packed(c.tensor(0));
  // As in PyTorch, the noise of categories that race lies, and is drawn, as the weights do.
  Tensor noise;
  if (!c.tensor(0).contiguous() && (!c.flag(2) || c.integer(1) == 1)) {
    noise = empty_like(c.tensor(0));
    op_<"exponential">(noise, 1.0, c.arg[3]);
    noise = packed(noise);
  }
  const int64_t categories = weights.size(-1), rows = weights.rank() == 2 ? weights.size(0) : 1;
  random_multinomial(stream(c, 3), c.out[0].data<int64_t>(), weights.data(), weights.dtype(), rows,
                     categories, c.integer(1), c.flag(2), 1, noise ? noise.data() : nullptr);
}

// --- Dropout ---

void dropout_mask(Call& c) {
  fill(c.out[0], [&](void* y, int64_t n) {
    random_bernoulli(generator_of(c.out[0].device()), y, c.out[0].dtype(), n, c.number(1));
  });
}

void masked_scale(Call& c) {
  const Tensor& y = c.out[0];
  Tensor x = c.tensor(0), mask = c.tensor(1);
  // The result lies as x does; the mask, made like the forward pass's x, mostly does as well.
  const Sizes order = descending(y.strides());
  x = packed(permuted(x, order));
  mask = packed(permuted(mask, order));
  const DType dtype = y.dtype();
  char* const to = y.data();
  const char* const from = x.data();
  const uint8_t* const keep = mask.data<uint8_t>();
  const double scale = c.number(2);
  parallel_for(y.numel(), 32768, [&](int64_t begin, int64_t end) {
    const int64_t n = end - begin;
    if (dtype == DType::Float64) {
      level_of::mask_scale_f64(reinterpret_cast<const double*>(from) + begin, keep + begin,
                               reinterpret_cast<double*>(to) + begin, n, scale);
    } else if (dtype == DType::Float32) {
      level_of::mask_scale_f32(reinterpret_cast<const float*>(from) + begin, keep + begin,
                               reinterpret_cast<float*>(to) + begin, n, static_cast<float>(scale));
    } else {
      alignas(64) float tile[1024];
      const int code = static_cast<int>(dtype), lanes = static_cast<int>(Lanes::F32);
      for (int64_t i = begin; i < end; i += 1024) {
        const int64_t m = std::min<int64_t>(1024, end - i);
        level_of::load_tile(lanes, code, static_cast<void*>(tile),
                            static_cast<const void*>(from + 2 * i), int64_t{1}, m);
        level_of::mask_scale_f32(static_cast<const float*>(tile), keep + i,
                                 static_cast<float*>(tile), m, static_cast<float>(scale));
        level_of::store_tile(lanes, code, static_cast<void*>(to + 2 * i),
                             static_cast<const void*>(tile), int64_t{1}, m);
      }
    }
  });
}

// The factor of each element: 1 where it is positive, else a slope.
void rrelu_slopes(Call& c) {
  const Tensor& y = c.out[0];
  const Tensor x = packed(permuted(c.tensor(0), memory_order(y)));
  const double lower = c.number(1), upper = c.number(2);
  const RandomStream g = generator_of(y.device());
  fill(y, [&](void* p, int64_t n) {
    const Tensor slopes = empty(Sizes{n}, DType::Float64);
    double* const slope = slopes.data<double>();
    if (g.philox && c.flag(3)) random_uniform(g, slope, DType::Float64, n, lower, upper);
    for (int64_t i = 0; i < n; ++i) {
      if (number_at(x, i) > 0)
        slope[i] = 1;
      else if (!c.flag(3))
        slope[i] = (lower + upper) / 2;
      else if (g.mersenne)
        slope[i] = g.mersenne->next_double53() * (upper - lower) + lower;
    }
    level_of::store_tile(static_cast<int>(Lanes::F64), static_cast<int>(y.dtype()), p,
                         static_cast<const void*>(slopes.data()), int64_t{1}, n);
  });
}

BIND_KERNEL(Cpu, "dropout_mask", dropout_mask);
BIND_KERNEL(Cpu, "masked_scale", masked_scale);
BIND_KERNEL(Cpu, "rrelu_slopes", rrelu_slopes);
BIND_KERNEL(Cpu, "rand", rand);
BIND_KERNEL(Cpu, "randn", randn);
BIND_KERNEL(Cpu, "randint", randint);
BIND_KERNEL(Cpu, "randint.high", randint_high);
BIND_KERNEL(Cpu, "randperm", randperm);
BIND_KERNEL(Cpu, "rand_like", rand_like);
BIND_KERNEL(Cpu, "randn_like", randn_like);
BIND_KERNEL(Cpu, "randint_like", randint_like);
BIND_KERNEL(Cpu, "randint_like.high", randint_like_high);
BIND_KERNEL(Cpu, "normal", normal);
BIND_KERNEL(Cpu, "normal.size", normal_size);
BIND_KERNEL(Cpu, "bernoulli", bernoulli);
BIND_KERNEL(Cpu, "poisson", poisson);
BIND_KERNEL(Cpu, "_standard_gamma", standard_gamma);
BIND_KERNEL(Cpu, "binomial", binomial);
BIND_KERNEL(Cpu, "multinomial", multinomial);
BIND_KERNEL(Cpu, "uniform", uniform);
BIND_KERNEL(Cpu, "normal.fill", normal_fill);
BIND_KERNEL(Cpu, "random", random);
BIND_KERNEL(Cpu, "random.range", random_range);
BIND_KERNEL(Cpu, "exponential", exponential);
BIND_KERNEL(Cpu, "geometric", geometric);
BIND_KERNEL(Cpu, "cauchy", cauchy);
BIND_KERNEL(Cpu, "log_normal", log_normal);

}  // namespace tycho::cpu
