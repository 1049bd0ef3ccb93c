// The loops of the optimiser steps over one parameter: plain arrays of n elements.
#pragma once
#include "engine/cpu/level.h"
#include "engine/cpu/nn/optim_steps.h"

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
