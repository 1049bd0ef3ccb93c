// Random numbers as operations: which generator a call draws from, and the kernels of random.cpp.
#pragma once
#include "engine/base/generator.h"
#include "engine/ops/table/op.h"

namespace tycho {

// What a parameter of kind "generator" holds: a stream, and the device whose tensors it may fill.
struct DeviceGenerator {
  Device device;
  Generator* stream;
};

// The default stream of a device; each has its own. The CPU's is default_generator().
Generator& generator_of(Device device);
// Seeds the streams of all devices, as torch.manual_seed.
void seed_all(uint64_t seed);
// The generator named by argument i of a call, else the default one of `device`; raises
// Kind::Device when it belongs to another device.
Generator& generator_of(const Call& c, int i, Device device);

}  // namespace tycho

namespace tycho::cpu {

// Each fills c.out[0]; the order of arguments is that of the op with the same name.
void rand(Call& c);
void randn(Call& c);
void randint(Call& c);
void randint_high(Call& c);
void randperm(Call& c);
void rand_like(Call& c);
void randn_like(Call& c);
void randint_like(Call& c);
void randint_like_high(Call& c);
void normal(Call& c);
void normal_size(Call& c);
void normal_fill(Call& c);
void uniform(Call& c);
void random(Call& c);
void random_range(Call& c);
void bernoulli(Call& c);
void exponential(Call& c);
void geometric(Call& c);
void cauchy(Call& c);
void log_normal(Call& c);
void poisson(Call& c);
void multinomial(Call& c);
void dropout_mask(Call& c);
void masked_scale(Call& c);
void rrelu_slopes(Call& c);

}  // namespace tycho::cpu
