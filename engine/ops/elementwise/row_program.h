// RowProgram: rows of the elementwise table that are run together, tile by tile, over tensors of one
// shape that lie row by row (Backend::run_rows). Values between the rows stay in tiles; only results
// that somebody may look at go to memory.
#pragma once
#include "engine/ops/elementwise/elementwise.h"

namespace tycho {

struct RowProgram {
  static constexpr int kMostSteps = 48, kMostInputs = 16;

  struct Input {
    const char* data;
    DType dtype;  // converted to `type` on load
  };
  // What a step's operand is: an input, the result of an earlier step, or a number.
  enum class From : uint8_t { Input, Step, Number };
  struct Operand {
    From from;
    uint8_t index;  // of the input or the step
    double number;
  };
  struct Step {
    int row;
    int n;
    Operand operand[kOperands];
    char* to;  // null: only later steps read it
  };

  DType type;  // Float32 or Float64: of every result, and of the lanes
  int64_t numel;
  int inputs = 0, steps = 0;
  Input input[kMostInputs];
  Step step[kMostSteps];
};

}  // namespace tycho
