// What apply does for calls whose tensors lie on devices, and whether there are any.
#pragma once
#include <string>

#include "engine/ops/table/op.h"
#include "engine/tensor/backend.h"
#include "engine/tensor/graph.h"

namespace tycho {

// Without counting them: where nobody has, no tensor lies on one, and a driver need not be started.
inline bool devices_in_use() { return detail::device_count.load(std::memory_order_relaxed) > 0; }

// Calls f(tensor, argument) for each tensor among the arguments, and in their lists.
template <class F>
void each_tensor(const Call& c, F&& f) {
  for (int i = 0; i < c.n; ++i) {
    if (c.arg[i].tag == Tag::Tensor) {
      f(c.arg[i].t, i);
    } else if (c.arg[i].tag == Tag::Tensors) {
      for (uint32_t k = 0; k < c.arg[i].n; ++k)
        if (c.arg[i].tensors[k]) f(c.arg[i].tensors[k], i);
    }
  }
}

// The name that users see: without the overload's suffix.
std::string public_name(const Op& op);

// A bit for each device whose memory a kernel of this call touches.
uint32_t devices_of_tensors(const Call& c);
inline uint32_t devices_of(const Call& c) { return devices_in_use() ? devices_of_tensors(c) : 0; }

// Whose kernels run: those of the first device among the arguments, named or a tensor's.
BackendKind backend_of_tensors(const Call& c);
inline BackendKind backend_of(const Call& c) {
  if (!devices_in_use()) [[likely]]
    return BackendKind::Cpu;
  return backend_of_tensors(c);
}

// Raises where tensors of different devices meet.
void check_devices(const Call& c);

// What a graph that is being captured reads and writes stays as long as it.
void keep_for_graph(const Call& c);
inline bool touches_captured(const Call& c) {
  return capturing && (devices_of(c) & KernelScope::bit(capturing->device()));
}
// Is the call kept by a graph instead of run? Copies are not operations to it: it keeps what they ask
// of the backend.
bool taken_by_graph(Call& c, Kernel kernel);

// What the kernel reads is there, and what it writes nobody reads any more.
void use_on_streams(const Call& c);

// A device without a kernel of its own for the operation: the CPU's runs on copies of the arguments,
// and the results, and the arguments that it wrote to, go back.
void run_on_cpu(Call& c, Kernel kernel);

}  // namespace tycho
