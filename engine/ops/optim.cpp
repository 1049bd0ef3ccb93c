// Optimiser steps: one call updates all parameters of a group in one pass over memory each. They
// change their tensor lists in place, outside of any graph.
#include "engine/ops/optim.h"

#include "engine/ops/apply.h"

namespace tycho {
namespace {

// Every list has one tensor per parameter, of its shape, type and device.
void check_lists(Call& c, std::initializer_list<int> lists) {
  const int n = c.count(0);
  for (int k : lists) {
    if (!c.has(k) || c.count(k) == 0) continue;
    TYCHO_CHECK(Kind::Argument, c.count(k) == n, "%s: %d parameters but %d in \"%s\"", c.op->name,
                n, c.count(k), c.op->params[static_cast<size_t>(k)].name.c_str());
    for (int i = 0; i < n; ++i) {
      const Tensor &p = c.tensor(0, i), &t = c.tensor(k, i);
      TYCHO_CHECK(Kind::Shape, t.shape() == p.shape(), "%s: parameter %d has shape %s, its %s %s",
                  c.op->name, i + 1, to_string(p.shape()).c_str(),
                  c.op->params[static_cast<size_t>(k)].name.c_str(), to_string(t.shape()).c_str());
      TYCHO_CHECK(Kind::Device, t.device() == p.device(), "%s: parameter %d is on %s, its %s on %s",
                  c.op->name, i + 1, device_name(p.device()).c_str(),
                  c.op->params[static_cast<size_t>(k)].name.c_str(),
                  device_name(t.device()).c_str());
    }
  }
  for (int i = 0; i < n; ++i)
    TYCHO_CHECK(Kind::DType, is_floating(c.tensor(0, i).dtype()),
                "%s: parameter %d is %s; only floating point tensors can be trained", c.op->name,
                i + 1, dtype_name(c.tensor(0, i).dtype()));
}

// The step itself, then the versions: everything was checked before the first write.
template <void (*kernel)(Call&), int... lists>
void step(Call& c) {
  kernel(c);
  for (int k : {0, lists...})
    if (c.has(k))
      for (int i = 0; i < c.count(k); ++i) ++c.tensor(k, i)->storage->version;
}

[[maybe_unused]] const Op& sgd =
    add_op({.name = "_fused_sgd",
            .args = "params: tensors, grads: tensors, momentum_buffers: tensors?, lr: float, "
                    "momentum: float = 0.0, "
                    "dampening: float = 0.0, weight_decay: float = 0.0, nesterov: bool = false, "
                    "maximize: bool = false, "
                    "first: bool = false",
            .doc = "One step of stochastic gradient descent with momentum (as torch.optim.SGD) on "
                   "every parameter.",
            .where = kFunction,
            .differentiable = false,
            .shape =
                [](Call& c) {
                  check_lists(c, {1, 2});
                },
            .kernel = step<cpu::fused_sgd, 2>});

[[maybe_unused]] const Op& adam =
    add_op({.name = "_fused_adam",
            .args = "params: tensors, grads: tensors, exp_avgs: tensors, exp_avg_sqs: tensors, "
                    "max_exp_avg_sqs: tensors?, "
                    "step: int, lr: float, beta1: float, beta2: float, eps: float, weight_decay: "
                    "float, flags: int = 0",
            .doc = "One step of Adam (Kingma and Ba 2015), as torch.optim.Adam; flags: 1 amsgrad, "
                   "2 maximize, 4 decoupled "
                   "weight decay (AdamW, Loshchilov and Hutter 2019).",
            .where = kFunction,
            .differentiable = false,
            .shape =
                [](Call& c) {
                  check_lists(c, {1, 2, 3, 4});
                },
            .kernel = step<cpu::fused_adam, 2, 3, 4>});

}  // namespace
}  // namespace tycho
