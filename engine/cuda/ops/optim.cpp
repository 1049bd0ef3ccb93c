// Optimiser steps on a device: many parameters in one launch. Tensors whose lists do not lie alike go
// through row-major copies.
#include "engine/cuda/kernels/optim.cuh"

#include <cmath>
#include <vector>

#include "engine/cpu/nn/optim_steps.h"
#include "engine/cuda/context.h"
#include "engine/cuda/ops/rowmajor.h"
#include "engine/ops/table/kernel.h"

namespace tycho::cuda {
namespace {

using cpu::AdamStep;
using cpu::Rule;
using cpu::RuleStep;
using cpu::SgdStep;

// Parameters, gradients and state of a call, one kind of lanes after the other.
class Lists {
 public:
  // `lists`: the arguments, -1 for none.
  Lists(const Call& c, const int (&lists)[kOptimLists]) : c_(c), lists_(lists) {}

  template <class... Numbers>
  void run(const char* f32, const char* f64, const Numbers&... numbers) {
    const int n = c_.count(0);
    for (const bool wide : {false, true}) {
      OptimLists a{};
      for (int i = 0; i < n; ++i) {
        if (is_wide(i) != wide || c_.tensor(0, i).numel() == 0) continue;
        if (a.count && (a.count == kOptimTensors || !(c_.tensor(0, i).device() == device_)))
          flush(a, wide ? f64 : f32, numbers...);
        add(a, i);
      }
      if (a.count) flush(a, wide ? f64 : f32, numbers...);
    }
  }

 private:
  const Tensor& tensor(int k, int i) const {
    static const Tensor none;
    const int list = lists_[k];
    return list >= 0 && c_.has(list) && c_.count(list) > 0 ? c_.tensor(list, i) : none;
  }
  bool is_wide(int i) const {
    for (int k = 0; k < kOptimLists; ++k)
      if (wants_double(tensor(k, i))) return true;
    return false;
  }
  void add(OptimLists& a, int i) {
    const Tensor& p = tensor(0, i);
    device_ = p.device();
    bool alike = is_dense(p.get());
    for (int k = 1; k < kOptimLists; ++k)
      if (const Tensor& t = tensor(k, i)) alike = alike && t.strides() == p.strides();
    for (int k = 0; k < kOptimLists; ++k) {
      const Tensor& t = tensor(k, i);
      if (!t) continue;
      const Tensor memory = alike ? t : packed(t);
      if (memory.get() != t.get() && k != 1) copies_.push_back({t, memory});
      hold_.push_back(memory);
      a.data[k][a.count] = memory.data<void>();
      a.dtype[k][a.count] = static_cast<uint8_t>(number_of(t));
    }
    a.numel[a.count] = p.numel();
    const int64_t chunks = (p.numel() + kOptimChunk - 1) / kOptimChunk;
    a.first_block[a.count + 1] = a.first_block[a.count] + static_cast<int32_t>(chunks);
    ++a.count;
  }
  template <class... Numbers>
  void flush(OptimLists& a, const char* kernel, const Numbers&... numbers) {
    launch(device_, {"optim", kernel}, {static_cast<unsigned>(a.first_block[a.count])}, {256}, 0, a,
           numbers...);
    for (const auto& [to, from] : copies_) copy_raw(to, from);
    copies_.clear();
    hold_.clear();
    a = {};
  }

  const Call& c_;
  const int (&lists_)[kOptimLists];
  Device device_;
  std::vector<Tensor> hold_;
  std::vector<std::pair<Tensor, Tensor>> copies_;
};

constexpr int kOne[] = {0, 1, 2, -1, -1}, kTwo[] = {0, 1, 2, 3, -1}, kThree[] = {0, 1, 2, 3, 4},
              kGradients[] = {0, -1, -1, -1, -1};

void fused_sgd(Call& c) {
  const SgdStep s{c.number(3), c.number(4), c.number(5), c.number(6),
                  c.flag(7),   c.flag(8),   c.flag(9)};
  Lists(c, kOne).run("optim_sgd_f32", "optim_sgd_f64", s);
}

void fused_adam(Call& c) {
  const int64_t flags = c.integer(11);
  const AdamStep s =
      cpu::adam_step(static_cast<double>(c.integer(5)), c.number(6), c.number(7), c.number(8),
                     c.number(9), c.number(10), static_cast<int>(flags));
  Lists(c, kThree).run("optim_adam_f32", "optim_adam_f64", s);
}

void fused_unscale(Call& c) {
  const Tensor& bad = c.out[0];
  cuda::check(
      driver().set_bytes(reinterpret_cast<Address>(bad.data()), 0, 1, stream_of(bad.device())),
      c.op->name);
  Lists(c, kGradients)
      .run("optim_unscale_f32", "optim_unscale_f64", c.number(1), bad.data<uint8_t>());
}

// Arguments: parameters, gradients, lists of state, numbers, decay, shrink, maximize.
void fused_rule(Call& c, Rule rule, int states, const char* f32, const char* f64) {
  const int last = static_cast<int>(c.op->params.size()) - 1, numbers = 2 + states;
  RuleStep s{rule, c.flag(last), c.number(last - 2), c.number(last - 1), {}};
  for (int k = numbers; k < last - 2; ++k) s.k[k - numbers] = c.number(k);
  Lists(c, states == 1 ? kOne : states == 2 ? kTwo : kThree).run(f32, f64, s);
}

BIND_KERNEL(Cuda, "_fused_sgd", fused_sgd);
BIND_KERNEL(Cuda, "_fused_adam", fused_adam);
BIND_KERNEL(Cuda, "_fused_unscale", fused_unscale);
#define RULE(op, name, states)                                                       \
  BIND_KERNEL(Cuda, op, [](Call& c) {                                                \
    fused_rule(c, Rule::name, states, "optim_" #name "_f32", "optim_" #name "_f64"); \
  });
RULE("_fused_rmsprop", RMSprop, 3)
RULE("_fused_adagrad", Adagrad, 1)
RULE("_fused_adadelta", Adadelta, 2)
RULE("_fused_adamax", Adamax, 2)
RULE("_fused_nadam", NAdam, 2)
RULE("_fused_radam", RAdam, 2)
RULE("_fused_asgd", ASGD, 1)
RULE("_fused_rprop", Rprop, 2)

}  // namespace
}  // namespace tycho::cuda
