// Folds of float64; products of all floating types.
#include "engine/cpu/reduce/level/fold_states.h"

namespace tycho::cpu::TYCHO_LEVEL {

const Fold* fold_f64(int op) { return folds<double> + op; }

}  // namespace tycho::cpu::TYCHO_LEVEL
