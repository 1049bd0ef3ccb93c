// What starts a program on a device (RowStart), together with the program's first step.
#pragma once
#include "engine/ops/elementwise/row_program.h"

namespace tycho::fuse {

// The first step is computed in the start's own pass, where it reads what the start gives (input `at`)
// and there is a way; its result then has memory, and `rest` is what comes after. `values`: somebody
// has what the start gives. False: nothing was done.
bool start_with_step(const RowProgram& p, RowStart& start, int at, bool values, Storage& result,
                     RowProgram& rest);

}  // namespace tycho::fuse
