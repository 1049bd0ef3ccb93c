// Random tensors: makers (rand, randn, randint, randperm), draws from tensors of parameters
// (bernoulli, normal, poisson, multinomial). The CPU's stream is PyTorch's (cpu/random/random.h), a
// device's comes from counters (base/philox.h). Fills in place stand in fills.cpp, dropout in
// nn/dropout.cpp.
#include "engine/ops/random/random.h"

#include <array>
#include <optional>

#include "engine/grad/node.h"
#include "engine/ops/shape/create.h"
#include "engine/ops/table/apply.h"
#include "engine/ops/table/samples.h"

namespace tycho {

namespace {

// A device's generator is made at its first use, with the last seed for all.
thread_local std::array<std::optional<PhiloxStream>, kMaxCudaDevices> device_streams;
thread_local std::optional<uint64_t> device_seed;

}  // namespace

RandomStream generator_of(Device device) {
  if (device.is_cpu()) return default_generator();
  auto& stream = device_streams[static_cast<size_t>(device.number)];
  if (!stream) stream.emplace(device_seed ? *device_seed : system_seed());
  return *stream;
}

// Starts no device's driver.
void seed_all(uint64_t seed) {
  default_generator().seed(seed);
  device_seed = seed;
  for (auto& stream : device_streams)
    if (stream) stream->seed(seed);
}

RandomStream generator_of(const Call& c, int i, Device device) {
  if (!c.has(i)) return generator_of(device);
  const DeviceGenerator& g = *c.arg[i].generator;
  if (!(g.device == device))
    fail(Kind::Device,
         format("the generator belongs to %s, the result lies on %s", device_name(g.device).c_str(),
                device_name(device).c_str()),
         "torch.Generator(\"" + device_name(device) + "\")");
  return g.stream;
}

namespace {

// Fills in place, or a new tensor, which is row-major whatever the layout of the argument, as in
// PyTorch: numbers are drawn in the order of memory.
void fill_self_by_rows(Call& c) {
  const Tensor& x = c.tensor(0);
  c.out.push_back(c.inplace ? x : empty(x.shape(), x.dtype(), x.device()));
}

#define TYCHO_MAKER \
  ", generator: generator?, dtype: dtype?, device: device?, requires_grad: bool = false"
#define TYCHO_LIKE                                                                         \
  ", dtype: dtype?, device: device?, generator: generator?, requires_grad: bool = false, " \
  "memory_format: string?"

const Op& rand =
    add_op({.name = "rand",
            .args = "size: ints*" TYCHO_MAKER,
            .doc = "Numbers drawn evenly from [0, 1).",
            .where = kFunction,
            .random = true,
            .differentiable = false,
            .see = "randn, uniform_, manual_seed",
            .rule = "sizes -> those sizes",
            .example = "torch.manual_seed(0);\n"
                       "torch.rand(2) --> f32 [2]   0.496  0.768",
            .shape = [](Call& c) { c.out.push_back(make(c, c.ints(0), 2, default_dtype())); },
            .samples =
                [](Samples& s) {
                  s.add({s.ints({2, 3})});
                  s.add({s.ints({})});
                  s.add({s.ints({4}), nullptr, DType::Float64});
                  s.add({s.ints({0, 3}), nullptr, DType::BFloat16});
                }});

const Op& randn =
    add_op({.name = "randn",
            .args = "size: ints*" TYCHO_MAKER,
            .doc = "Normal numbers with mean 0 and standard deviation 1.",
            .where = kFunction,
            .random = true,
            .differentiable = false,
            .see = "rand, normal, manual_seed",
            .rule = "sizes -> those sizes",
            .example = "torch.manual_seed(0);\n"
                       "torch.randn(2) --> f32 [2]   1.54  -0.29",
            .shape = [](Call& c) { c.out.push_back(make(c, c.ints(0), 2, default_dtype())); },
            .samples =
                [](Samples& s) {
                  s.add({s.ints({2, 3})});
                  s.add({s.ints({5, 7}), nullptr, DType::Float64});
                  s.add({s.ints({0}), nullptr, DType::Float16});
                }});

const Op& randint =
    add_op({.name = "randint",
            .args = "low: int, high: int, size: ints*" TYCHO_MAKER,
            .doc = "Integers from low to high - 1, each equally likely.",
            .where = kFunction,
            .random = true,
            .differentiable = false,
            .see = "rand, randperm",
            .rule = "size -> size",
            .example = "torch.manual_seed(0);\n"
                       "torch.randint(1, 7, {4}) --> i64 [4]  3 4 6 1",
            .shape = [](Call& c) { c.out.push_back(make(c, c.ints(2), 4, DType::Int64)); },
            .samples =
                [](Samples& s) {
                  s.add({-3, 4, s.ints({2, 3})});
                  s.add({0, 2, s.ints({5}), nullptr, DType::Float32});
                }});

const Op& randint_high =
    add_op({.name = "randint.high",
            .args = "high: int, size: ints*" TYCHO_MAKER,
            .doc = "Integers from 0 to high - 1, each equally likely.",
            .where = kFunction,
            .random = true,
            .differentiable = false,
            .see = "rand, randperm",
            .rule = "size -> size",
            .example = "torch.manual_seed(0);\n"
                       "torch.randint(10, {4}) --> i64 [4]  4 9 3 0",
            .shape = [](Call& c) { c.out.push_back(make(c, c.ints(1), 3, DType::Int64)); },
            .samples =
                [](Samples& s) {
                  s.add({10, s.ints({2, 3})});
                }});

const Op& randperm = add_op(
    {.name = "randperm",
     .args = "n: int" TYCHO_MAKER,
     .doc = "The positions 1 to n in random order.",
     .where = kFunction,
     .random = true,
     .differentiable = false,
     .see = "multinomial, arange",
     .rule = "n -> [n]",
     .example = "torch.manual_seed(0);\n"
                "torch.randperm(5) --> i64 [5]  5 1 2 4 3",
     .shape =
         [](Call& c) {
           const int64_t n = c.integer(0);
           TYCHO_CHECK(Kind::Value, n >= 0, "randperm: n must be 0 or more, not %lld",
                       static_cast<long long>(n));
           const DType t = c.dtype(2, DType::Int64);
           constexpr int digits[kDTypes] = {1, 8, 7, 15, 31, 63, 11, 8, 24, 53};
           const int d = digits[static_cast<int>(t)];
           TYCHO_CHECK(Kind::Value, d >= 63 || n <= (int64_t{1} << d) - (is_floating(t) ? 0 : 1),
                       "randperm: %s cannot hold every position from 1 to %lld", dtype_name(t),
                       static_cast<long long>(n));
           c.out.push_back(make(c, Sizes{n}, 2, DType::Int64));
         },
     .samples =
         [](Samples& s) {
           s.add({7});
           s.add({0});
           s.add({3, nullptr, DType::Float32});
         }});

const Op& rand_like =
    add_op({.name = "rand_like",
            .args = "self" TYCHO_LIKE,
            .doc = "Numbers drawn evenly from [0, 1), in the shape of a tensor.",
            .where = kFunction,
            .random = true,
            .differentiable = false,
            .see = "rand",
            .rule = "any shape -> the same shape",
            .example = "torch.manual_seed(0);\n"
                       "torch.rand_like(torch.zeros(2)) --> f32 [2]   0.496  0.768",
            .shape = [](Call& c) { c.out.push_back(make_like(c, 1, 5)); },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3})});
                }});

const Op& randn_like =
    add_op({.name = "randn_like",
            .args = "self" TYCHO_LIKE,
            .doc = "Normal numbers (mean 0, deviation 1) in a tensor's shape.",
            .where = kFunction,
            .random = true,
            .differentiable = false,
            .see = "randn",
            .rule = "any shape -> the same shape",
            .example = "torch.manual_seed(0);\n"
                       "torch.randn_like(torch.zeros(2)) --> f32 [2]   1.54  -0.29",
            .shape = [](Call& c) { c.out.push_back(make_like(c, 1, 5)); },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3})});
                }});

const Op& randint_like =
    add_op({.name = "randint_like",
            .args = "self, low: int, high: int" TYCHO_LIKE,
            .doc = "Integers from low to high - 1, in the shape of a tensor.",
            .where = kFunction,
            .random = true,
            .differentiable = false,
            .see = "randint",
            .rule = "any shape -> the same shape",
            .example = "torch.randint_like(torch.zeros(3), 5, 6) --> f32 [3]  5 5 5",
            .shape = [](Call& c) { c.out.push_back(make_like(c, 3, 7)); },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3}), 2, 9});
                }});

const Op& randint_like_high =
    add_op({.name = "randint_like.high",
            .args = "self, high: int" TYCHO_LIKE,
            .doc = "Integers from 0 to high - 1, in the shape of a tensor.",
            .where = kFunction,
            .random = true,
            .differentiable = false,
            .see = "randint",
            .rule = "any shape -> the same shape",
            .example = "torch.randint_like(torch.zeros(3), 1) --> f32 [3]  0 0 0",
            .shape = [](Call& c) { c.out.push_back(make_like(c, 2, 6)); },
            .samples =
                [](Samples& s) {
                  s.add({s.normal({2, 3}), 9});
                }});

const Op& normal = add_op(
    {.name = "normal",
     .args = "mean: operand, std: operand = 1.0, generator: generator?",
     .doc = "One normal number for each mean and standard deviation, tensors or numbers.",
     .where = kFunction,
     .random = true,
     .differentiable = false,
     .see = "randn, normal_",
     .rule = "shapes that broadcast -> their common shape",
     .example = "torch.normal(torch.tensor{1.0, 5.0}, 0.0) --> f32 [2]  1 5",
     .shape =
         [](Call& c) {
           const Tensor &mean = c.tensor(0), &std = c.tensor(1);
           TYCHO_CHECK(Kind::Argument, mean || std,
                       "normal: with a number for mean and std the third argument is the size");
           for (const Tensor& t : {mean, std})
             TYCHO_CHECK(Kind::DType, !t || is_floating(t.dtype()),
                         "normal: takes floating point numbers, not %s", dtype_name(t.dtype()));
           if (!std)
             TYCHO_CHECK(Kind::Value, c.number(1) >= 0,
                         "normal: needs a standard deviation of 0 or more, not %g", c.number(1));
           const Tensor& like = mean ? mean : std;
           c.out.push_back(empty(mean && std ? broadcast(mean.shape(), std.shape()) : like.shape(),
                                 like.dtype(), like.device()));
         },
     .samples =
         [](Samples& s) {
           s.add({s.normal({3, 2}), s.uniform({2}, 0.5, 2)});
           s.add({s.normal({3}), 2.0});
           s.add({0.5, s.uniform({3}, 0.5, 2)});
         }});

const Op& normal_size =
    add_op({.name = "normal.size",
            .args = "mean: float, std: float, size: ints*" TYCHO_MAKER,
            .doc = "Normal numbers of one mean and standard deviation, in the given size.",
            .where = kFunction,
            .random = true,
            .differentiable = false,
            .see = "randn",
            .rule = "size -> size",
            .example = "torch.normal(2.0, 0.0, {3}) --> f32 [3]  2 2 2",
            .shape = [](Call& c) { c.out.push_back(make(c, c.ints(2), 4, default_dtype())); },
            .samples =
                [](Samples& s) {
                  s.add({1.0, 2.0, s.ints({2, 3})});
                }});

const Op& bernoulli = add_op(
    {.name = "bernoulli",
     .args = "self, p: operand?, generator: generator?",
     .doc = "1 with the probability that each element gives (or p), else 0; x:bernoulli_(p) fills "
            "x, with p = 0.5 unless given.",
     .inplace = Inplace::Direct,
     .random = true,
     .see = "rand, multinomial",
     .rule = "any shape -> the same shape",
     .example = "torch.tensor{0.0, 1.0, 1.0}:bernoulli() --> f32 [3]  0 1 1",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           if (!c.has(1) && !c.inplace)
             TYCHO_CHECK(Kind::DType, is_floating(x.dtype()),
                         "bernoulli: the tensor holds probabilities, so it must be floating point, "
                         "not %s",
                         dtype_name(x.dtype()));
           if (const Tensor& p = c.tensor(1)) {
             TYCHO_CHECK(Kind::DType, is_floating(p.dtype()),
                         "bernoulli: p holds probabilities, so it must be floating point, not %s",
                         dtype_name(p.dtype()));
             TYCHO_CHECK(Kind::Broadcast, broadcast(x.shape(), p.shape()) == x.shape(),
                         "bernoulli: p of shape %s does not fit into shape %s",
                         to_string(p.shape()).c_str(), to_string(x.shape()).c_str());
           }
           fill_self_by_rows(c);
         },
     .grad = no_gradient,
     .samples =
         [](Samples& s) {
           s.add({s.uniform({2, 3}, 0, 1)}, false);
           s.add({s.normal({2, 3}), 0.3}, false);
           s.add({s.normal({2, 3}), s.uniform({3}, 0, 1)}, false);
         }});

const Op& poisson = add_op({.name = "poisson",
                            .args = "self, generator: generator?",
                            .doc = "Poisson counts, each with the rate that the element gives.",
                            .where = kFunction,
                            .random = true,
                            .see = "exponential_, poisson_nll_loss",
                            .rule = "any shape -> the same shape",
                            .example = "torch.poisson(torch.tensor{0.0, 0.0}) --> f32 [2]  0 0",
                            .shape = fill_self_by_rows,
                            .grad = no_gradient,
                            .samples = [](Samples& s) {
                              s.add({s.uniform({2, 3}, 0, 20)}, false);
                            }});

const Op& multinomial = add_op(
    {.name = "multinomial",
     .args = "self, num_samples: int, replacement: bool = false, generator: generator?",
     .doc = "Positions drawn with the weights in each row, without replacement unless asked.",
     .random = true,
     .differentiable = false,
     .see = "bernoulli, randperm",
     .rule = "[m] -> [num_samples]; [n, m] -> [n, num_samples]",
     .example = "torch.tensor{0.0, 1.0, 0.0}:multinomial(1) --> i64 [1]  2",
     .shape =
         [](Call& c) {
           const Tensor& x = c.tensor(0);
           TYCHO_CHECK(Kind::Dim, x.rank() == 1 || x.rank() == 2,
                       "multinomial: weights have 1 or 2 dimensions, not %d", x.rank());
           TYCHO_CHECK(Kind::Value, c.integer(1) > 0,
                       "multinomial: num_samples must be 1 or more, not %lld",
                       static_cast<long long>(c.integer(1)));
           TYCHO_CHECK(Kind::Shape, c.flag(2) || c.integer(1) <= x.size(-1),
                       "multinomial: cannot draw %lld of %lld categories without replacement",
                       static_cast<long long>(c.integer(1)), static_cast<long long>(x.size(-1)));
           Sizes shape = x.shape();
           shape[shape.n - 1] = c.integer(1);
           c.out.push_back(empty(shape, DType::Int64, x.device()));
         },
     .samples =
         [](Samples& s) {
           s.add({s.uniform({4}, 0.1, 1), 3});
           s.add({s.uniform({2, 4}, 0.1, 1), 6, true});
         }});

}  // namespace
}  // namespace tycho
