// ctc_loss on a device: lengths and labels are looked at on the host (ops/nn/ctc.h), the recursions run
// in kernels/ctc.cu.
#include "engine/ops/nn/ctc.h"

#include <algorithm>

#include "engine/cuda/kernels/ctc.cuh"
#include "engine/cuda/ops/rowmajor.h"
#include "engine/ops/table/kernel.h"
#include "engine/tensor/read.h"

namespace tycho::cuda {
namespace {

Tensor sent_numbers(const std::vector<int64_t>& numbers, Device device) {
  const Tensor t =
      empty(Sizes{std::max<int64_t>(1, static_cast<int64_t>(numbers.size()))}, DType::Int64);
  std::copy(numbers.begin(), numbers.end(), t.data<int64_t>());
  return sent(t, device);
}

void ctc(Call& c) {
  const CtcSequences all = ctc_sequences(c);
  const Tensor x = packed(c.tensor(0));
  const Device device = x.device();
  const Written loss(c.out[0]), gradient(c.out[1]);
  const Tensor steps = sent_numbers(all.steps, device), begin = sent_numbers(all.begin, device),
               labels = sent_numbers(all.labels, device);
  Ctc a{};
  a.x = x.data<void>();
  a.loss = loss.data();
  a.gradient = gradient.data();
  a.dtype = number_of(x);
  a.zero_infinity = c.flag(5);
  a.all_steps = x.size(0);
  a.n = x.size(1);
  a.classes = x.size(2);
  a.blank = c.integer(4);
  for (int64_t i = 0; i < a.n; ++i)
    a.states = std::max(a.states, 2 * static_cast<int64_t>(all.labels_of(i).size()) + 1);
  a.steps = steps.data<int64_t>();
  a.begin = begin.data<int64_t>();
  a.labels = labels.data<int64_t>();
  const auto room = static_cast<size_t>(std::max<int64_t>(1, a.n * a.states)) * sizeof(double);
  const auto every = room * static_cast<size_t>(std::max<int64_t>(1, a.all_steps));
  const Scratch forward(device, every), backward(device, every), next(device, room);
  a.forward = forward.as<double>();
  a.backward = backward.as<double>();
  a.next = next.as<int64_t>();
  if (a.n) launch(device, {"ctc", "ctc"}, {static_cast<unsigned>(a.n)}, {256}, 0, a);
  loss.finish();
  gradient.finish();
}

BIND_KERNEL(Cuda, "_ctc", ctc);

}  // namespace
}  // namespace tycho::cuda
