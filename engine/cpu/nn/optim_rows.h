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

// The steps that share one loop (the table of optim.cpp says what they keep and what k holds).
enum class Rule : int { RMSprop, Adagrad, Adadelta, Adamax, NAdam, RAdam, ASGD, Rprop };
struct RuleStep {
  Rule rule;
  bool maximize;
  double decay, shrink, k[5];
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
TYCHO_LEVELS(void, rule_f32,
             (float* p, const float* g, float* first, float* second, float* third, int64_t n,
              const ::tycho::cpu::RuleStep* s))
TYCHO_LEVELS(void, rule_f64,
             (double* p, const double* g, double* first, double* second, double* third, int64_t n,
              const ::tycho::cpu::RuleStep* s))
