// The numbers of one optimiser step, as every kernel of it takes them.
#pragma once
#ifndef __CUDACC__
#include <cmath>
#endif

namespace tycho::cpu {

struct SgdStep {
  double lr, momentum, dampening, weight_decay;
  bool nesterov, maximize, first;
};
struct AdamStep {
  double step_size, beta1, beta2, eps, weight_decay, lr, root_bias2;
  bool amsgrad, maximize, decoupled;
};

#ifndef __CUDACC__
// Step number `step` from 1; flags: 1 amsgrad, 2 maximize, 4 decoupled weight decay.
static inline AdamStep adam_step(double step, double lr, double beta1, double beta2, double eps,
                                 double decay, int flags) {
  return {lr / (1 - std::pow(beta1, step)),
          beta1,
          beta2,
          eps,
          decay,
          lr,
          std::sqrt(1 - std::pow(beta2, step)),
          (flags & 1) != 0,
          (flags & 2) != 0,
          (flags & 4) != 0};
}
#endif

// The steps that share one loop (the table of optim.cpp says what they keep and what k holds).
enum class Rule : int { RMSprop, Adagrad, Adadelta, Adamax, NAdam, RAdam, ASGD, Rprop };
struct RuleStep {
  Rule rule;
  bool maximize;
  double decay, shrink, k[5];
};

}  // namespace tycho::cpu
