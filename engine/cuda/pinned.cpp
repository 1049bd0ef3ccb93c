// A copy keeps the host's tensor until its event, so that the memory is nobody else's before.
#include "engine/cuda/pinned.h"

#include "engine/base/check.h"
#include "engine/cuda/rows.h"
#include "engine/tensor/graph.h"

namespace tycho::cuda {
namespace {

struct PinnedSource final : DeviceMemory::Source {
  void* take(size_t bytes, int) override {
    context_of(current_cuda_device());
    void* memory = nullptr;
    return driver().allocate_pinned(&memory, bytes, kPortable) == kSuccess ? memory : nullptr;
  }
  void give(void* memory, size_t, int) override {
    context_of(current_cuda_device());
    driver().release_pinned(memory);
  }
};

// Never destroyed: tensors may outlive the end of main.
DeviceMemory& bins() {
  static auto* source = new PinnedSource;
  static auto* bins = new DeviceMemory(*source);
  return *bins;
}

}  // namespace

void* allocate_pinned(size_t bytes) { return bins().allocate(bytes); }
void release_pinned(void* memory, size_t bytes) { bins().release(memory, bytes); }

void forget_arrived(DeviceContext& d) {
  std::vector<Tensor> done;  // released without the lock
  const std::lock_guard lock(d.mutex);
  std::erase_if(d.arriving, [&](Arrival& a) {
    if (driver().ask_event(a.event) == kNotReady) return false;
    driver().end_event(a.event);
    done.push_back(std::move(a.host));
    return true;
  });
}

void copy_later(const Tensor& to, const Tensor& from) {
  const bool up = from.device().is_cpu();
  const Tensor& host = up ? from : to;
  // What the device cannot read by itself, or as it lies, is waited for.
  const bool waits = !host.device().is_cpu() || !is_pinned(*host->storage) ||
                     to.dtype() != from.dtype() || to.shape() != from.shape() || !to.contiguous() ||
                     !from.contiguous();
  tycho::Graph* const graph = capturing_on(up ? to.device() : from.device());
  if (graph && waits && host.device().is_cpu())
    graph->refuse("a copy between the device and memory that is not pinned, or lies otherwise,");
  if (waits) return copy(to, from);
  if (!to.numel()) return;
  const Device device = up ? to.device() : from.device();
  DeviceContext& d = context_of(device);
  forget_arrived(d);
  backend_of(device).use(up ? to.get() : from.get(), up);
  const Stream stream = stream_of(device);
  const size_t bytes =
      static_cast<size_t>(to.numel()) * static_cast<size_t>(dtype_size(to.dtype()));
  Event event = nullptr;
  if (graph) {
    graph->keep(host.get());
  } else {
    check(driver().new_event(&event, kEventWithoutTime), "a copy that comes later");
    const std::lock_guard lock(d.mutex);
    d.arriving.push_back({event, alias(host)});
  }
  const Result asked =
      up ? driver().copy_up(reinterpret_cast<Address>(to.data()), from.data(), bytes, stream)
         : driver().copy_down(to.data(), reinterpret_cast<Address>(from.data()), bytes, stream);
  if (event) check(driver().record_event(event, stream), "a copy that comes later");
  check(asked, up ? "copying to a device" : "copying from a device");
}

}  // namespace tycho::cuda
