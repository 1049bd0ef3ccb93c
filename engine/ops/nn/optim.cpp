// Optimiser steps: one call updates all parameters of a group in one pass over memory each. They
// change their tensor lists in place, outside of any graph.

#include <deque>

#include "engine/ops/table/apply.h"

namespace tycho {
namespace {

// Every list has one tensor per parameter, of its shape, type and device.
void check_lists(Call& c) {
  const int n = c.count(0);
  for (int k = 1; k < c.op->param_count; ++k) {
    if (c.op->params[static_cast<size_t>(k)].take != Take::Tensors || c.count(k) == 0) continue;
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
            .writes = "params, momentum_buffers",
            .shape = check_lists});

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
            .writes = "params, exp_avgs, exp_avg_sqs, max_exp_avg_sqs",
            .shape = check_lists});

// The steps of one loop. All take parameters and gradients first, then
// their state, their numbers, and last weight decay, the factor of decoupled decay and maximize.
const Op& add_rule(const char* name, const char* writes, const char* args, const char* doc) {
  static std::deque<std::string> all;
  all.push_back(std::string("params: tensors, grads: tensors, ") + args +
                ", decay: float = 0.0, shrink: float = 1.0, maximize: bool = false");
  return add_op({.name = name,
                 .args = all.back().c_str(),
                 .doc = doc,
                 .where = kFunction,
                 .differentiable = false,
                 .writes = writes,
                 .shape = check_lists});
}

[[maybe_unused]] const Op* const fused_rules[] = {
    &add_rule("_fused_rmsprop", "params, square_avgs, momentum_buffers, grad_avgs",
              "square_avgs: tensors, momentum_buffers: tensors?, grad_avgs: tensors?, alpha: "
              "float, eps: float, lr: float, momentum: float",
              "One step of torch.optim.RMSprop; centred where grad_avgs are given."),
    &add_rule("_fused_adagrad", "params, sums", "sums: tensors, eps: float, lr: float",
              "One step of torch.optim.Adagrad."),
    &add_rule("_fused_adadelta", "params, square_avgs, acc_deltas",
              "square_avgs: tensors, acc_deltas: tensors, rho: float, eps: float, lr: float",
              "One step of torch.optim.Adadelta."),
    &add_rule("_fused_adamax", "params, exp_avgs, exp_infs",
              "exp_avgs: tensors, exp_infs: tensors, beta1: float, beta2: float, eps: float, "
              "lr: float",
              "One step of torch.optim.Adamax; lr is corrected for the bias already."),
    &add_rule("_fused_nadam", "params, exp_avgs, exp_avg_sqs",
              "exp_avgs: tensors, exp_avg_sqs: tensors, beta1: float, beta2: float, eps: "
              "float, lr_grad: float, lr_avg: float",
              "One step of torch.optim.NAdam; eps and both rates are corrected already."),
    &add_rule("_fused_radam", "params, exp_avgs, exp_avg_sqs",
              "exp_avgs: tensors, exp_avg_sqs: tensors, beta1: float, beta2: float, eps: "
              "float, lr: float, adaptive: float",
              "One step of torch.optim.RAdam; without `adaptive` along the average alone."),
    &add_rule("_fused_asgd", "params, axs", "axs: tensors, eta: float, mu: float",
              "One step of torch.optim.ASGD."),
    &add_rule("_fused_rprop", "params, prevs, step_sizes",
              "prevs: tensors, step_sizes: tensors, down: float, up: float, least: float, "
              "most: float",
              "One step of torch.optim.Rprop."),
};

// What GradScaler does to gradients: PyTorch's _amp_foreach_non_finite_check_and_unscale_.
[[maybe_unused]] const Op& unscale =
    add_op({.name = "_fused_unscale",
            .args = "grads: tensors, factor: float",
            .doc = "Multiplies every gradient by the factor, in place, and tells whether any "
                   "element was inf or nan: one boolean.",
            .where = kFunction,
            .differentiable = false,
            .writes = "grads",
            .shape = [](Call& c) {
              check_lists(c);
              TYCHO_CHECK(Kind::Argument, c.count(0) > 0, "_fused_unscale: no gradients");
              c.out.push_back(empty(Sizes{}, DType::Bool, c.tensor(0, 0).device()));
            }});

}  // namespace
}  // namespace tycho
