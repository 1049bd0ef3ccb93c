// One step of ctc_loss over all states (see ctc_step.h).
#include "engine/cpu/lanes/math_exp.h"
#include "engine/cpu/nn/ctc_step.h"

namespace tycho::cpu::TYCHO_LEVEL {

void ctc_step(const double* from, const double* jump, const double* p, double* to, int64_t n) {
  using L = Lane<double>;
  static_assert(L::size <= kCtcLane);
  const L never(-__builtin_huge_val());
  for (int64_t s = 0; s < n; s += L::size) {
    const L a = L::load(from + s), b = L::load(from + s - 1),
            c = L::load(from + s - 2) + L::load(jump + s);
    L most = select(a > b, a, b);
    most = select(c > most, c, most);
    most = select(most == never, L(0), most);
    const L sum = exp_masked(a - most) + exp_masked(b - most) + exp_masked(c - most);
    (log(sum) + most + L::load(p + s)).store(to + s);
  }
}

}  // namespace tycho::cpu::TYCHO_LEVEL
