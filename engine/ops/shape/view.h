// What views of another shape share.
#pragma once
#include "engine/grad/node.h"

namespace tycho {

// The gradient of the first argument: the result's, in the argument's shape.
void reshape_back(Backward& b);

}  // namespace tycho
