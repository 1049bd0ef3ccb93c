// The loops of the optimiser steps over one parameter: plain arrays of n elements.
#pragma once
#include "engine/cpu/level.h"

namespace tycho::cpu {

struct SgdStep {
  double lr, momentum, dampening, weight_decay;
  bool nesterov, maximize, first;
};
struct AdamStep {
  double step_size, beta1, beta2, eps, weight_decay, lr, root_bias2;
  bool amsgrad, maximize, decoupled;
};

}  // namespace tycho::cpu

TYCHO_LEVELS(void, sgd_f32,
             (float* p, const float* g, float* m, int64_t n, const ::tycho::cpu::SgdStep* s))
TYCHO_LEVELS(void, sgd_f64,
             (double* p, const double* g, double* m, int64_t n, const ::tycho::cpu::SgdStep* s))
TYCHO_LEVELS(void, adam_f32,
             (float* p, const float* g, float* m, float* v, float* most, int64_t n,
              const ::tycho::cpu::AdamStep* s))
TYCHO_LEVELS(void, adam_f64,
             (double* p, const double* g, double* m, double* v, double* most, int64_t n,
              const ::tycho::cpu::AdamStep* s))
