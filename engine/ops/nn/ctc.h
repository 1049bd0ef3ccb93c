// The kernel of ctc_loss, defined in cpu/nn/ctc.cpp.
#pragma once
#include "engine/ops/table/op.h"

namespace tycho::cpu {

// log_probs, targets (from 1), input lengths, target lengths, blank (from 0), zero_infinity: the
// losses and their gradient.
void ctc(Call& c);

}  // namespace tycho::cpu
