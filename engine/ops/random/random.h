// Random numbers as operations: which generator a call draws from, and the kernels of random.cpp.
#pragma once
#include "engine/base/random_stream.h"
#include "engine/ops/table/op.h"

namespace tycho {

// What a parameter of kind "generator" holds: a stream, and the device whose tensors it may fill.
struct DeviceGenerator {
  Device device;
  RandomStream stream;
};

// The default stream of a device, of its backend's kind; each device and thread has its own. The
// CPU's is default_generator().
RandomStream generator_of(Device device);
// Seeds the streams of all devices, as torch.manual_seed.
void seed_all(uint64_t seed);
// The generator named by argument i of a call, else the default one of `device`; raises
// Kind::Device when it belongs to another device.
RandomStream generator_of(const Call& c, int i, Device device);
// The gradient of what is drawn: zeros, since it does not depend on the numbers that stood there.
void no_gradient(Backward& b);

}  // namespace tycho
