// Folds of float32.
#include "engine/cpu/reduce/level/fold_states.h"

namespace tycho::cpu::TYCHO_LEVEL {

const Fold* fold_f32(int op) {
  static constexpr Fold table[static_cast<int>(FoldOp::Count_)] = {
      make_fold<AddFloats<Itself>>(),
      make_fold<AddFloats<NanIsZero>>(),
      make_fold<AddFloats<Magnitude>>(),
      make_fold<AddSquares>(),
      make_fold<Add<float, NonZero>>(),
      make_fold<Add<float, Number>>(),
      {},
      make_fold<Extreme<float, Itself, true>>(),
      make_fold<Extreme<float, Itself, false>>(),
      make_fold<ExtremeMagnitude<float, true>>(),
      make_fold<ExtremeMagnitude<float, false>>(),
      make_arg<float, true>(),
      make_arg<float, false>(),
      make_moments<float>(),
  };
  return table + op;
}

}  // namespace tycho::cpu::TYCHO_LEVEL
