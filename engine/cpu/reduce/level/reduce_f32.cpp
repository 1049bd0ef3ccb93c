// Folds of float32.
#include "engine/cpu/reduce/level/fold_states.h"

namespace tycho::cpu::TYCHO_LEVEL {

const Fold* fold_f32(int op) { return folds<float> + op; }

}  // namespace tycho::cpu::TYCHO_LEVEL
