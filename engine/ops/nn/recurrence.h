// The kinds of recurrent layers, for operations and kernels. Nothing else may stand here: the lane
// levels include it.
#pragma once

namespace tycho {

enum class Recurrence : int { Tanh, Relu, Lstm, Gru };

}  // namespace tycho
