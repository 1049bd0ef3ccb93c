// The two backends of a process, and what is the same for all of them.
#include "engine/tensor/backend.h"

#include "engine/tensor/read.h"

namespace tycho {
namespace {

thread_local StreamId current_streams[kMaxCudaDevices] = {};

void release_pinned(void* data, size_t bytes, void*) { release(data, bytes); }

}  // namespace

constinit Backend* detail::backends[2] = {};

bool set_backend(bool cpu, Backend* backend) {
  detail::backends[!cpu] = backend;
  return true;
}

void KernelScope::begin() const {
  for (int8_t i = 0; i < kMaxCudaDevices; ++i)
    if (devices_ >> i & 1) backend_of(Device{i}).begin_kernel(Device{i});
}

void KernelScope::end() const {
  for (int8_t i = 0; i < kMaxCudaDevices; ++i)
    if (devices_ >> i & 1) backend_of(Device{i}).end_kernel(Device{i});
}

StreamId current_stream(Device device) {
  return device.is_cpu() ? 0 : current_streams[device.number];
}
void set_current_stream(Device device, StreamId stream) {
  if (!device.is_cpu()) current_streams[device.number] = stream;
}

Tensor empty_pinned(const Sizes& shape, DType dtype) {
  const Tensor t = empty(shape, dtype);
  // The memory is the host's; it is known by who frees it.
  if (!shapes_only) t->storage->free_data = release_pinned;
  return t;
}

bool is_pinned(const Storage& s) { return s.free_data == release_pinned; }

Tensor fetch(const Tensor& t) {
  if (t.device().is_cpu()) return t;
  return sent(t, Device{});
}

Tensor sent(const Tensor& t, Device device) {
  const Tensor copy = empty(t.shape(), t.dtype(), device);
  if (t.numel() && !shapes_only) backend_of(device.is_cpu() ? t.device() : device).copy(copy, t);
  return copy;
}

}  // namespace tycho
