// The two backends of a process, and what is the same for all of them.
#include "engine/tensor/backend.h"

#include "engine/base/check.h"
#include "engine/tensor/defer.h"
#include "engine/tensor/graph.h"
#include "engine/tensor/read.h"

namespace tycho {
namespace {

thread_local StreamId current_streams[kMaxCudaDevices] = {};

void release_pinned(void* data, size_t bytes, void* backend) {
  static_cast<Backend*>(backend)->release_pinned(data, bytes);
}

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

std::unique_ptr<Recording> Backend::record(Device device, StreamId, int64_t) {
  fail(Kind::Device, device_name(device) + " captures no graphs");
}

StreamId current_stream(Device device) {
  return device.is_cpu() ? 0 : current_streams[device.number];
}
void set_current_stream(Device device, StreamId stream) {
  run_held_rows();  // on the stream that they were asked for on
  if (!device.is_cpu()) current_streams[device.number] = stream;
}

Tensor empty_pinned(const Sizes& shape, DType dtype) {
  const Tensor t = empty(shape, dtype);
  if (shapes_only) return t;
  cuda_device_count();  // so that the devices' backend is the one that stays
  Storage& s = *t->storage;
  Backend* const backend = detail::backends[1];
  void* const memory = backend->allocate_pinned(s.bytes);
  TYCHO_CHECK(Kind::Oom, memory, "out of memory: %.1f MB of pinned memory wanted",
              static_cast<double>(s.bytes) / 1e6);
  release(s.data, s.bytes);
  s.data = memory;
  s.context = backend;
  s.free_data = release_pinned;  // pinned memory is known by who frees it
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
