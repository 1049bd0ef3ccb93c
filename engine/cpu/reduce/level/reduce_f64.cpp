// Folds of float64; products of all floating types.
#include "engine/cpu/reduce/level/fold_states.h"

namespace tycho::cpu::TYCHO_LEVEL {

const Fold* fold_f64(int op) {
  static constexpr Fold table[static_cast<int>(FoldOp::Count_)] = {
      make_fold<Add<double, Itself>>(),
      make_fold<Add<double, NanIsZero>>(),
      make_fold<Add<double, Magnitude>>(),
      make_fold<Add<double, Square<double>>>(),
      make_fold<Add<double, NonZero>>(),
      make_fold<Add<double, Number>>(),
      make_fold<Multiply<double>>(),
      make_fold<Extreme<double, Itself, true>>(),
      make_fold<Extreme<double, Itself, false>>(),
      make_fold<ExtremeMagnitude<double, true>>(),
      make_fold<ExtremeMagnitude<double, false>>(),
      make_arg<double, true>(),
      make_arg<double, false>(),
      make_moments<double>(),
  };
  return table + op;
}

}  // namespace tycho::cpu::TYCHO_LEVEL
